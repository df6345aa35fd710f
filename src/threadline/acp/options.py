"""What an editor can choose for a session: how questions are answered, and the model; and the commands it can offer. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from threadline.gateway.command_table import OFFERED, TABLE
from threadline.model.session import SessionEntry
from threadline.rpc.acp import (
    AvailableCommand,
    AvailableCommandsUpdate,
    CommandInput,
    ConfigChoice,
    ConfigOption,
    ConfigSelect,
    Mode,
    ModeState,
)
from threadline.texts import editors as texts

ASK = "ask"
MODE_OPTION = "mode"
MODEL_OPTION = "model"
# The value that stands for the agent's own model.
OWN_MODEL = "default"
# An editor has its own ways for these: a button that stops, a list of sessions, a window that asks.
_NOT_HERE = frozenset({"start", "stop", "approve", "deny", "queue", "sethome", "handoff", "whoami"})


def mode_of(kept: str | None) -> str:
    """The mode that a session is in; one that nobody knows any more is the careful one."""
    return kept if kept in texts.MODES else ASK


def mode_state(mode: str) -> ModeState:
    """All modes, and the one that holds."""
    modes = (Mode(id=name, name=shown, description=told) for name, (shown, told) in texts.MODES.items())
    return ModeState(current_mode_id=mode, available_modes=tuple(modes))


def config_options(mode: str, entry: SessionEntry, *, chooses_model: bool) -> tuple[ConfigOption, ...]:
    """All options as they are now."""
    modes = {name: shown for name, (shown, _) in texts.MODES.items()}
    found: list[ConfigOption] = [
        ConfigSelect(
            id=MODE_OPTION,
            name=texts.MODE_OPTION,
            description=texts.MODE_OPTION_HELP,
            category="mode",
            current_value=mode,
            options=_choices(modes),
        )
    ]
    if chooses_model:
        known = (entry.chosen_model, entry.model)
        models = {OWN_MODEL: texts.MODEL_OWN} | {name: name for name in known if name is not None}
        found.append(
            ConfigSelect(
                id=MODEL_OPTION,
                name=texts.MODEL_OPTION,
                description=texts.MODEL_OPTION_HELP,
                category="model",
                current_value=entry.chosen_model or OWN_MODEL,
                options=_choices(models),
            )
        )
    return tuple(found)


def commands() -> AvailableCommandsUpdate:
    """The gateway's commands that make sense in an editor."""
    offered = [command for command in OFFERED if command.name not in _NOT_HERE]
    return AvailableCommandsUpdate(
        available_commands=tuple(
            AvailableCommand(name=command.name, description=command.help, input=_input(command.name))
            for command in offered
        )
    )


def _input(name: str) -> CommandInput | None:
    hint = TABLE[name].usage.partition(" ")[2]
    return CommandInput(hint=hint) if hint else None


def _choices(named: Mapping[str, str]) -> tuple[ConfigChoice, ...]:
    return tuple(ConfigChoice(name=shown, value=value) for value, shown in named.items())
