"""The block of a prompt that tells the agent where it is, who speaks, and where its words can go.

Equal contexts give equal bytes. Whatever strangers called themselves, their chats or their topics stands in
one JSON string on a line of its own, below a line of ours that says what it is; so no name can add a line,
end a string or pose as a heading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from threadline.model import words
from threadline.model.context import LOCAL, HomeChannel, SessionContext
from threadline.model.privacy import Redaction, is_private_id, quoted, redaction, redacts
from threadline.model.source import MAIN_ACCOUNT, SessionSource


def build_session_context_prompt(context: SessionContext, *, redact_pii: bool = False, secret: bytes = b"") -> str:
    """What the agent is told of its conversation.

    With `redact_pii`, ids of platforms whose ids the model never needs are replaced by hashes keyed with
    `secret`, and no phone number or e-mail address shows in any name. To redact with an empty secret is
    `InvalidRequest`.
    """
    hidden = redaction(redact_pii=redact_pii, secret=secret, known=_private_ids(context))
    source = _presented(context.source, hidden)
    sections = (
        (words.PROMPT_TITLE, words.PROMPT_LABELS),
        _source(source),
        _topic(source),
        _speaker(source, shared=bool(context.shared)),
        _notes(source.platform),
        _platforms(context.connected_platforms),
        _homes(context.home_channels, hidden),
        _targets(context),
    )
    return "\n\n".join("\n".join(lines) for section in sections if (lines := tuple(section)))


def _presented(source: SessionSource, hidden: Redaction) -> SessionSource:
    """The source as it may be shown: names inert, ids replaced where they must be, no handle."""
    platform = source.platform
    return SessionSource(
        platform=platform,
        chat_type=source.chat_type,
        chat_id=hidden.chat(platform, source.chat_id),
        thread_id=hidden.thread(platform, source.thread_id),
        chat_name=hidden.name(source.chat_name),
        chat_topic=hidden.name(source.chat_topic),
        user_id=hidden.sender(platform, source.sender),
        user_name=hidden.name(source.user_name),
    )


def _private_ids(context: SessionContext) -> Iterator[str | None]:
    source = context.source
    ids = (source.user_id, source.user_id_alt, source.chat_id, source.chat_id_alt)
    yield from (item for item in ids if item and is_private_id(source.platform, item))
    if redacts(source.platform):
        yield source.user_handle
    yield from (home.chat_id for home in context.home_channels if is_private_id(home.platform, home.chat_id))


def _source(source: SessionSource) -> Iterator[str]:
    yield words.SOURCE_HEADING
    if source.platform == LOCAL:
        yield words.SOURCE_PLATFORM_LOCAL
    else:
        yield words.SOURCE_PLATFORM.format(platform=source.platform)
    yield words.SOURCE_DESCRIPTION
    yield quoted(source.description)


def _topic(source: SessionSource) -> Iterator[str]:
    if source.chat_topic is None:
        return
    yield words.TOPIC_HEADING
    yield words.TOPIC
    yield quoted(source.chat_topic)


def _speaker(source: SessionSource, *, shared: bool) -> Iterator[str]:
    yield words.SPEAKER_HEADING
    if shared:
        yield words.SPEAKERS_SHARED
    elif source.user_name is not None:
        yield words.SPEAKER_NAME
        yield quoted(source.user_name)
    elif source.user_id is not None:
        yield words.SPEAKER_ID
        yield quoted(source.user_id)
    else:
        yield words.SPEAKER_LOCAL if source.platform == LOCAL else words.SPEAKER_UNKNOWN


def _notes(platform: str) -> Iterator[str]:
    if platform in words.NOTES:
        yield words.NOTES_HEADING.format(platform=platform)
        yield words.NOTES[platform]


def _platforms(connected: Iterable[str]) -> Iterator[str]:
    yield words.PLATFORMS_HEADING
    yield words.PLATFORM_LOCAL
    yield from (words.PLATFORM.format(platform=platform) for platform in connected if platform != LOCAL)


def _homes(channels: tuple[HomeChannel, ...], hidden: Redaction) -> Iterator[str]:
    if channels:
        yield words.HOMES_HEADING
    for channel in channels:
        platform = channel.platform
        account = None if channel.account == MAIN_ACCOUNT else hidden.name(channel.account)
        labels = (
            (words.HOME_NAME, hidden.name(channel.name)),
            (words.HOME_ACCOUNT, account),
            (words.HOME_CHAT, hidden.chat(platform, channel.chat_id)),
            (words.HOME_THREAD, hidden.thread(platform, channel.thread_id)),
        )
        for introduction, label in labels:
            if label is not None:
                yield introduction.format(platform=platform)
                yield quoted(label)


def _targets(context: SessionContext) -> Iterator[str]:
    yield words.TARGETS_HEADING
    yield words.TARGET_ORIGIN_LOCAL if context.source.platform == LOCAL else words.TARGET_ORIGIN
    yield words.TARGET_LOCAL
    with_home = dict.fromkeys(channel.platform for channel in context.home_channels)
    yield from (words.TARGET_PLATFORM.format(platform=name) for name in with_home if name != LOCAL)
    yield words.TARGET_CHAT
