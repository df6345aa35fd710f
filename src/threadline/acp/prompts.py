"""Prompts: each is admitted by the gateway, and is answered once: with the end of its turn, an error, or as cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import msgspec

from threadline.acp.open_session import OpenPrompt, OpenSession
from threadline.acp.platform import GatewayBridge, new_message_id
from threadline.acp.replay import updates_of
from threadline.acp.translate import PromptContent, usage_of
from threadline.errors import ConversationBusy, StoreError, ThreadlineError, UnknownSession
from threadline.gateway.command_table import read_command
from threadline.gateway.supervisor import Supervisor
from threadline.log import get_logger
from threadline.model.inbound import Inbound
from threadline.model.safe_text import safe_line
from threadline.ports.live import Ending
from threadline.ports.platform import PlatformError, Verdict
from threadline.rpc.acp import PromptResponse
from threadline.rpc.connection import INTERNAL, INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, RpcError
from threadline.store.text import preview
from threadline.texts import editors as texts

log = get_logger(__name__)

# Takes the answer to a prompt: a result or an error.
Answer: TypeAlias = Callable[[object], None]
# Records that a prompt waits in a session.
Note: TypeAlias = Callable[[OpenSession, OpenPrompt], None]
# Sends the editor the changes of a session.
Refresh: TypeAlias = Callable[[OpenSession], Awaitable[None]]
# Closes a session that was deleted.
Forget: TypeAlias = Callable[[OpenSession], None]

_STEP_SECONDS = 0.03
_WATCH_SECONDS = 1.0
_RENAMED_SECONDS = 0.25
_LOOKED_AT = 50
# How long an answer waits for the notices of its turn.
_NOTICE_SECONDS = 2.0
_ID_CHARS = 80


class PromptRunner:
    """Runs prompts, one at a time in each session."""

    def __init__(
        self,
        bridge: GatewayBridge,
        supervisor: Supervisor,
        note: Note,
        refresh: Refresh,
        forget: Forget,
        *,
        lease_seconds: float,
    ) -> None:
        """`note` is called when a prompt starts. `lease_seconds` is how long the lease of a dead process lasts."""
        self._bridge = bridge
        self._start = supervisor.start
        self._begin = supervisor.begin
        self._after = supervisor.after
        self._note = note
        self._refresh = refresh
        self._forget = forget
        # A dead process is noticed after its lease and a third. A second one may have to be waited for.
        self._max_wait = 2 * lease_seconds + _WATCH_SECONDS

    def open(self, session: OpenSession, content: PromptContent, answer: Answer) -> OpenPrompt:
        """Start a prompt. `answer` is called once with its result. Raise `RpcError` if another prompt waits in the session."""
        if session.prompt is not None:
            raise RpcError(INVALID_REQUEST, texts.BUSY)
        event = Inbound(
            # An editor has no message ids, and edits no sent message.
            dedupe_key=f"{session.session_id}/{new_message_id()}",
            message_id="",
            source=session.source,
            sent_at=self._bridge.store.clock.now(),
            text=content.text,
            mentions_us=True,
        )

        def over(prompt: OpenPrompt, ending: Ending | Exception) -> None:
            self._over(session, prompt, content, ending, answer)

        prompt = OpenPrompt(over, is_command=read_command(event) is not None, event=event)
        self._note(session, prompt)
        work = self._work(session, prompt, event, content, session.work)
        session.work = self._begin("acp.prompt", self._guarded(session, prompt, work))
        return prompt

    def _over(
        self,
        session: OpenSession,
        prompt: OpenPrompt,
        content: PromptContent,
        ending: Ending | Exception,
        answer: Answer,
    ) -> None:
        """Answer at once if nothing has to be sent before. A cancelled turn is ended after that answer."""
        awaits = not isinstance(ending, Exception) and session.wait_for(ending.told)
        is_told = session.queue.is_empty and not prompt.is_command and not awaits
        if prompt.is_cancelled or is_told or isinstance(ending, Exception):
            self._answer(session, prompt, content, ending, answer)
        else:
            self._start("acp.answer", self._answer_behind(session, prompt, content, ending, answer))
        if prompt.is_cancelled:
            session.work = self._start("acp.wind_up", self._finish_cancel(session, prompt, session.work))

    async def _answer_behind(
        self, session: OpenSession, prompt: OpenPrompt, content: PromptContent, ending: Ending, answer: Answer
    ) -> None:
        """Answer once everything before the answer was sent, including what a command has changed."""
        result: Ending | Exception = ending
        try:
            await session.all_sent(_NOTICE_SECONDS)
            await session.queue.wait_until_sent()
            if prompt.is_command:
                session.leave(prompt)
                await self._refresh(session)
        except ThreadlineError as cause:
            result = self._failed(session, cause)
        except Exception as cause:  # noqa: BLE001 - whatever it was, whoever waits is told
            result = cause
        self._answer(session, prompt, content, result, answer)

    def _answer(
        self,
        session: OpenSession,
        prompt: OpenPrompt,
        content: PromptContent,
        ending: Ending | Exception,
        answer: Answer,
    ) -> None:
        has_spoken = prompt.is_taken and not prompt.is_command and not isinstance(ending, Exception)
        is_cancelled = not isinstance(ending, Exception) and ending.outcome == "stopped"
        if has_spoken and is_cancelled:
            # No update may follow this answer.
            self._name(session, content)
        session.leave(prompt, is_cancelled=is_cancelled)
        answer(ending if isinstance(ending, Exception) else _response(prompt, ending))
        if has_spoken and not is_cancelled:
            # After the answer, which does not wait for it.
            asyncio.get_running_loop().call_soon(self._after_answer, session, content)

    def _name(self, session: OpenSession, content: PromptContent) -> None:
        """Send the new time of use, and the first words as the title of an untitled session."""
        if session.title is None:
            session.title = preview(content.text) or None
        session.tell_name(self._bridge.store.clock.now())

    def _after_answer(self, session: OpenSession, content: PromptContent) -> None:
        self._name(session, content)
        if not session.is_titled:
            # The agent may have set a title. The next prompt does not wait for this check.
            session.schedule_refresh(_RENAMED_SECONDS, self._look)

    def _look(self, session: OpenSession) -> None:
        self._start("acp.title", self._renamed(session))

    async def _renamed(self, session: OpenSession) -> None:
        # If it was deleted, the next prompt gets the error.
        with suppress(UnknownSession):
            entry = await self._bridge.store.get_session(session.stored_id)
            if entry.title is not None:
                await self._refresh(session)

    async def _work(
        self,
        session: OpenSession,
        prompt: OpenPrompt,
        event: Inbound,
        content: PromptContent,
        before: asyncio.Task[None] | None,
    ) -> None:
        await _ended(before)
        if prompt.is_command:
            await self._wait_until_idle(session, prompt)
        files = [await self._bridge.store_file(session.source, file) for file in content.files if not prompt.is_over]
        if files:
            event = msgspec.structs.replace(event, attachments=tuple(files))
        await self._admit(session, prompt, event)
        if prompt.is_command or prompt.stop_reason == "refusal":
            await self._watch(session, prompt, _STEP_SECONDS)
        elif not prompt.is_over:
            # The turn reports its own end. The store is checked only if that takes long.
            prompt.cancel_timer_on_end(self._after(_WATCH_SECONDS, partial(self._watch_on, session, prompt)))

    def _watch_on(self, session: OpenSession, prompt: OpenPrompt) -> None:
        work = self._watch(session, prompt, _WATCH_SECONDS)
        session.work = self._start("acp.watch", self._guarded(session, prompt, work))

    async def _guarded(self, session: OpenSession, prompt: OpenPrompt, work: Coroutine[Any, Any, None]) -> None:
        """Do this work for a prompt. An error becomes the answer to the prompt."""
        try:
            await work
        except ThreadlineError as cause:
            prompt.end(self._failed(session, cause))
        except Exception:
            # Whatever it was.
            log.exception("acp.prompt_broke", session=session.session_id)
            prompt.end(RpcError(INTERNAL, texts.FAILED))

    def _failed(self, session: OpenSession, cause: ThreadlineError) -> RpcError:
        """Return the error for the editor. A session that was deleted elsewhere is closed here."""
        if isinstance(cause, UnknownSession):
            self._forget(session)
        return rpc_error_of(cause, session.session_id)

    async def _wait_until_idle(self, session: OpenSession, prompt: OpenPrompt) -> None:
        """Return when nothing runs in the session, or the prompt is over. A question without an answer is closed.

        A turn or question of another process is waited for until `_max_wait`. Then a turn there is an error here, and a question
        is closed as left behind: it is unknown whether a window still shows it.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not prompt.is_over:
            snapshot = await self._bridge.snapshot(session.source)
            turn = None if snapshot is None else snapshot.turn
            if snapshot is None or (turn is None and not snapshot.pending):
                return
            is_here = turn is None or turn.turn_id == session.last_turn_id
            is_late = loop.time() - began > self._max_wait
            if turn is not None and turn.state == "asking":
                if is_here or is_late:
                    await self._bridge.stop(session.source)
                    # Wait for its end from now on.
                    began = loop.time()
            elif is_late and not is_here:
                raise RpcError(INVALID_REQUEST, texts.BUSY_ELSEWHERE)
            await asyncio.sleep(_STEP_SECONDS)

    async def _admit(self, session: OpenSession, prompt: OpenPrompt, event: Inbound) -> None:
        """Pass the prompt to the gateway, and repeat while the conversation is busy, unless the prompt ends before."""
        is_brought = False
        while not prompt.is_over and not prompt.is_offered:
            prompt.is_offered = True
            try:
                verdict = await self._bridge.admit(event)
            except ConversationBusy:
                # A check in advance would slow down every prompt for a rare case.
                prompt.is_offered = False
                await self._wait_until_idle(session, prompt)
            except UnknownSession:
                # Deleted elsewhere, or continued by a window of another agent: then it is adopted here.
                prompt.is_offered = False
                if is_brought:
                    raise
                is_brought = True
                await self._bridge.adopt(session.source)
            except ThreadlineError:
                # If it was accepted nevertheless, no process runs it: it is closed once its lease has ended.
                prompt.is_offered = False
                raise
            else:
                prompt.is_admitted = True
                prompt.is_taken = verdict == "accepted"
                _refuse(prompt, verdict)

    async def _watch(self, session: OpenSession, prompt: OpenPrompt, pause: float) -> None:
        """Return when the prompt is over. The end of commands and of turns in other processes is read from the store."""
        while not prompt.is_over:
            if not prompt.is_running and not (prompt.is_asking and await self._asks(session)):
                await self._look_for_end(session, prompt)
            await prompt.wait_ended(pause)

    async def _look_for_end(self, session: OpenSession, prompt: OpenPrompt) -> None:
        if not await self._bridge.is_pending(session.source) and not prompt.is_running:
            prompt.end(await self._ending_from_store(session, prompt))

    async def _asks(self, session: OpenSession) -> bool:
        """Return whether the turn still waits for an approval, or to continue after one."""
        snapshot = await self._bridge.snapshot(session.source)
        return snapshot is not None and snapshot.turn is not None

    async def _ending_from_store(self, session: OpenSession, prompt: OpenPrompt) -> Ending:
        """Return the ending of a prompt whose turn did not end here. An answer of another process is sent from the store."""
        if prompt.is_command or prompt.stop_reason == "refusal":
            return Ending(outcome="answered")
        if prompt.turn_id is not None:
            return Ending(outcome="stopped" if prompt.is_asking else "interrupted")
        snapshot = await self._bridge.snapshot(session.source, limit=_LOOKED_AT)
        if snapshot is None:
            raise UnknownSession
        roles = [message.role for message in snapshot.messages]
        asked = len(roles) - roles[::-1].index("user") if "user" in roles else len(roles)
        answer = [message.message for message in snapshot.messages[asked:]]
        for update in updates_of(answer, session.call_ids(new_message_id())):
            session.send_update(update)
        return Ending(outcome="answered")

    async def _finish_cancel(self, session: OpenSession, prompt: OpenPrompt, before: asyncio.Task[None] | None) -> None:
        """Stop a cancelled turn, after the answer to its prompt."""
        await _ended(before)
        is_stopped = False
        while prompt.is_offered and (not is_stopped or await self._is_pending(session)):
            try:
                is_stopped = is_stopped or await self._bridge.stop(session.source)
                is_stopped = is_stopped or not await self._bridge.is_pending(session.source)
            except ThreadlineError as cause:
                log.warning("acp.not_stopped", session=session.session_id, error=repr(cause))
            await asyncio.sleep(_STEP_SECONDS)
        session.cancel_finished()

    async def _is_pending(self, session: OpenSession) -> bool:
        try:
            return await self._bridge.is_pending(session.source)
        except ThreadlineError:
            # The store is down: a running turn may not be over.
            return True


