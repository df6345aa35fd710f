"""Prompts: each goes in by the gateway's one door, and is answered once: with its turn's end, with an error, or as cancelled."""

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

# Takes the answer to a prompt, or the error that it is.
Answer: TypeAlias = Callable[[object], None]
# Notes that somebody waits in a session.
Note: TypeAlias = Callable[[OpenSession, OpenPrompt], None]
# Brings what the editor knows of a session up to date, after somebody may have changed it.
Refresh: TypeAlias = Callable[[OpenSession], Awaitable[None]]
# Lets go of a session that is gone.
Forget: TypeAlias = Callable[[OpenSession], None]

_STEP_SECONDS = 0.03
_WATCH_SECONDS = 1.0
_RENAMED_SECONDS = 0.25
_LOOKED_AT = 50
# How long an answer waits for what its turn had told besides.
_NOTICE_SECONDS = 2.0
_ID_CHARS = 80


class PromptRunner:
    """Carries prompts out, one at a time in each session."""

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
        """`note` is told who waits; `lease_seconds`: after how long a process that is gone loses what it held."""
        self._bridge = bridge
        self._start = supervisor.start
        self._begin = supervisor.begin
        self._after = supervisor.after
        self._note = note
        self._refresh = refresh
        self._forget = forget
        # A process that is gone is noticed after a lease and a third; another may have to be waited for.
        self._max_wait = 2 * lease_seconds + _WATCH_SECONDS

    def open(self, session: OpenSession, heard: PromptContent, answer: Answer) -> OpenPrompt:
        """Begins with a prompt; `answer` is given what comes of it, once. An error that says so where one waits already."""
        if session.prompt is not None:
            raise RpcError(INVALID_REQUEST, texts.BUSY)
        event = Inbound(
            # An editor has no name for a message, and changes none that was sent.
            dedupe_key=f"{session.session_id}/{new_message_id()}",
            message_id="",
            source=session.source,
            sent_at=self._bridge.store.clock.now(),
            text=heard.text,
            mentions_us=True,
        )

        def over(prompt: OpenPrompt, ending: Ending | Exception) -> None:
            self._over(session, prompt, heard, ending, answer)

        prompt = OpenPrompt(over, is_command=read_command(event) is not None, event=event)
        self._note(session, prompt)
        work = self._work(session, prompt, event, heard, session.work)
        session.work = self._begin("acp.prompt", self._guarded(session, prompt, work))
        return prompt

    def _over(
        self,
        session: OpenSession,
        prompt: OpenPrompt,
        heard: PromptContent,
        ending: Ending | Exception,
        answer: Answer,
    ) -> None:
        """Answers at once where nothing has to be told before. What was cancelled is ended behind that answer."""
        awaits = not isinstance(ending, Exception) and session.wait_for(ending.told)
        is_told = session.queue.is_empty and not prompt.is_command and not awaits
        if prompt.is_cancelled or is_told or isinstance(ending, Exception):
            self._answer(session, prompt, heard, ending, answer)
        else:
            self._start("acp.answer", self._answer_behind(session, prompt, heard, ending, answer))
        if prompt.is_cancelled:
            session.work = self._start("acp.wind_up", self._finish_cancel(session, prompt, session.work))

    async def _answer_behind(
        self, session: OpenSession, prompt: OpenPrompt, heard: PromptContent, ending: Ending, answer: Answer
    ) -> None:
        """Answers when all was told that comes before; what a command has changed is told then, too."""
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
        self._answer(session, prompt, heard, result, answer)

    def _answer(
        self,
        session: OpenSession,
        prompt: OpenPrompt,
        heard: PromptContent,
        ending: Ending | Exception,
        answer: Answer,
    ) -> None:
        has_spoken = prompt.is_taken and not prompt.is_command and not isinstance(ending, Exception)
        is_cancelled = not isinstance(ending, Exception) and ending.outcome == "stopped"
        if has_spoken and is_cancelled:
            # Behind this answer nothing is told.
            self._name(session, heard)
        session.leave(prompt, is_cancelled=is_cancelled)
        answer(ending if isinstance(ending, Exception) else _response(prompt, ending))
        if has_spoken and not is_cancelled:
            # Behind the answer, which does not wait for it.
            asyncio.get_running_loop().call_soon(self._after_answer, session, heard)

    def _name(self, session: OpenSession, heard: PromptContent) -> None:
        """The session has just been used, and has a name from the first words on."""
        if session.title is None:
            session.title = preview(heard.text) or None
        session.tell_name(self._bridge.store.clock.now())

    def _after_answer(self, session: OpenSession, heard: PromptContent) -> None:
        self._name(session, heard)
        if not session.is_titled:
            # The agent may have given it a name. Nobody waits for that: whoever prompts again at once is not held up by it.
            session.schedule_refresh(_RENAMED_SECONDS, self._look)

    def _look(self, session: OpenSession) -> None:
        self._start("acp.title", self._renamed(session))

    async def _renamed(self, session: OpenSession) -> None:
        # Whoever prompts next hears it where it is gone.
        with suppress(UnknownSession):
            entry = await self._bridge.store.get_session(session.stored_id)
            if entry.title is not None:
                await self._refresh(session)

    async def _work(
        self,
        session: OpenSession,
        prompt: OpenPrompt,
        event: Inbound,
        heard: PromptContent,
        before: asyncio.Task[None] | None,
    ) -> None:
        await _ended(before)
        if prompt.is_command:
            await self._wait_until_idle(session, prompt)
        files = [await self._bridge.store_file(session.source, file) for file in heard.files if not prompt.is_over]
        if files:
            event = msgspec.structs.replace(event, attachments=tuple(files))
        await self._admit(session, prompt, event)
        if prompt.is_command or prompt.stop_reason == "refusal":
            await self._watch(session, prompt, _STEP_SECONDS)
        elif not prompt.is_over:
            # Its turn tells when it is over. Whether that is still to be hoped for is looked at only where it takes its time.
            prompt.cancel_timer_on_end(self._after(_WATCH_SECONDS, partial(self._watch_on, session, prompt)))

    def _watch_on(self, session: OpenSession, prompt: OpenPrompt) -> None:
        work = self._watch(session, prompt, _WATCH_SECONDS)
        session.work = self._start("acp.watch", self._guarded(session, prompt, work))

    async def _guarded(self, session: OpenSession, prompt: OpenPrompt, work: Coroutine[Any, Any, None]) -> None:
        """Does that for a prompt; where it fails, whoever waits is told."""
        try:
            await work
        except ThreadlineError as cause:
            prompt.end(self._failed(session, cause))
        except Exception:
            # Whatever it was.
            log.exception("acp.prompt_broke", session=session.session_id)
            prompt.end(RpcError(INTERNAL, texts.FAILED))

    def _failed(self, session: OpenSession, cause: ThreadlineError) -> RpcError:
        """What whoever waits is told. A session that somebody has deleted elsewhere is not open here any more."""
        if isinstance(cause, UnknownSession):
            self._forget(session)
        return rpc_error_of(cause, session.session_id)

    async def _wait_until_idle(self, session: OpenSession, prompt: OpenPrompt) -> None:
        """Returns when nothing goes on there any more, or the prompt is over; a question that nobody answers is closed.

        What another process answers or asks is waited for, but not for ever: after that its answer is an error here, and its
        question is taken for one that was left behind. Nobody knows whether there is a window that still shows it.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not prompt.is_over:
            seen = await self._bridge.snapshot(session.source)
            turn = None if seen is None else seen.turn
            if seen is None or (turn is None and not seen.pending):
                return
            is_here = turn is None or turn.turn_id == session.last_turn_id
            is_late = loop.time() - began > self._max_wait
            if turn is not None and turn.state == "asking":
                if is_here or is_late:
                    await self._bridge.stop(session.source)
                    # It is waited for from now on that it ends.
                    began = loop.time()
            elif is_late and not is_here:
                raise RpcError(INVALID_REQUEST, texts.BUSY_ELSEWHERE)
            await asyncio.sleep(_STEP_SECONDS)

    async def _admit(self, session: OpenSession, prompt: OpenPrompt, event: Inbound) -> None:
        """Hands the prompt to the gateway, which takes it once nothing else goes on there; unless it is over before."""
        is_brought = False
        while not prompt.is_over and not prompt.is_offered:
            prompt.is_offered = True
            try:
                verdict = await self._bridge.admit(event)
            except ConversationBusy:
                # To look first would cost every prompt what hardly one needs.
                prompt.is_offered = False
                await self._wait_until_idle(session, prompt)
            except UnknownSession:
                # Deleted elsewhere; or another agent's window went on with it, which is no reason to lose it here.
                prompt.is_offered = False
                if is_brought:
                    raise
                is_brought = True
                await self._bridge.adopt(session.source)
            except ThreadlineError:
                # If it was taken all the same, nobody runs it: it is closed once its lease has ended.
                prompt.is_offered = False
                raise
            else:
                prompt.is_admitted = True
                prompt.is_taken = verdict == "accepted"
                _refuse(prompt, verdict)

    async def _watch(self, session: OpenSession, prompt: OpenPrompt, pause: float) -> None:
        """Returns when the prompt is over: its turn tells so. Of a command, and of what is done elsewhere, the store does."""
        while not prompt.is_over:
            if not prompt.is_running and not (prompt.is_asking and await self._asks(session)):
                await self._look_for_end(session, prompt)
            await prompt.wait_ended(pause)

    async def _look_for_end(self, session: OpenSession, prompt: OpenPrompt) -> None:
        if not await self._bridge.is_pending(session.source) and not prompt.is_running:
            prompt.end(await self._ending_from_store(session, prompt))

    async def _asks(self, session: OpenSession) -> bool:
        """Whether the turn still waits for somebody's word, or to go on with it."""
        seen = await self._bridge.snapshot(session.source)
        return seen is not None and seen.turn is not None

    async def _ending_from_store(self, session: OpenSession, prompt: OpenPrompt) -> Ending:
        """How a prompt ended whose turn was not seen to end here; what was answered elsewhere is told from the store."""
        if prompt.is_command or prompt.stop_reason == "refusal":
            return Ending(outcome="answered")
        if prompt.turn_id is not None:
            return Ending(outcome="stopped" if prompt.is_asking else "interrupted")
        seen = await self._bridge.snapshot(session.source, limit=_LOOKED_AT)
        if seen is None:
            raise UnknownSession
        roles = [message.role for message in seen.messages]
        asked = len(roles) - roles[::-1].index("user") if "user" in roles else len(roles)
        answer = [message.message for message in seen.messages[asked:]]
        for update in updates_of(answer, session.call_ids(new_message_id())):
            session.send_update(update)
        return Ending(outcome="answered")

    async def _finish_cancel(self, session: OpenSession, prompt: OpenPrompt, before: asyncio.Task[None] | None) -> None:
        """Ends what was cancelled, behind the answer that it is."""
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
            # Away for a while: whatever runs is not known to be over.
            return True


async def _ended(work: asyncio.Task[None] | None) -> None:
    """Returns when that work is over, however it ended."""
    if work is not None and not work.done():
        await asyncio.wait([work])


def _refuse(prompt: OpenPrompt, verdict: Verdict) -> None:
    """What was not taken is told as that."""
    if verdict == "refused":
        # Why not stands in a notice, which is on its way.
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
    """The error that tells an editor what is wrong with what it asked of that session, and what to do about it."""
    if isinstance(cause, RpcError):
        return cause
    if isinstance(cause, UnknownSession):
        shown = safe_line(session_id, _ID_CHARS)
        return RpcError(NOT_FOUND, texts.NO_SESSION.format(session_id=shown), {"sessionId": session_id})
    if isinstance(cause, StoreError | PlatformError):
        return RpcError(INTERNAL, texts.STORE_AWAY.format(reason=cause))
    return RpcError(INVALID_PARAMS, str(cause))
