"""What must hold in a Telegram chat however often gateways died. There a message has no key of ours: its words tell whose it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.system.gateway_promises import Delivered, Promises, Rows, Said, TakenTurn, shown_text, whole_answer
from tests.system.outside import OutsideAgent

from threadline.model.message import Message
from threadline.testing.scripted import ScriptedChat
from threadline.testing.telegram import BotApi
from threadline.texts import gateway as gateway_texts


class TelegramPromises(Promises):
    """The promises, held against what a Bot API shows."""

    def __init__(self, said: Sequence[Said], api: BotApi, agent: OutsideAgent, rows: Rows, *, kills: int) -> None:
        # Of a scripted chat nothing is asked.
        super().__init__(said, ScriptedChat(), agent, rows, kills=kills)
        self._api = api

    def _owner(self, user: str) -> str:
        return f"telegram:{self._api.person(user).id}"

    def _broken_chat(
        self, user: str, turns: Sequence[TakenTurn], answers: Sequence[Sequence[Message]]
    ) -> Iterator[str]:
        expected = self._deliveries(turns, answers)
        # One that is given up says so instead; its beginning may stand in the chat all the same.
        begun = {f"{turn.turn_id}.0": shown_text(turn, whole_answer(turn)) for turn in turns}
        owned, strangers = _by_delivery(self._api.texts(self._api.private(user)), expected, begun)
        if strangers:
            yield f"{user}: shown, and answers nothing: {strangers}; {expected}"
        for delivered in expected:
            own = owned.get(delivered.delivery_id, [])
            if fault := _fault_of(delivered, own):
                yield f"{user}: {delivered.delivery_id} is {delivered.state}: {fault}: {own}"
        if list(owned) != [delivered.delivery_id for delivered in expected]:
            yield f"{user}: shown as {list(owned)}, answered as {expected}"


def _by_delivery(
    texts: Sequence[str], expected: Sequence[Delivered], begun: Mapping[str, str]
) -> tuple[dict[str, list[str]], list[str]]:
    """What is shown of each answer, in the order of what came last of each: a repetition stands for the message.

    And what is no answer. Two answers may say the same; then each has its own.
    """
    owned: dict[str, list[str]] = {}
    strangers = []
    for text in texts:
        fitting = [one for one in expected if _is_of(text, one, begun.get(one.delivery_id, ""))]
        owner = next((one for one in fitting if not _is_whole(one, owned.get(one.delivery_id, ()))), None)
        if owner is None:
            strangers.append(text)
        else:
            owned[owner.delivery_id] = [*owned.pop(owner.delivery_id, ()), text]
    return owned, strangers


def _is_whole(delivered: Delivered, shown: Sequence[str]) -> bool:
    """Whether nothing more may be shown of it."""
    last = delivered.text if delivered.state == "sent" else gateway_texts.MAY_BE_REPEATED.format(text=delivered.text)
    return last in shown


def _is_of(text: str, delivered: Delivered, begun: str) -> bool:
    """Whether a message shows this answer: all of it or its beginning, or all of it again; in doubt, what was `begun`."""
    if delivered.text.startswith(text) or text == gateway_texts.MAY_BE_REPEATED.format(text=delivered.text):
        return True
    return delivered.state == "unknown" and begun.startswith(text)


def _fault_of(delivered: Delivered, texts: Sequence[str]) -> str | None:
    if delivered.state == "sent":
        return None if [*texts] == [delivered.text] else f"it should be there once, as {delivered.text!r}"
    if delivered.state != "unknown":
        return "it did not arrive"
    marked = gateway_texts.MAY_BE_REPEATED.format(text=delivered.text)
    if not texts or texts[-1] != marked:
        return f"it should say {marked!r}"
    return "repeated without a mark" if sum(text != marked for text in texts) > 1 else None
