"""What people say and press on the page, as the gateway hears it. Pure."""

from __future__ import annotations

from datetime import datetime

from threadline.model.client_sources import web_chat_id, web_source
from threadline.model.inbound import Inbound
from threadline.ports.live import Said, Speaker


def spoken(who: Speaker, conversation: str, said: Said, *, at: datetime) -> Inbound:
    """A message that somebody wrote."""
    return Inbound(
        # With its chat: ids are made by pages, and two may make the same.
        dedupe_key=f"{web_chat_id(who.user_id, conversation)}/{said.message_id}",
        message_id=said.message_id,
        source=web_source(who.user_id, conversation, who.name),
        sent_at=at,
        text=said.text,
        mentions_us=True,
        attachments=said.attachments,
    )


def pressed(who: Speaker, conversation: str, press_id: str, value: str, *, at: datetime) -> Inbound:
    """A button that somebody pressed."""
    return Inbound(
        dedupe_key=f"{web_chat_id(who.user_id, conversation)}/press/{press_id}",
        message_id=press_id,
        source=web_source(who.user_id, conversation, who.name),
        sent_at=at,
        kind="button",
        mentions_us=True,
        button=value,
    )
