"""The platform contract: what the gateway relies on, as one class of tests that asks no platform's name.

An adapter's author writes a `PlatformWorld`, a fake of the service at the other end of the wire, and provides one fixture:

    @pytest.fixture
    def open_world() -> OpenWorld: ...      # a function that opens the fake: `async with open_world() as world`

    class TestMine(PlatformContract): ...

Every test runs for every adapter. What its capabilities do not declare must be refused with `NotDeclared`; where `world.service`
does not name something that can happen, the test holds the adapter to the opposite.
"""

from threadline.testing.contracts.platforms.failing import EndingContract, FailingContract
from threadline.testing.contracts.platforms.keeping import KeepingContract, ReconnectingContract
from threadline.testing.contracts.platforms.listening import ListeningContract
from threadline.testing.contracts.platforms.receiving import ReceivingContract
from threadline.testing.contracts.platforms.sending import EditingContract, SendingContract, ShowingContract
from threadline.testing.contracts.platforms.whole import WholeContract
from threadline.testing.contracts.platforms.worlds import OpenWorld, PlatformWorld, Service, Shown

__all__ = [
    "EditingContract",
    "EndingContract",
    "FailingContract",
    "KeepingContract",
    "ListeningContract",
    "OpenWorld",
    "PlatformContract",
    "PlatformWorld",
    "ReceivingContract",
    "ReconnectingContract",
    "SendingContract",
    "Service",
    "ShowingContract",
    "Shown",
    "WholeContract",
]


class PlatformContract(
    ReceivingContract,
    KeepingContract,
    ReconnectingContract,
    SendingContract,
    EditingContract,
    ShowingContract,
    FailingContract,
    EndingContract,
    ListeningContract,
    WholeContract,
):
    """All that an adapter keeps."""
