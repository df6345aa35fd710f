"""The agent's side of the protocol: what an editor asks for, and what it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

import msgspec

from threadline.acp.contents import Heard, heard
from threadline.acp.desk import Desk
from threadline.acp.failures import failure
from threadline.acp.opening import Openings
from threadline.acp.permissions import Permissions
from threadline.acp.platform import AcpPlatform
from threadline.acp.prompts import Prompts
from threadline.acp.sessions import AsyncSessionManager
from threadline.acp.table import Table
from threadline.errors import InvalidRequest, ThreadlineError
from threadline.gateway.supervisor import Supervisor
from threadline.model.safe_text import safe_line
from threadline.rpc.acp import (
    METHODS,
    PROTOCOL_VERSION,
    AcpStruct,
    AgentCapabilities,
    CancelNotification,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    InvalidParams,
    McpCapabilities,
    PromptCapabilities,
    PromptRequest,
    PromptResponse,
    SessionCapabilities,
    Supported,
    decode_params,
)
from threadline.rpc.connection import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Connection,
    Request,
    RpcError,
)
from threadline.rpc.lines import LineReader, LineWriter
from threadline.texts import editors as texts

Method: TypeAlias = Callable[[Any], Coroutine[Any, Any, AcpStruct]]

_CAN = AgentCapabilities(
    load_session=True,
    prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
    session_capabilities=SessionCapabilities(
        list=Supported(),
        delete=Supported(),
        additional_directories=Supported(),
        resume=Supported(),
        close=Supported(),
        fork=Supported(),
    ),
)
_NAME_CHARS = 80
# What is being answered when the editor closes its input may come to its end: whoever pipes prompts in wants the answers.
_GRACE_SECONDS = 2.0


class _Reopening(msgspec.Struct, eq=False):
    """A session that a prompt opens, and whether the prompt was cancelled meanwhile."""

    session_id: str
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""
        self.is_cancelled = True


class AcpServer:
    """Serves one editor over one connection: every request is answered once, and what it is told was stored before."""

    def __init__(
        self,
        desk: Desk,
        sessions: AsyncSessionManager,
        lines: LineReader,
        sink: LineWriter,
        supervisor: Supervisor,
        *,
        user: str,
        lease_seconds: float,
        version: str,
        takes_servers: bool = True,
    ) -> None:
        """`user` is who writes in the editor; `lease_seconds` how long a process that is gone holds what it had.

        `takes_servers`: whether the agent may use the MCP servers that an editor names.
        """
        start = supervisor.start
        self.connection = Connection(
            lines,
            sink,
            on_request=self._serve,
            on_notification=self._hear,
            start=start,
            name="editor",
            grace=_GRACE_SECONDS,
        )
        self.table = Table(desk, self.connection, Permissions(desk, start, self.connection), start)
        self.platform = AcpPlatform(self.table, desk, self.connection.run)
        self._openings = openings = Openings(desk, sessions, self.table, self.connection, start, user)
        self._prompts = Prompts(
            desk, supervisor, self.table.begin, openings.refresh, openings.forget, lease_seconds=lease_seconds
        )
        self._version = version
        servers = McpCapabilities(http=takes_servers, sse=takes_servers)
        self._can = msgspec.structs.replace(_CAN, mcp_capabilities=servers)
        self._is_initialized = False
        self._reopening: list[_Reopening] = []
        self._methods: dict[str, Method] = {
            "authenticate": self._authenticate,
            "session/new": openings.new,
            "session/load": openings.load,
            "session/resume": openings.resume,
            "session/fork": openings.fork,
            "session/list": openings.list,
            "session/close": openings.close,
            "session/delete": openings.delete,
            "session/set_mode": openings.set_mode,
            "session/set_config_option": openings.set_config_option,
        }

    def _serve(self, request: Request) -> Awaitable[object] | None:
        if not self._is_initialized and request.method != "initialize":
            raise RpcError(INVALID_REQUEST, texts.FIRST_INITIALIZE)
        if request.method == "initialize":
            return self._initialize(_params(request))
        if request.method == "session/prompt":
            return self._prompt(request, _params(request))
        method = self._methods.get(request.method)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, texts.NO_METHOD.format(method=safe_line(request.method, _NAME_CHARS)))
        return _told(method, _params(request))

    def _hear(self, method: str, raw: msgspec.Raw) -> None:
        if method != "session/cancel" or not self._is_initialized:
            return
        try:
            params = decode_params(method, raw)
        except InvalidParams:
            # Nobody waits for an answer to what nobody can read.
            return
        if not isinstance(params, CancelNotification):
            return
        for reopening in self._reopening:
            if reopening.session_id == params.session_id:
                reopening.cancel()
        conversation = self.table.find(params.session_id)
        if conversation is not None:
            conversation.cancel()

    def _initialize(self, params: AcpStruct) -> Awaitable[object]:
        assert isinstance(params, InitializeRequest)  # noqa: S101 - the table of methods says so
        self._is_initialized = True
        session = params.client_capabilities.session
        self.table.shows_notices = session is not None and session.notices is not None
        return _value(
            InitializeResponse(
                # There is one version that both can speak. Who can't speak it hangs up.
                protocol_version=PROTOCOL_VERSION,
                agent_capabilities=self._can,
                auth_methods=(),
                agent_info=Implementation(name="threadline", title=texts.TITLE, version=self._version),
            )
        )

    async def _authenticate(self, _params: AcpStruct) -> AcpStruct:
        raise RpcError(INVALID_PARAMS, texts.NO_SIGNING_IN)

    def _prompt(self, request: Request, params: AcpStruct) -> Awaitable[object] | None:
        assert isinstance(params, PromptRequest)  # noqa: S101 - the table of methods says so
        try:
            said = heard(params.prompt)
        except InvalidRequest as cause:
            raise RpcError(INVALID_PARAMS, str(cause)) from cause
        conversation = self.table.find(params.session_id)
        if conversation is None or conversation.is_closing:
            # Known from before, but not open here: whoever prompts it wants to go on with it.
            return self._prompt_reopened(request, params, said)
        prompt = self._prompts.open(conversation, said, request.answer)
        request.on_cancel = partial(conversation.cancel, prompt)
        return None

    def _prompt_reopened(self, request: Request, params: PromptRequest, said: Heard) -> Awaitable[object]:
        reopening = _Reopening(params.session_id)
        # Now, and not when its work begins: the next line may cancel it.
        self._reopening.append(reopening)
        request.on_cancel = reopening.cancel

        async def opened(params: PromptRequest) -> PromptResponse:
            try:
                conversation = await self._openings.reopen(params.session_id)
            finally:
                self._reopening.remove(reopening)
            if reopening.is_cancelled:
                return PromptResponse(stop_reason="cancelled")
            answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            prompt = self._prompts.open(conversation, said, partial(_settle, answered))
            request.on_cancel = partial(conversation.cancel, prompt)
            result = await answered
            if isinstance(result, Exception):
                raise result
            assert isinstance(result, PromptResponse)  # noqa: S101 - a prompt gives nothing else
            return result

        return _told(opened, params)


def _settle(coming: asyncio.Future[object], result: object) -> None:
    """Nobody waits any more where the editor has hung up."""
    if not coming.done():
        coming.set_result(result)


async def _value(value: AcpStruct) -> AcpStruct:
    return value


async def _told(method: Method, params: AcpStruct) -> AcpStruct:
    """What a method gives; what goes wrong as an error that says what to do."""
    try:
        return await method(params)
    except RpcError:
        raise
    except ThreadlineError as cause:
        raise failure(cause, getattr(params, "session_id", "")) from cause


def _params(request: Request) -> AcpStruct:
    if request.method not in METHODS:
        raise RpcError(METHOD_NOT_FOUND, texts.NO_METHOD.format(method=safe_line(request.method, _NAME_CHARS)))
    try:
        return decode_params(request.method, request.params)
    except InvalidParams as cause:
        raise RpcError(INVALID_PARAMS, str(cause)) from cause
