"""The server for an editor: the table of protocol methods, and the routing of prompts and cancels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

import msgspec

from threadline.acp.permissions import PermissionRequests
from threadline.acp.platform import AcpPlatform, GatewayBridge, OpenSessions
from threadline.acp.prompts import PromptRunner, rpc_error_of
from threadline.acp.session_calls import SessionCalls
from threadline.acp.sessions import AsyncSessionManager
from threadline.acp.translate import PromptContent, read_prompt
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

AGENT_CAPABILITIES = AgentCapabilities(
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
# How long running prompts may finish after the editor closed its input: piped prompts still get answers.
_GRACE_SECONDS = 2.0


class _PendingReopen(msgspec.Struct, eq=False):
    """A session that a prompt opens, and whether the prompt was cancelled meanwhile."""

    session_id: str
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Record that the prompt was cancelled."""
        self.is_cancelled = True


class AcpServer:
    """Serves one editor over one connection. Every request is answered once, and everything sent was stored before."""

    def __init__(
        self,
        bridge: GatewayBridge,
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
        """`user` is the person who uses the editor; `lease_seconds` is how long the lease of a dead process lasts.

        `takes_servers`: whether the agent may use the MCP servers that an editor names.
        """
        start = supervisor.start
        self.connection = Connection(
            lines,
            sink,
            on_request=self._serve,
            on_notification=self._on_notification,
            start=start,
            name="editor",
            grace=_GRACE_SECONDS,
        )
        permissions = PermissionRequests(bridge, start, self.connection.request)
        self.open_sessions = OpenSessions(bridge, self.connection, permissions.ask, start)
        self.platform = AcpPlatform(self.open_sessions, bridge, self.connection.run)
        self._session_calls = session_calls = SessionCalls(
            bridge, sessions, self.open_sessions, self.connection, start, user
        )
        self._prompts = PromptRunner(
            bridge,
            supervisor,
            self.open_sessions.begin,
            session_calls.refresh,
            session_calls.close_lost,
            lease_seconds=lease_seconds,
        )
        self._version = version
        servers = McpCapabilities(http=takes_servers, sse=takes_servers)
        self._can = msgspec.structs.replace(AGENT_CAPABILITIES, mcp_capabilities=servers)
        self._is_initialized = False
        self._reopening: list[_PendingReopen] = []
        self._methods: dict[str, Method] = {
            "authenticate": self._authenticate,
            "session/new": session_calls.new,
            "session/load": session_calls.load,
            "session/resume": session_calls.resume,
            "session/fork": session_calls.fork,
            "session/list": session_calls.list,
            "session/close": session_calls.close,
            "session/delete": session_calls.delete,
            "session/set_mode": session_calls.set_mode,
            "session/set_config_option": session_calls.set_config_option,
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
        return _with_rpc_errors(method, _params(request))

    def _on_notification(self, method: str, raw: msgspec.Raw) -> None:
        if method != "session/cancel" or not self._is_initialized:
            return
        try:
            params = decode_params(method, raw)
        except InvalidParams:
            # An unreadable notification gets no answer.
            return
        if not isinstance(params, CancelNotification):
            return
        for reopening in self._reopening:
            if reopening.session_id == params.session_id:
                reopening.cancel()
        session = self.open_sessions.find(params.session_id)
        if session is not None:
            session.cancel()

    def _initialize(self, params: AcpStruct) -> Awaitable[object]:
        assert isinstance(params, InitializeRequest)  # noqa: S101 - the table of methods says so
        self._is_initialized = True
        session = params.client_capabilities.session
        self.open_sessions.shows_notices = session is not None and session.notices is not None
        return _value(
            InitializeResponse(
                # Only this version is supported. An editor without it closes the connection.
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
            content = read_prompt(params.prompt)
        except InvalidRequest as cause:
            raise RpcError(INVALID_PARAMS, str(cause)) from cause
        session = self.open_sessions.find(params.session_id)
        if session is None or session.is_closing:
            # A stored session that is not open here: the prompt reopens it.
            return self._prompt_reopened(request, params, content)
        prompt = self._prompts.open(session, content, request.answer)
        request.on_cancel = partial(session.cancel, prompt)
        return None

    def _prompt_reopened(self, request: Request, params: PromptRequest, content: PromptContent) -> Awaitable[object]:
        reopening = _PendingReopen(params.session_id)
        # Registered now, not when the task starts: the next line may cancel it.
        self._reopening.append(reopening)
        request.on_cancel = reopening.cancel

        async def opened(params: PromptRequest) -> PromptResponse:
            try:
                session = await self._session_calls.reopen(params.session_id)
            finally:
                self._reopening.remove(reopening)
            if reopening.is_cancelled:
                return PromptResponse(stop_reason="cancelled")
            answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            prompt = self._prompts.open(session, content, partial(_settle, answered))
            request.on_cancel = partial(session.cancel, prompt)
            result = await answered
            if isinstance(result, Exception):
                raise result
            assert isinstance(result, PromptResponse)  # noqa: S101 - a prompt gives nothing else
            return result

        return _with_rpc_errors(opened, params)


def _settle(coming: asyncio.Future[object], result: object) -> None:
    """Set the result, unless the editor has closed the connection."""
    if not coming.done():
        coming.set_result(result)


async def _value(value: AcpStruct) -> AcpStruct:
    return value


async def _with_rpc_errors(method: Method, params: AcpStruct) -> AcpStruct:
    """Return the result of a method. An error is raised as `RpcError` that says what to do."""
    try:
        return await method(params)
    except RpcError:
        raise
    except ThreadlineError as cause:
        raise rpc_error_of(cause, getattr(params, "session_id", "")) from cause


def _params(request: Request) -> AcpStruct:
    if request.method not in METHODS:
        raise RpcError(METHOD_NOT_FOUND, texts.NO_METHOD.format(method=safe_line(request.method, _NAME_CHARS)))
    try:
        return decode_params(request.method, request.params)
    except InvalidParams as cause:
        raise RpcError(INVALID_PARAMS, str(cause)) from cause
