"""Questions of an agent: put to the person in the editor, or answered by the mode that they chose."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from threadline.acp.conversation import Conversation, Prompt
from threadline.acp.desk import Desk, new_id
from threadline.acp.translate import asked_for, call_allowed, question_answered
from threadline.errors import StoreError, UnknownSession
from threadline.log import get_logger
from threadline.model.delivery import Button, target_of
from threadline.model.inbound import Inbound
from threadline.model.safe_text import safe_line
from threadline.ports.agent import AskPermission
from threadline.ports.platform import Outgoing, PlatformError
from threadline.rpc.acp import (
    InvalidParams,
    PermissionKind,
    PermissionOption,
    RequestPermissionRequest,
    RequestPermissionResponse,
    Selected,
    decode_result,
)
from threadline.rpc.connection import ConnectionEnded, RpcError, Start

log = get_logger(__name__)

_METHOD = "session/request_permission"
_ALLOWS = "/approve"
_ALLOW, _REJECT = "allow", "reject"
_STEP_SECONDS = 0.01
_TITLE_CHARS = 200
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Asks(Protocol):
    """Who puts a request to the editor."""

    async def request(self, method: str, params: object) -> msgspec.Raw: ...


class Permissions:
    """Gets each question answered once, and presses the button for it."""

    def __init__(self, desk: Desk, start: Start, editor: Asks) -> None:
        self._desk = desk
        self._start = start
        self._editor = editor

    def ask(self, conversation: Conversation, message: Outgoing) -> None:
        """Puts a question; its answer is on its way when it comes."""
        self._start("acp.permission", self._decide(conversation, message))

    async def _decide(self, conversation: Conversation, message: Outgoing) -> None:
        prompt = conversation.prompt
        if prompt is None or prompt.is_over:
            # Nobody waits there any more. What they cancelled is ended; for anything else nobody can have meant a yes.
            allows = False
        elif conversation.mode != "ask":
            allows = conversation.mode == "allow"
        else:
            try:
                allows = await self._put(conversation, prompt, message)
            except ConnectionEnded:
                # The editor is gone, and with it whoever could have answered.
                return
        if prompt is None or not prompt.is_cancelled:
            self._settle(conversation, prompt, allows=allows)
            await self._press(conversation, prompt, message.buttons, allows=allows)

    def _settle(self, conversation: Conversation, prompt: Prompt | None, *, allows: bool) -> None:
        """Tells what the answer makes of what the editor shows: the call, or the question where that stands for itself."""
        if prompt is None or prompt.is_over or prompt.ask is None:
            return
        if prompt.ask.call is None:
            if prompt.is_put:
                conversation.tell(question_answered(prompt.ask, allows=allows))
        elif allows:
            # What comes of one that is not allowed its turn tells, or its end.
            conversation.tell(call_allowed(prompt.ask.call))

    async def _put(self, conversation: Conversation, prompt: Prompt, message: Outgoing) -> bool:
        """What the person says. Whatever is not clearly a yes is a no."""
        await conversation.outlet.flushed()
        asked = prompt.ask or AskPermission(ask_id=new_id(), tool=safe_line(message.text, _TITLE_CHARS))
        prompt.ask, prompt.is_put = asked, True
        request = RequestPermissionRequest(
            session_id=conversation.session_id,
            tool_call=asked_for(asked),
            options=tuple(_option(button, asked) for button in message.buttons),
        )
        try:
            with _withdrawn_with(prompt):
                answer = decode_result(_METHOD, await self._editor.request(_METHOD, request))
        except (RpcError, InvalidParams) as cause:
            log.warning("acp.permission_not_asked", session=conversation.session_id, error=str(cause))
            return False
        outcome = answer.outcome if isinstance(answer, RequestPermissionResponse) else None
        return isinstance(outcome, Selected) and outcome.option_id == _ALLOW

    async def _press(
        self, conversation: Conversation, prompt: Prompt | None, buttons: Sequence[Button], *, allows: bool
    ) -> None:
        """Gives the gateway the answer: a person's word is not lost because the store was away for a while."""
        wanted = next((button for button in buttons if _is_yes(button) is allows), None)
        if wanted is None:
            return
        press = new_id()
        event = Inbound(
            dedupe_key=f"{conversation.session_id}/press/{press}",
            message_id=press,
            source=conversation.source,
            sent_at=self._desk.store.clock.now(),
            kind="button",
            mentions_us=True,
            button=wanted.value,
        )
        await self._say(conversation, prompt, wanted, event)

    async def _say(self, conversation: Conversation, prompt: Prompt | None, button: Button, event: Inbound) -> None:
        """Returns when the press was heard, or when nobody waits any more for what comes of it; it is said again until then."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._shown(conversation, button)
                await self._desk.say(event)
            except UnknownSession:
                # Deleted meanwhile, and the question with it.
                return
            except (StoreError, PlatformError) as cause:
                log.warning("acp.not_pressed", session=conversation.session_id, error=repr(cause))
            else:
                return
            if prompt is None:
                await asyncio.sleep(pause)
            else:
                await prompt.rest(pause)
                if prompt.is_over:
                    return
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _shown(self, conversation: Conversation, button: Button) -> None:
        """Returns when it is stored that the question was shown: before that nobody can answer it."""
        lane, code = target_of(conversation.source).ordering_key, button.value.rpartition(" ")[2]
        find_in_chat = self._desk.store.approvals.find_in_chat
        while (asked := await find_in_chat(lane, code)) is not None and asked.shown_at is None:  # noqa: ASYNC110 - a row
            await asyncio.sleep(_STEP_SECONDS)


@contextmanager
def _withdrawn_with(prompt: Prompt) -> Iterator[None]:
    """What is waited for in here is given up when the prompt ends without it: its question must not stay on the screen."""
    task = asyncio.current_task()

    def give_up(_: object) -> None:
        if task is not None:
            task.cancel()

    prompt.ended.add_done_callback(give_up)
    try:
        yield
    finally:
        prompt.ended.remove_done_callback(give_up)


def _is_yes(button: Button) -> bool:
    return button.value.startswith(_ALLOWS)


def _option(button: Button, asked: AskPermission) -> PermissionOption:
    if _is_yes(button):
        kind: PermissionKind = "allow_always" if asked.is_for_good else "allow_once"
        return PermissionOption(option_id=_ALLOW, name=button.label, kind=kind)
    return PermissionOption(option_id=_REJECT, name=button.label, kind="reject_once")
