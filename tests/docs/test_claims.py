"""What the pages claim of limits, keys and costs is what the code does and the bench allows."""

from __future__ import annotations

import re
from pathlib import Path

from bench import opening, turns

from threadline.agents.model import messages

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """A page's text, with one space between words."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_what_more_sessions_cost_is_what_the_bench_allows() -> None:
    claimed = re.search(
        r"opening the store, finding a session and a caller's turn take ([\d.]+) times", page("README.md")
    )
    assert claimed is not None
    assert float(claimed.group(1)) == max(one.at_most or 0 for one in (opening.TIME, turns.RESOLVE, turns.ONE))
    assert "same cost" not in page("README.md")


def test_what_a_model_is_shown_of_files_is_told_with_its_limits() -> None:
    text = page("docs/howto/model.md")
    assert f"of up to {messages._MAX_PICTURE_BYTES // 1_000_000} MB" in text
    assert f"text of up to {messages._MAX_TEXT_BYTES // 1000} KB" in text
    for kind in messages.PICTURES:
        assert kind.removeprefix("image/") in text.lower()
    assert "Attachments are not shown" not in text


def test_whoever_scrapes_the_metrics_shows_the_token() -> None:
    example = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/howto/service.md").read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    assert "authorization:\n      credentials_file: " in example.group(1)


def test_thoughts_are_told_to_be_shown_where_they_are() -> None:
    assert "kept with the answer and not shown" not in page("docs/howto/function-agent.md")
