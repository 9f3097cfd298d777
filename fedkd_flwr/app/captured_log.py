"""What Flower's loggers say during a piece of work, collected instead of printed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["captured_log"]

_LOGGERS = ("flwr", "flwr.party")


@contextmanager
def captured_log(*names: str, level: int = logging.NOTSET) -> Iterator[list[str]]:
    """Collect messages; print none of Flower's own and of the parties' logs meanwhile.

    Yields the list that grows while the work goes on. ``names`` are the loggers that are heard, ``flwr`` and
    ``flwr.party``, both where none is named; ``level`` is the lowest level that is.
    """
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(one.handlers, one.propagate) for one in loggers]
    for one in loggers:
        heard = one.name in (names or _LOGGERS)
        one.handlers, one.propagate = [Listener(level) if heard else logging.NullHandler()], False
    try:
        yield said
    finally:
        for one, (handlers, propagate) in zip(loggers, before, strict=True):
            one.handlers, one.propagate = handlers, propagate
