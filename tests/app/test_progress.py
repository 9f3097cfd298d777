"""The line that says how far a run is."""

import io

from fedkd_flwr.app.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


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
