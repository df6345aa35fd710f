"""Every workload, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from bench import (
    appends,
    compat,
    editors,
    forks,
    gateways,
    opening,
    processes,
    reads,
    searches,
    sizes,
    streaming,
    telegrams,
    turns,
    web,
    web_turns,
)
from bench.measure import Sample
from bench.stage import Stage

Run: TypeAlias = Callable[[Stage], Iterable[Sample]]


class Workload(msgspec.Struct, frozen=True):
    """A workload by name, and the engines that it is measured on."""

    name: str
    run: Run
    engines: tuple[str, ...] = ("sqlite", "postgres")


WORKLOADS = (
    Workload("append_64_async", appends.append_64_async, ("sqlite",)),
    Workload("append_sustained", appends.append_sustained, ("sqlite",)),
    Workload("append_1_blocking", appends.append_1_blocking, ("sqlite",)),
    Workload("append_1_async", appends.append_1_async, ("sqlite",)),
    Workload("turn_scale", turns.turn_scale),
    Workload("resolve_scale", turns.resolve_scale),
    Workload("last_50", reads.last_50),
    Workload("load_all", reads.load_all),
    Workload("fork_scale", forks.fork_scale),
    Workload("search", searches.search),
    Workload("search_viewer", searches.search_viewer),
    Workload("size", sizes.size),
    Workload("compat_scale", compat.compat_scale, ("sqlite",)),
    Workload("open_scale", opening.open_scale),
    Workload("four_processes", processes.four_processes, ("sqlite",)),
    Workload("gateway_scale", gateways.gateway_scale),
    Workload("gateway_streaming", streaming.streaming),
    Workload("telegram", telegrams.telegram, ("sqlite",)),
    Workload("acp_prompt", editors.acp_prompt, ("sqlite",)),
    Workload("acp_list", editors.acp_list),
    Workload("acp_replay", editors.acp_replay),
    Workload("web_readers", web.web_readers, ("sqlite",)),
    Workload("web_turns", web_turns.web_turns, ("sqlite",)),
    Workload("postgres_append_32", appends.postgres_append_32, ("postgres",)),
)
