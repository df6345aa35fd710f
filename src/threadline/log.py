"""Structured events. Never a secret, never the body of a message."""

from __future__ import annotations

import logging
from typing import Any


class EventLog:
    """Logs events with fields. Silent unless the application configures `logging`, as a library should be."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)
        self._logger.addHandler(logging.NullHandler())
        self._bound: Any = None

    def info(self, event: str, **fields: object) -> None:
        """Something worth knowing happened."""
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


def get_logger(name: str) -> EventLog:
    """A logger of events for a module."""
    return EventLog(name)
