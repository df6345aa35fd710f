"""Every method that we know: who answers it, with what, and how settled it is."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from threadline.rpc.acp import calls, client_calls, setup, tools, updates
from threadline.rpc.acp.mending import WrongShape, read
from threadline.rpc.acp.shape import Shape

Side: TypeAlias = Literal["agent", "client", "both"]
Kind: TypeAlias = Literal["request", "notification"]
Status: TypeAlias = Literal["stable", "unstable", "legacy"]


class Method(msgspec.Struct, frozen=True):
    """A method: `side` is who receives it; a notification has no result."""

    name: str
    side: Side
    params: type[Shape]
    result: type[Shape] | None = None
    status: Status = "stable"

    @property
    def kind(self) -> Kind:
        """Whether it is answered."""
        return "notification" if self.result is None else "request"


_ALL = (
    Method("initialize", "agent", setup.InitializeRequest, setup.InitializeResponse),
    Method("authenticate", "agent", setup.AuthenticateRequest, setup.Nothing),
    Method("logout", "agent", setup.Nothing, setup.Nothing),
    Method("session/new", "agent", calls.NewSessionRequest, calls.NewSessionResponse),
    Method("session/load", "agent", calls.LoadSessionRequest, calls.LoadSessionResponse),
    Method("session/resume", "agent", calls.ResumeSessionRequest, calls.ResumeSessionResponse),
    Method("session/fork", "agent", calls.ForkSessionRequest, calls.ForkSessionResponse, "unstable"),
    Method("session/list", "agent", calls.ListSessionsRequest, calls.ListSessionsResponse),
    Method("session/close", "agent", calls.CloseSessionRequest, setup.Nothing),
    Method("session/delete", "agent", calls.DeleteSessionRequest, setup.Nothing),
    Method("session/set_mode", "agent", calls.SetModeRequest, setup.Nothing),
    Method("session/set_model", "agent", calls.SetModelRequest, setup.Nothing, "legacy"),
    Method("session/set_config_option", "agent", calls.SetConfigOptionRequest, calls.SetConfigOptionResponse),
    Method("session/prompt", "agent", calls.PromptRequest, calls.PromptResponse),
    Method("session/cancel", "agent", calls.CancelNotification),
    Method("$/cancel_request", "both", calls.CancelRequestNotification),
    Method("session/update", "client", updates.SessionNotification),
    Method("session/request_permission", "client", tools.RequestPermissionRequest, tools.RequestPermissionResponse),
    Method("fs/read_text_file", "client", client_calls.ReadTextFileRequest, client_calls.ReadTextFileResponse),
    Method("fs/write_text_file", "client", client_calls.WriteTextFileRequest, setup.Nothing),
    Method("terminal/create", "client", client_calls.CreateTerminalRequest, client_calls.CreateTerminalResponse),
    Method("terminal/output", "client", client_calls.OneTerminal, client_calls.TerminalOutputResponse),
    Method("terminal/wait_for_exit", "client", client_calls.OneTerminal, client_calls.TerminalExit),
    Method("terminal/kill", "client", client_calls.OneTerminal, setup.Nothing),
    Method("terminal/release", "client", client_calls.OneTerminal, setup.Nothing),
    Method(
        "elicitation/create", "client", client_calls.CreateElicitationRequest, client_calls.CreateElicitationResponse
    ),
    Method("elicitation/complete", "client", client_calls.CompleteElicitationNotification),
)
METHODS: dict[str, Method] = {one.name: one for one in _ALL}


def decode_params(method: str, raw: msgspec.Raw | bytes) -> Shape:
    """The params of a method that we know. Raises WrongShape, with a sentence for whoever sent them."""
    known = METHODS[method]
    try:
        if known.params is updates.SessionNotification:
            return _read_update(raw)
        return read(raw, known.params)
    except WrongShape as wrong:
        raise WrongShape(f"The params of {method} don't fit: {wrong}") from wrong


def decode_result(method: str, raw: msgspec.Raw | bytes) -> Shape:
    """What a method that we know was answered. Raises WrongShape. Null is an empty result."""
    known = METHODS[method]
    if known.result is None:
        raise WrongShape(f"{method} is a notification: it is never answered.")
    try:
        return read(raw, known.result)
    except WrongShape as wrong:
        raise WrongShape(f"The result of {method} doesn't fit: {wrong}") from wrong


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str
    update: _Tag


class _Tag(msgspec.Struct, frozen=True, rename="camel"):
    session_update: str


def _read_update(raw: msgspec.Raw | bytes) -> Shape:
    """An update is never the reason why one can't go on: what we can't read is an `UnknownUpdate`."""
    try:
        return read(raw, updates.SessionNotification)
    except WrongShape:
        named = read(raw, _Named)
        unknown = updates.UnknownUpdate(name=named.update.session_update)
        return updates.SessionNotification(session_id=named.session_id, update=unknown)
