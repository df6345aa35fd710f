"""The original API over our store: a session of a folder with a thousand sessions costs as much as one of a folder with ten."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from bench.measure import Figure, Sample, alternate, cost
from bench.stage import Stage
from threadline.compat import GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore

FIGURE = Figure(
    name="compat: get_or_create, two appends, load",
    unit="microseconds",
    beside="the same with 10 sessions",
    at_most=1.2,
)
_MANY = 1_000
_FEW = 10


class Chats:
    """A folder with so many chats, which speak in turn."""

    def __init__(self, folder: Path, chats: int) -> None:
        config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="none"))
        self.store = SessionStore(folder, config)
        self._chats = chats
        self._numbers = count()
        self.speak(chats)

    def speak(self, times: int) -> int:
        """So many exchanges; each chat's session starts afresh with its own, so that both folders load as much."""
        for _ in range(times):
            number = next(self._numbers)
            source = SessionSource(Platform.TELEGRAM, str(number % self._chats), user_id="1", user_name="Ada")
            session_id = self.store.get_or_create_session(source, force_new=number >= self._chats).session_id
            self.store.append_to_transcript(session_id, {"role": "user", "content": f"question {number}"})
            self.store.append_to_transcript(session_id, {"role": "assistant", "content": f"answer {number}"})
            assert len(self.store.load_transcript(session_id)) == 2
        return times


def compat_scale(stage: Stage) -> Iterator[Sample]:
    """Exchanges in two folders, in turn."""
    times = stage.scaled(400, least=20)
    with tempfile.TemporaryDirectory(prefix="bench-compat-") as place:
        many, few = Chats(Path(place) / "many", _MANY), Chats(Path(place) / "few", _FEW)
        with many.store, few.store:
            yield cost(FIGURE, alternate(partial(few.speak, times), partial(many.speak, times)))
