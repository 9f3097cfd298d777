"""The line that says how far a run is."""

from __future__ import annotations

import io

from fedkd_flwr.app.progress import Progress, ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_time_left_is_that_of_the_rounds_not_yet_done():
    clock = iter([100.0, 110.0, 130.0])
    progress = Progress(4, now=lambda: next(clock))
    assert "left" not in progress.text("train", 1, 0, 2)
    assert progress.text("train", 1, 1, 2).endswith("at most 70 s left")
    assert progress.text("train", 3, 2, 2).endswith("at most 10 s left")
    assert progress.text("query", 0, 1, 2) == "starting the parties: 1 of 2 are ready"
    assert progress.text("evaluate", 4, 1, 2) == "final result: 1 of 2 parties have learnt from it"


def test_in_a_terminal_one_line_is_rewritten_and_taken_away():
    stream = Terminal()
    line = ProgressLine(stream)
    line.show("round 1: many words")
    line.show("round 2")
    line.clear()
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\r")


def test_elsewhere_a_line_comes_with_each_round_and_no_escape_codes():
    stream = io.StringIO()
    line = ProgressLine(stream)
    for text in ("round 1 of 2: 0", "round 1 of 2: 1", "round 2 of 2: 0", "final: 1"):
        line.show(text)
    line.clear()
    assert stream.getvalue().splitlines() == ["round 1 of 2: 0", "round 2 of 2: 0", "final: 1"]
