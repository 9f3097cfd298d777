"""What Flower's loggers say during a piece of work, collected instead of printed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["captured_log"]


@contextmanager
def captured_log() -> Iterator[list[str]]:
    """Collect messages of Flower's log and the parties' in the yielded list, which grows; print none meanwhile."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    loggers = [logging.getLogger(name) for name in ("flwr", "flwr.party")]
    before = [(one.handlers, one.propagate) for one in loggers]
    for one in loggers:
        one.handlers, one.propagate = [Listener()], False
    try:
        yield said
    finally:
        for one, (handlers, propagate) in zip(loggers, before, strict=True):
            one.handlers, one.propagate = handlers, propagate
