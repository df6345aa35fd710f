"""Structured events. Never a secret, never the body of a message."""

from __future__ import annotations

import logging

import structlog


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger of events. Silent unless the application configures `logging`, as a library should be."""
    logger = logging.getLogger(name)
    logger.addHandler(logging.NullHandler())
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logger,
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    )
    return bound
