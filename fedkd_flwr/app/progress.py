"""One line that says how far a run is, and when it may end."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["Progress", "ProgressLine", "duration"]


class Progress:
    """How far a run is, told by the messages of its rounds.

    ``rounds``: planned rounds. ``now``: a clock, in seconds.
    """

    def __init__(self, rounds: int, now: Callable[[], float] = time.monotonic) -> None:
        self.rounds, self.now = rounds, now
        self._began: float | None = None  # of the first round

    def text(self, kind: str, server_round: int, answered: int, asked: int) -> str:
        """Return the line after an answer; the time left counts all planned rounds, which may be fewer in the end.

        >>> progress = Progress(5, now=iter([0.0, 10.0, 20.0]).__next__)
        >>> progress.text("train", 1, 0, 10)
        'round 1 of 5: 0 of 10 parties have answered'
        >>> progress.text("train", 2, 5, 10)
        'round 2 of 5: 5 of 10 parties have answered, at most 23 s left'
        >>> progress.text("query", 0, 1, 2), progress.text("evaluate", 4, 1, 2)
        ('starting the parties: 1 of 2 are ready', 'final result: 1 of 2 parties have learnt from it')
        """
        if kind == "query":
            return f"starting the parties: {answered} of {asked} are ready"
        if kind == "evaluate":
            return f"final result: {answered} of {asked} parties have learnt from it"
        text = f"round {server_round} of {self.rounds}: {answered} of {asked} parties have answered"
        now = self.now()
        if self._began is None:
            self._began = now
        done = server_round - 1 + (answered / asked if asked else 0.0)
        if done <= 0:
            return text
        left = (now - self._began) / done * max(self.rounds - done, 0.0)
        return f"{text}, at most {duration(left)} left"


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(7.4), duration(200), duration(9000)
    ('7 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class ProgressLine:
    """Shows one line on stderr: rewritten in a terminal, else anew when it begins otherwise.

    It has a stream of its own: what is printed while a run goes on may go into that run's log.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace", closefd=False)
        self.terminal = self.stream.isatty()
        self.held = False  # while somebody is asked, nothing else is shown
        self._head, self._width = "", 0

    def show(self, text: str) -> None:
        """Show a line."""
        if self.held:
            return
        if self.terminal:
            text = text[: shutil.get_terminal_size().columns - 1]
            self.stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            if (head := text.partition(":")[0]) == self._head:
                return
            self._head = head
            self.stream.write(text + "\n")
        self.stream.flush()

    def clear(self) -> None:
        """Take the line away, so that something else can be printed."""
        if self.terminal and self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()
            self._width = 0
