"""Structured events. Never a secret, never the body of a message."""

from __future__ import annotations

import json
import logging
from typing import Any


class EventLog:
    """Logs events with fields. Silent unless the application configures `logging`, as a library should be."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._logger.addHandler(logging.NullHandler())
        self._bound: Any = None

    def debug(self, event: str, **fields: object) -> None:
        """Something happened that only matters to whoever looks for it."""
        # Asked first: what nobody hears would cost as much as a statement of SQL.
        if self._logger.isEnabledFor(logging.DEBUG):
            self._structured().debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Something worth knowing happened."""
        if self._logger.isEnabledFor(logging.INFO):
            self._structured().info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """Something went wrong and will be tried again."""
        self._structured().warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        """Something went wrong for good."""
        self._structured().error(event, **fields)

    def exception(self, event: str, **fields: object) -> None:
        """Something unforeseen went wrong: with where it happened."""
        self._structured().error(event, exc_info=True, **fields)

    def _structured(self) -> Any:
        if self._bound is None:
            # Imported at the first event: most programs never log one, and would pay for it at every start.
            import structlog

            processors = [structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs]
            self._bound = structlog.wrap_logger(
                self._logger, wrapper_class=structlog.stdlib.BoundLogger, processors=processors
            )
        return self._bound


class EventFormatter(logging.Formatter):
    """An event on one line: when, how bad, what, and its fields as `name=value`. What strangers wrote is quoted."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {name: value for name, value in vars(record).items() if name not in _ORDINARY}
        shown = "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.getMessage()}{shown}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _shown(value: object) -> str:
    text = str(value)
    if len(text) > _VALUE_CHARS:
        # Much of what is logged was worded by somebody else.
        text = f"{text[:_VALUE_CHARS]}… ({len(text)} characters)"
    return text if text.isprintable() and " " not in text and text else json.dumps(text)


_VALUE_CHARS = 2_000
# What every record has; the rest are the event's own fields.
_ORDINARY = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))


def get_logger(name: str) -> EventLog:
    """A logger of events for a module."""
    return EventLog(name)
