"""What tests of Threadline, and of programs built on it, are made of.

`FakeClock` and the builders here need nothing but Threadline. The contract suites in `threadline.testing.contracts` need
pytest and hypothesis.
"""

from threadline.testing.awaiting import AwaitedStore
from threadline.testing.builders import (
    assistant,
    dm,
    exchange,
    group,
    system,
    thread,
    tool_call,
    tool_result,
    tool_use,
    user,
)
from threadline.testing.clock import FakeClock

__all__ = [
    "AwaitedStore",
    "FakeClock",
    "assistant",
    "dm",
    "exchange",
    "group",
    "system",
    "thread",
    "tool_call",
    "tool_result",
    "tool_use",
    "user",
]
