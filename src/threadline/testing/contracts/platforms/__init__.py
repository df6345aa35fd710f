"""The platform contract: what the gateway relies on, as classes of tests that ask no platform's name.

An adapter's author writes a fake of the service at the other end of the wire, provides one fixture and subclasses what fits:

    @pytest.fixture
    def open_world() -> OpenWorld: ...               # a function that opens the fake: `async with open_world() as world`

    class TestMine(PlatformContract): ...
    class TestMineAcknowledging(AcknowledgingContract): ...   # the service tells events again until they are acknowledged
    class TestMineReconnecting(ReconnectingContract): ...     # there is a line that can break
    class TestMineEditing(EditingContract): ...               # `capabilities.edit`
    class TestMineRepeating(RepeatingContract): ...           # `capabilities.idempotent_send`
"""

from threadline.testing.contracts.platforms.suites import (
    AcknowledgingContract,
    EditingContract,
    PlatformContract,
    ReconnectingContract,
    RepeatingContract,
)
from threadline.testing.contracts.platforms.worlds import BreakingWorld, OpenWorld, OpenWorldOf, RepeatingWorld, World

__all__ = [
    "AcknowledgingContract",
    "BreakingWorld",
    "EditingContract",
    "OpenWorld",
    "OpenWorldOf",
    "PlatformContract",
    "ReconnectingContract",
    "RepeatingContract",
    "RepeatingWorld",
    "World",
]
