"""What the README shows works as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")


def test_the_python_example_runs(tmp_path: Path) -> None:
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert example is not None
    names: dict[str, object] = {}

    exec(example.group(1).replace("/tmp/threadline-demo", str(tmp_path)), names)

    assert names["history"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello, Ada!"},
    ]
    assert [hit.snippet for hit in names["hits"]] == ["[[Hello]], Ada!"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "page", [p.relative_to(ROOT) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]], ids=str
)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall((ROOT / page).read_text()) if "://" not in target]

    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []
