"""What can be chosen for a session: modes, models, and options of any kind."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from threadline.rpc.acp.shape import Shape, otherwise

# Options may have other categories too: those that begin with `_`.
ConfigCategory: TypeAlias = Literal["mode", "model", "model_config", "thought_level"]


class Mode(Shape, frozen=True, kw_only=True):
    """One way of working."""

    id: str
    name: str
    description: str | None = None


class ModeState(Shape, frozen=True, kw_only=True):
    """The modes there are, and the one that holds."""

    current_mode_id: str
    available_modes: Annotated[tuple[Mode, ...], otherwise(())]


class Model(Shape, frozen=True, kw_only=True):
    """A model, as agents offered it before there were options."""

    model_id: str
    name: str
    description: str | None = None


class ModelState(Shape, frozen=True, kw_only=True):
    """The models there are, and the one that holds. No longer in the protocol, but still sent by agents in use."""

    current_model_id: str
    available_models: Annotated[tuple[Model, ...], otherwise(())]


class ConfigChoice(Shape, frozen=True, kw_only=True):
    """A value to choose (`value`), or a group of such (`group`, `options`)."""

    name: str
    value: str | None = None
    description: str | None = None
    group: str | None = None
    options: tuple[ConfigChoice, ...] | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.group is None):
            raise ValueError("A choice has either a `value` or is a `group`.")


class ConfigSelect(Shape, frozen=True, kw_only=True, tag_field="type", tag="select"):
    """One of many. `category` is a `ConfigCategory` or the peer's own."""

    id: str
    name: str
    description: str | None = None
    category: str | None = None
    current_value: str
    options: tuple[ConfigChoice, ...]

    @property
    def choices(self) -> tuple[ConfigChoice, ...]:
        """The values, groups opened, in their order."""
        return tuple(leaf for one in self.options for leaf in (one.options or (one,)) if leaf.value is not None)


class ConfigBoolean(Shape, frozen=True, kw_only=True, tag_field="type", tag="boolean"):
    """On or off. Only for clients that say that they know of it."""

    id: str
    name: str
    description: str | None = None
    category: str | None = None
    current_value: bool


ConfigOption: TypeAlias = ConfigSelect | ConfigBoolean
