"""Decode what real peers send, and the table of all known methods.

A message that fits is decoded in one go. A message that does not is decoded field by field: the protocol requires that an
optional field that does not fit counts as not given, and that an item of a list that does not fit is left out. Only what a
message makes no sense without is an error, and the error says where it is.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from threadline.errors import InvalidRequest
from threadline.rpc.acp import agent_methods, client_methods, content
from threadline.rpc.acp.content import AcpStruct, StrictStruct

__all__ = [
    "METHODS",
    "InvalidParams",
    "Method",
    "decode",
    "decode_params",
    "decode_result",
]

T = TypeVar("T", bound=msgspec.Struct)

_PLAIN: dict[type[inspect.Type], tuple[type, str]] = {
    inspect.StrType: (str, "text"),
    inspect.IntType: (int, "a whole number"),
    inspect.FloatType: (float, "a number"),
    inspect.BoolType: (bool, "true or false"),
    inspect.NoneType: (type(None), "null"),
}

# So many values of a message that does not fit are looked at.
_VALUES = 20_000

Side: TypeAlias = Literal["agent", "client", "both"]
Kind: TypeAlias = Literal["request", "notification"]
Status: TypeAlias = Literal["stable", "unstable", "legacy"]


class InvalidParams(InvalidRequest):
    """Params or a result have the wrong shape."""


class _TooLong(Exception):
    """The message has more values than are checked one by one."""


def _wrong(at: str, must: str) -> InvalidParams:
    return InvalidParams(f"`{at}` {must}." if at else f"What came {must}.")


def decode(raw: msgspec.Raw | bytes, shape: type[T]) -> T:
    """Return the decoded value, repaired where the protocol requires it. Null is an empty object. Raises InvalidParams."""
    try:
        return _read(raw, shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong("", "must be JSON, and not nested without end") from error


def _read(raw: msgspec.Raw | bytes, shape: type[T]) -> T:
    built: T
    try:
        built = _decoder(shape).decode(raw)
    except msgspec.ValidationError:
        value = msgspec.json.decode(raw)
        built = _LenientDecoder().built({} if value is None else value, _described(shape))
    return built


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


@cache
def _described(shape: Any) -> inspect.Type:
    return inspect.type_info(shape)


class _LenientDecoder:
    """Decodes one message field by field, up to a limit: a long one that does not fit would block everything else."""

    def __init__(self) -> None:
        self._left = _VALUES

    def built(self, value: Any, info: inspect.Type) -> Any:
        """Return `value` as this type. Raises InvalidParams."""
        try:
            return self._build(value, info, "", lax=False)
        except _TooLong:
            raise _wrong("", "does not fit, and is too long to be mended") from None

    def _build(self, value: Any, info: inspect.Type, at: str, *, lax: bool) -> Any:
        """Return `value` as this type; `lax` drops items of a collection that do not fit. Raises InvalidParams."""
        self._left -= 1
        if self._left < 0:
            raise _TooLong
        match info:
            case inspect.Metadata():
                return self._build(value, info.type, at, lax=lax)
            case inspect.StructType():
                return self._build_struct(value, info, at)
            case inspect.UnionType():
                return self._build_union(value, info, at, lax=lax)
            case inspect.VarTupleType():
                return self._build_list(value, info, at, lax=lax)
            case inspect.DictType():
                return self._build_dict(value, info, at, lax=lax)
            case inspect.RawType():
                return msgspec.Raw(msgspec.json.encode(value))
            case _:
                return _build_plain(value, info, at)

    def _build_struct(self, value: Any, info: inspect.StructType, at: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(at, "must be an object")
        firm = issubclass(info.cls, StrictStruct)
        fields: dict[str, Any] = {}
        for field in info.fields:
            place = f"{at}.{field.encode_name}" if at else field.encode_name
            given = value.get(field.encode_name)
            if given is None and (field.encode_name not in value or not _takes_null(field.type)):
                fields |= _instead(field, _wrong(place, "is missing"))
                continue
            try:
                fields[field.name] = self._build(given, field.type, place, lax=not firm)
            except InvalidParams as wrong:
                if firm:
                    raise
                fields |= _instead(field, wrong)
        try:
            return info.cls(**fields)
        except ValueError as error:
            raise _wrong(at, f"does not hold together: {str(error).removesuffix('.')}") from error

    def _build_union(self, value: Any, info: inspect.UnionType, at: str, *, lax: bool) -> Any:
        if value is None and info.includes_none:
            return None
        tagged = {one.tag: one for one in info.types if isinstance(one, inspect.StructType) and one.tag_field}
        if not tagged:
            return self._build_first(value, info, at, lax=lax)
        if not isinstance(value, dict):
            raise _wrong(at, "must be an object")
        tag_field = next(iter(tagged.values())).tag_field or ""
        tag = value.get(tag_field)
        if not isinstance(tag, str) or tag not in tagged:
            known = ", ".join(str(one) for one in tagged if one)
            raise _wrong(f"{at}.{tag_field}" if at else tag_field, f"must be one of {known}")
        return self._build_struct(value, tagged[tag], at)

    def _build_first(self, value: Any, info: inspect.UnionType, at: str, *, lax: bool) -> Any:
        """Return the value as the first type of the union that it fits."""
        wrong = _wrong(at, "must be something else")
        for one in info.types:
            if isinstance(one, inspect.NoneType):
                continue
            try:
                return self._build(value, one, at, lax=lax)
            except InvalidParams as why:
                wrong = why
        raise wrong

    def _build_list(self, value: Any, info: inspect.VarTupleType, at: str, *, lax: bool) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong(at, "must be a list")
        items = []
        for place, one in enumerate(value):
            try:
                items.append(self._build(one, info.item_type, f"{at}[{place}]", lax=lax))
            except InvalidParams:
                if not lax:
                    raise
        return tuple(items)

    def _build_dict(self, value: Any, info: inspect.DictType, at: str, *, lax: bool) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(at, "must be an object")
        items = {}
        for key, one in value.items():
            try:
                items[key] = self._build(one, info.value_type, f"{at}.{key}", lax=lax)
            except InvalidParams:
                if not lax:
                    raise
        return items


def _instead(field: inspect.Field, wrong: InvalidParams) -> dict[str, Any]:
    """What a field counts as that was not given, or as good as not. Raises `wrong` where there is no such thing."""
    if not field.required:
        return {}
    match field.type:
        case inspect.Metadata(extra={"otherwise": value}):
            return {field.name: value}
    raise wrong


def _takes_null(info: inspect.Type) -> bool:
    match info:
        case inspect.UnionType():
            return info.includes_none
        case inspect.Metadata():
            return _takes_null(info.type)
    return isinstance(info, inspect.RawType | inspect.NoneType)


def _build_plain(value: Any, info: inspect.Type, at: str) -> Any:
    if isinstance(info, inspect.LiteralType):
        if value in info.values:
            return value
        raise _wrong(at, f"must be one of {', '.join(str(one) for one in info.values)}")
    plain, words = _PLAIN[type(info)]
    try:
        return msgspec.convert(value, plain)
    except msgspec.ValidationError as error:
        raise _wrong(at, f"must be {words}") from error


class Method(msgspec.Struct, frozen=True):
    """A method: `side` receives it; a notification has no result."""

    name: str
    side: Side
    params: type[AcpStruct]
    result: type[AcpStruct] | None = None
    status: Status = "stable"

    @property
    def kind(self) -> Kind:
        """Return whether it is a request or a notification."""
        return "notification" if self.result is None else "request"


_ALL = (
    Method("initialize", "agent", agent_methods.InitializeRequest, agent_methods.InitializeResponse),
    Method("authenticate", "agent", agent_methods.AuthenticateRequest, agent_methods.Empty),
    Method("logout", "agent", agent_methods.Empty, agent_methods.Empty),
    Method("session/new", "agent", agent_methods.NewSessionRequest, agent_methods.NewSessionResponse),
    Method("session/load", "agent", agent_methods.LoadSessionRequest, agent_methods.LoadSessionResponse),
    Method("session/resume", "agent", agent_methods.ResumeSessionRequest, agent_methods.ResumeSessionResponse),
    Method("session/fork", "agent", agent_methods.ForkSessionRequest, agent_methods.ForkSessionResponse, "unstable"),
    Method("session/list", "agent", agent_methods.ListSessionsRequest, agent_methods.ListSessionsResponse),
    Method("session/close", "agent", agent_methods.CloseSessionRequest, agent_methods.Empty),
    Method("session/delete", "agent", agent_methods.DeleteSessionRequest, agent_methods.Empty),
    Method("session/set_mode", "agent", agent_methods.SetModeRequest, agent_methods.Empty),
    Method("session/set_model", "agent", agent_methods.SetModelRequest, agent_methods.Empty, "legacy"),
    Method(
        "session/set_config_option",
        "agent",
        agent_methods.SetConfigOptionRequest,
        agent_methods.SetConfigOptionResponse,
    ),
    Method("session/prompt", "agent", agent_methods.PromptRequest, agent_methods.PromptResponse),
    Method("session/cancel", "agent", agent_methods.CancelNotification),
    Method("$/cancel_request", "both", agent_methods.CancelRequestNotification),
    Method("session/update", "client", client_methods.SessionNotification),
    Method("session/request_permission", "client", content.RequestPermissionRequest, content.RequestPermissionResponse),
    Method("fs/read_text_file", "client", client_methods.ReadTextFileRequest, client_methods.ReadTextFileResponse),
    Method("fs/write_text_file", "client", client_methods.WriteTextFileRequest, agent_methods.Empty),
    Method("terminal/create", "client", client_methods.CreateTerminalRequest, client_methods.CreateTerminalResponse),
    Method("terminal/output", "client", client_methods.TerminalIdParams, client_methods.TerminalOutputResponse),
    Method("terminal/wait_for_exit", "client", client_methods.TerminalIdParams, client_methods.TerminalExit),
    Method("terminal/kill", "client", client_methods.TerminalIdParams, agent_methods.Empty),
    Method("terminal/release", "client", client_methods.TerminalIdParams, agent_methods.Empty),
    Method(
        "elicitation/create",
        "client",
        client_methods.CreateElicitationRequest,
        client_methods.CreateElicitationResponse,
    ),
    Method("elicitation/complete", "client", client_methods.CompleteElicitationNotification),
)
METHODS: dict[str, Method] = {one.name: one for one in _ALL}


def decode_params(method: str, raw: msgspec.Raw | bytes) -> AcpStruct:
    """Decode the params of a known method. Raises InvalidParams, with a sentence for the sender."""
    known = METHODS[method]
    try:
        if known.params is client_methods.SessionNotification:
            return _read_update(raw)
        return decode(raw, known.params)
    except InvalidParams as wrong:
        raise InvalidParams(f"The params of {method} don't fit: {wrong}") from wrong


def decode_result(method: str, raw: msgspec.Raw | bytes) -> AcpStruct:
    """Decode the result of a known method. Raises InvalidParams. Null is an empty result."""
    known = METHODS[method]
    if known.result is None:
        raise InvalidParams(f"{method} is a notification: it is never answered.")
    try:
        return decode(raw, known.result)
    except InvalidParams as wrong:
        raise InvalidParams(f"The result of {method} doesn't fit: {wrong}") from wrong


class _UpdateHead(msgspec.Struct, frozen=True, rename="camel"):
    session_id: str
    update: _Tag


class _Tag(msgspec.Struct, frozen=True, rename="camel"):
    session_update: str


def _read_update(raw: msgspec.Raw | bytes) -> AcpStruct:
    """Decode an update. It never ends a session: an update that cannot be read is an `UnknownUpdate`."""
    try:
        return decode(raw, client_methods.SessionNotification)
    except InvalidParams:
        named = decode(raw, _UpdateHead)
        unknown = client_methods.UnknownUpdate(name=named.update.session_update)
        return client_methods.SessionNotification(session_id=named.session_id, update=unknown)