async def _ended(work: asyncio.Task[None] | None) -> None:
    """Return when this task has ended, whatever its result."""
    if work is not None and not work.done():
        await asyncio.wait([work])


def _refuse(prompt: OpenPrompt, verdict: Verdict) -> None:
    """Raise the error for a message that was not accepted, or note a refusal."""
    if verdict == "refused":
        # The reason is in a notice that follows.
        prompt.stop_reason = "refusal"
    elif verdict == "ignored":
        raise RpcError(INVALID_REQUEST, texts.NOT_LET_IN)
    elif verdict == "parked":
        raise RpcError(INVALID_PARAMS, texts.NOT_KEPT)


def _response(prompt: OpenPrompt, ending: Ending) -> PromptResponse | RpcError:
    match ending.outcome:
        case "answered":
            return PromptResponse(stop_reason=prompt.stop_reason, usage=usage_of(prompt.usage))
        case "stopped":
            return PromptResponse(stop_reason="cancelled", usage=usage_of(prompt.usage))
        case "failed":
            return RpcError(INTERNAL, ending.notice or texts.FAILED)
        case "parked":
            return RpcError(INTERNAL, texts.PUT_ASIDE)
    return RpcError(INTERNAL, texts.BROKE_OFF)


def rpc_error_of(cause: ThreadlineError, session_id: str) -> RpcError:
    """Return the error for the editor: what is wrong with its request about this session, and what to do next."""
    if isinstance(cause, RpcError):
        return cause
    if isinstance(cause, UnknownSession):
        shown = safe_line(session_id, _ID_CHARS)
        return RpcError(NOT_FOUND, texts.NO_SESSION.format(session_id=shown), {"sessionId": session_id})
    if isinstance(cause, StoreError | PlatformError):
        return RpcError(INTERNAL, texts.STORE_AWAY.format(reason=cause))
    return RpcError(INVALID_PARAMS, str(cause))
