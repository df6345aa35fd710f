"""What a store can do, said once for both clients: each verb is a plan of steps that either of them carries out."""

from __future__ import annotations

from threadline.store.verbs.accounts import UsageVerbs
from threadline.store.verbs.base import IsBusy, StoreSettings
from threadline.store.verbs.care import CareVerbs, StoreFacts
from threadline.store.verbs.conversations import ConversationVerbs
from threadline.store.verbs.disclosure import DisclosureVerbs
from threadline.store.verbs.editors import EditorVerbs
from threadline.store.verbs.files import FileVerbs
from threadline.store.verbs.finding import SearchVerbs
from threadline.store.verbs.transcripts import TranscriptVerbs

__all__ = ["IsBusy", "StoreFacts", "StoreSettings", "Verbs"]


class Verbs(
    ConversationVerbs,
    TranscriptVerbs,
    FileVerbs,
    UsageVerbs,
    SearchVerbs,
    EditorVerbs,
    DisclosureVerbs,
    CareVerbs,
):
    """All verbs, as plans."""
