"""Where an editor lets the agent work: checked when it says so, and kept nowhere but in memory. Pure."""

from __future__ import annotations

import posixpath

from threadline.errors import InvalidRequest
from threadline.ports import agent
from threadline.ports.agent import Workplace
from threadline.rpc.acp import McpServer
from threadline.texts import editors as texts


def workplace_of(cwd: str, directories: tuple[str, ...], servers: tuple[McpServer, ...]) -> Workplace:
    """The place as the agent is told it; `InvalidRequest` where a path is not absolute."""
    check_path(cwd, texts.CWD_NOT_ABSOLUTE)
    for directory in directories:
        check_path(directory, texts.DIRECTORY_NOT_ABSOLUTE)
    return Workplace(cwd=cwd, directories=directories, mcp_servers=tuple(_server(server) for server in servers))


def check_path(path: str, otherwise: str) -> None:
    """Raises `InvalidRequest` with that sentence unless the path is absolute."""
    if "\0" in path:
        raise InvalidRequest(texts.NUL_IN_PATH)
    if not posixpath.isabs(path):
        raise InvalidRequest(otherwise)


def _server(server: McpServer) -> agent.McpServer:
    return agent.McpServer(
        name=server.name,
        kind=server.kind,
        command=server.command or "",
        args=server.args or (),
        url=server.url or "",
        pairs=tuple((pair.name, pair.value) for pair in server.pairs),
    )
