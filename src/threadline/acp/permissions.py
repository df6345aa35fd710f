"""Permission questions of an agent: sent to the person in the editor, or answered by the session's mode."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

from threadline.acp.open_session import OpenPrompt, OpenSession
from threadline.acp.platform import GatewayBridge, new_message_id
from threadline.acp.translate import approval_request, call_approved, question_answered
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

# Sends a request to the editor: a method and its parameters; the result, unread.
Request: TypeAlias = Callable[[str, object], Awaitable[msgspec.Raw]]

_METHOD = "session/request_permission"
_ALLOWS = "/approve"
_ALLOW, _REJECT = "allow", "reject"
_STEP_SECONDS = 0.01
_TITLE_CHARS = 200
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class PermissionRequests:
    """Gets one answer to each question, and sends the button for it to the gateway."""

    def __init__(self, bridge: GatewayBridge, start: Start, request: Request) -> None:
        self._bridge = bridge
        self._start = start
        self._send_request = request

    def ask(self, session: OpenSession, message: Outgoing) -> None:
        """Start to ask a question. Its answer is sent to the gateway when it arrives."""
        self._start("acp.permission", self._decide(session, message))

    async def _decide(self, session: OpenSession, message: Outgoing) -> None:
        prompt = session.prompt
        if prompt is None or prompt.is_over:
            # No prompt waits any more. A cancelled turn is stopped; anything else counts as a no.
            allows = False
        elif session.mode != "ask":
            allows = session.mode == "allow"
        else:
            try:
                allows = await self._request(session, prompt, message)
            except ConnectionEnded:
                # The editor has closed the connection, so nobody can answer.
                return
        if prompt is None or not prompt.is_cancelled:
            self._answer(session, prompt, allows=allows)
            await self._send_button(session, prompt, message.buttons, allows=allows)

    def _answer(self, session: OpenSession, prompt: OpenPrompt | None, *, allows: bool) -> None:
        """Send the update that follows from the answer: for the call, or for a question without a call."""
        if prompt is None or prompt.is_over or prompt.ask is None:
            return
        if prompt.ask.call is None:
            if prompt.is_question_shown:
                session.send_update(question_answered(prompt.ask, allows=allows))
        elif allows:
            # The turn itself reports the end of a call that was denied.
            session.send_update(call_approved(prompt.ask.call))

    async def _request(self, session: OpenSession, prompt: OpenPrompt, message: Outgoing) -> bool:
        """Return whether the person allows it. Everything except a clear yes is a no."""
        await session.queue.wait_until_sent()
        question = prompt.ask or AskPermission(ask_id=new_message_id(), tool=safe_line(message.text, _TITLE_CHARS))
        prompt.ask, prompt.is_question_shown = question, True
        request = RequestPermissionRequest(
            session_id=session.session_id,
            tool_call=approval_request(question),
            options=tuple(_option(button, question) for button in message.buttons),
        )
        try:
            with _withdrawn_with(prompt):
                answer = decode_result(_METHOD, await self._send_request(_METHOD, request))
        except (RpcError, InvalidParams) as cause:
            log.warning("acp.permission_not_asked", session=session.session_id, error=str(cause))
            return False
        outcome = answer.outcome if isinstance(answer, RequestPermissionResponse) else None
        return isinstance(outcome, Selected) and outcome.option_id == _ALLOW

    async def _send_button(
        self, session: OpenSession, prompt: OpenPrompt | None, buttons: Sequence[Button], *, allows: bool
    ) -> None:
        """Send the answer to the gateway. It is repeated while the store is down."""
        pressed = next((button for button in buttons if _is_yes(button) is allows), None)
        if pressed is None:
            return
        press = new_message_id()
        event = Inbound(
            dedupe_key=f"{session.session_id}/press/{press}",
            message_id=press,
            source=session.source,
            sent_at=self._bridge.store.clock.now(),
            kind="button",
            mentions_us=True,
            button=pressed.value,
        )
        await self._say(session, prompt, pressed, event)

    async def _say(self, session: OpenSession, prompt: OpenPrompt | None, button: Button, event: Inbound) -> None:
        """Return when the press was admitted, or when the prompt has ended. Failures are retried until then."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._shown(session, button)
                await self._bridge.admit(event)
            except UnknownSession:
                # The session was deleted, and the question with it.
                return
            except (StoreError, PlatformError) as cause:
                log.warning("acp.not_pressed", session=session.session_id, error=repr(cause))
            else:
                return
            if prompt is None:
                await asyncio.sleep(pause)
            else:
                await prompt.wait_ended(pause)
                if prompt.is_over:
                    return
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _shown(self, session: OpenSession, button: Button) -> None:
        """Return once the store has the time at which the question was shown. It can't be answered before."""
        lane, code = target_of(session.source).ordering_key, button.value.rpartition(" ")[2]
        find_in_chat = self._bridge.store.approvals.find_in_chat
        while (question := await find_in_chat(lane, code)) is not None and question.shown_at is None:  # noqa: ASYNC110 - a row
            await asyncio.sleep(_STEP_SECONDS)


@contextmanager
def _withdrawn_with(prompt: OpenPrompt) -> Iterator[None]:
    """Cancel the enclosed wait when the prompt ends: the editor then removes the question from the screen."""
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


def _option(button: Button, question: AskPermission) -> PermissionOption:
    if _is_yes(button):
        kind: PermissionKind = "allow_always" if question.is_for_good else "allow_once"
        return PermissionOption(option_id=_ALLOW, name=button.label, kind=kind)
    return PermissionOption(option_id=_REJECT, name=button.label, kind="reject_once")
