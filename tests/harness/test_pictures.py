"""Rows that differ in epsilon as a curve."""

from benchmarks.harness.pictures import draw_bench
from benchmarks.harness.results import BenchTable, Line


def _at(row, epsilons, **more):
    return [
        Line(row=f"{row}, epsilon {at}", figure="server", values={1: 0.5, 2: 0.6}, printed=0.4, **more)
        for at in epsilons
    ]


def test_rows_that_differ_in_epsilon_are_drawn_over_it_beside_those_without_noise(tmp_path):
    lines = [*_at("wine, even", (0.5, 1, 2)), *_at("wine, uneven", (1, 2, 4))]
    lines.append(Line(row="wine, even, no noise", figure="server", values={1: 0.9}))
    lines.append(Line(row="wine, even, no noise", figure="solo", values={1: 0.7}))
    lines.append(Line(row="wine, even, epsilon 1, PATE", figure="server", values={1: 0.5}))
    assert draw_bench(BenchTable(name="t", title="T", source="S", lines=lines), tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text()
    for text in ("wine, even<", "wine, uneven<", "no noise, here", "alone, here", "PATE", ">0.5<", ">4<"):
        assert text in drawn
    assert "wine, even, epsilon 1" not in drawn
    assert draw_bench(
        BenchTable(name="t", title="T", source="S", lines=_at("wine", (1, 2))), tmp_path / "x.svg"
    )  # two make no curve
    assert "wine, epsilon 2, server" in (tmp_path / "x.svg").read_text()
