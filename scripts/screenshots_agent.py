"""The agent in the pictures of the web page."""

from __future__ import annotations

import json
from collections.abc import Iterator

from threadline.agents.function import FunctionTurn
from threadline.ports.agent import Event, Text, Thought, ToolCall, ToolResult, UsageOf

_ANSWER = """\
Basil that wilts in the afternoon and stands up again at night is **hot, not thirsty**. Feel the soil first:

| Soil, two fingers deep | What to do |
|---|---|
| Dry | Water at noon, until it runs out below |
| Moist | Wait; move the pot out of the afternoon sun |

This reminds you each day at noon:

```python
import sched, time

def water(plant: str, seconds: int = 86_400) -> None:
    print(f"Feel the soil of the {plant}.")
    clock.enter(seconds, 1, water, (plant, seconds))

clock = sched.scheduler(time.time)
water("basil")
clock.run()
```

Stop at any time with `Ctrl-C`.
"""


def answer(turn: FunctionTurn) -> Iterator[Event]:
    """The long answer to the one question, a short one to all others."""
    if "basil" not in turn.text:
        yield Text("Gladly. Tell me a little more first.")
        yield UsageOf(input_tokens=180, output_tokens=12, cost_micros=700, cost_status="estimated", model="scripted")
        return
    yield Thought("Wilting in the afternoon alone speaks for heat. I look it up before I say so.")
    yield ToolCall("call1", "search_garden_book", json.dumps({"plant": "basil", "symptom": "wilts in the afternoon"}))
    yield ToolResult("call1", "Chapter 3: basil droops in heat above 30 °C and recovers at night.")
    yield Text(_ANSWER)
    yield UsageOf(input_tokens=2412, output_tokens=318, cost_micros=12_000, cost_status="estimated", model="scripted")
