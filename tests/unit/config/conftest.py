"""What the tests of the configuration share: a file of its own, and the ways to load it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from threadline.config.load import load_config
from threadline.config.settings import Config, Settings
from threadline.errors import ConfigError

Load: TypeAlias = Callable[..., Config]
Refused: TypeAlias = Callable[..., list[str]]


def settings_of(config: Config) -> Settings:
    """What holds, without where it came from."""
    return Settings(**{name: getattr(config, name) for name in Settings.__struct_fields__})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The configuration file; it is not there yet."""
    return tmp_path / "config.toml"


@pytest.fixture
def load(file: Path) -> Load:
    """Loads a text as the file, with these variables and no others."""

    def from_text(
        text: str = "", variables: Mapping[str, str] | None = None, overrides: Mapping[str, object] | None = None
    ) -> Config:
        file.write_text(text, encoding="utf-8")
        return load_config(file, variables or {}, overrides)

    return from_text


@pytest.fixture
def refused(load: Load) -> Refused:
    """The lines of the error that loading such a text raises."""

    def lines(text: str = "", variables: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(ConfigError) as error:
            load(text, variables)
        return str(error.value).splitlines()

    return lines
