"""What becomes of each kind of update, and of each field of a message: read, or passed over for a reason.

A test holds this against the library's own list, so that nothing that Telegram adds goes unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threadline.platforms.telegram.wire import Message, Shared, Update

# What is asked for. Everything else is not even sent.
ALLOWED_UPDATES: Final = tuple(name for name in Update.__struct_fields__ if name != "update_id")

# They may have been waiting since before we asked for anything.
PASSED_OVER_UPDATES: Final[Mapping[str, str]] = {
    "business_connection": "we answer for ourselves, not on behalf of a business",
    "business_message": "we answer for ourselves, not on behalf of a business",
    "edited_business_message": "we answer for ourselves, not on behalf of a business",
    "deleted_business_messages": "we answer for ourselves, not on behalf of a business",
    "chat_boost": "nothing was said",
    "removed_chat_boost": "nothing was said",
    "chat_join_request": "who may join is for the chat's admins",
    "chat_member": "nothing was said",
    "my_chat_member": "whether we may speak shows when we do",
    "chosen_inline_result": "inline queries are not answered",
    "inline_query": "inline queries are not answered",
    "guest_message": "we answer where we are a member",
    "managed_bot": "we look after no other bots",
    "message_reaction": "a reaction is no message",
    "message_reaction_count": "a reaction is no message",
    "poll": "votes are no messages",
    "poll_answer": "votes are no messages",
    "pre_checkout_query": "nothing is sold here",
    "purchased_paid_media": "nothing is sold here",
    "shipping_query": "nothing is sold here",
}

READ_FIELDS: Final = frozenset(Message.__struct_encode_fields__)
SHARED_FIELDS: Final = frozenset(Shared.__struct_fields__)

_PEOPLE = "who comes and goes is no message"
_CHAT = "the chat itself has changed"
_TOPIC = "a topic was opened or closed"
_CALL = "a call is no message"
_MONEY = "it is about money or gifts"
_TOLD = "a note of the platform about something said elsewhere"

# What happened in a chat without anything being said.
SERVICE_FIELDS: Final[Mapping[str, str]] = {
    "new_chat_members": _PEOPLE,
    "left_chat_member": _PEOPLE,
    "chat_owner_changed": _PEOPLE,
    "chat_owner_left": _PEOPLE,
    "users_shared": "people were chosen for a bot's keyboard, and we show none",
    "chat_shared": "a chat was chosen for a bot's keyboard, and we show none",
    "new_chat_title": _CHAT,
    "new_chat_photo": _CHAT,
    "delete_chat_photo": _CHAT,
    "chat_background_set": _CHAT,
    "group_chat_created": _CHAT,
    "supergroup_chat_created": _CHAT,
    "channel_chat_created": _CHAT,
    "message_auto_delete_timer_changed": _CHAT,
    "direct_message_price_changed": _CHAT,
    "paid_message_price_changed": _CHAT,
    "boost_added": _CHAT,
    "forum_topic_created": _TOPIC,
    "forum_topic_edited": _TOPIC,
    "forum_topic_closed": _TOPIC,
    "forum_topic_reopened": _TOPIC,
    "general_forum_topic_hidden": _TOPIC,
    "general_forum_topic_unhidden": _TOPIC,
    "video_chat_scheduled": _CALL,
    "video_chat_started": _CALL,
    "video_chat_ended": _CALL,
    "video_chat_participants_invited": _CALL,
    "gift": _MONEY,
    "unique_gift": _MONEY,
    "gift_upgrade_sent": _MONEY,
    "giveaway": _MONEY,
    "giveaway_created": _MONEY,
    "giveaway_winners": _MONEY,
    "giveaway_completed": _MONEY,
    "successful_payment": _MONEY,
    "refunded_payment": _MONEY,
    "suggested_post_approved": _MONEY,
    "suggested_post_approval_failed": _MONEY,
    "suggested_post_declined": _MONEY,
    "suggested_post_paid": _MONEY,
    "suggested_post_refunded": _MONEY,
    "pinned_message": _TOLD,
    "checklist_tasks_added": _TOLD,
    "checklist_tasks_done": _TOLD,
    "poll_option_added": _TOLD,
    "poll_option_deleted": _TOLD,
    "proximity_alert_triggered": _TOLD,
    "connected_website": "somebody logged in on a website",
    "write_access_allowed": "we may write; that shows when we do",
    "managed_bot_created": "we look after no other bots",
    "passport_data": "documents are not asked for",
    "web_app_data": "we show no web apps",
}

_LOOKS = "only how it looks"
_BUSINESS = "we answer for ourselves, not on behalf of a business"
_GUEST = "we answer where we are a member"

# What stands beside the words of a message and says nothing more to us.
UNUSED_FIELDS: Final[Mapping[str, str]] = {
    "author_signature": "a title that its bearer may choose; the sender is told apart by an id",
    "sender_tag": "a title that its bearer may choose; the sender is told apart by an id",
    "sender_boost_count": "who supports a chat has no other rights here",
    "business_connection_id": _BUSINESS,
    "sender_business_bot": _BUSINESS,
    "guest_bot_caller_chat": _GUEST,
    "guest_bot_caller_user": _GUEST,
    "guest_query_id": _GUEST,
    "direct_messages_topic": "the chat itself says whose it is",
    "effect_id": _LOOKS,
    "has_media_spoiler": _LOOKS,
    "show_caption_above_media": _LOOKS,
    "link_preview_options": _LOOKS,
    "has_protected_content": "what is kept here is never forwarded",
    "is_automatic_forward": "the origin of a forward says as much",
    "is_from_offline": "a message sent by a clock is a message",
    "is_paid_post": _MONEY,
    "paid_star_count": _MONEY,
    "suggested_post_info": _MONEY,
    "reply_markup": "buttons under a message of a bot",
    "reply_to_checklist_task_id": "the message itself is quoted",
    "reply_to_poll_option_id": "the message itself is quoted",
    "reply_to_story": "stories can't be seen by bots",
}
