"""The figures of a benchmark table, and what is said about them."""

from __future__ import annotations

import math
import statistics

import pytest
from report.conftest import sample

from fedkd_flwr.report.bench import BenchTable, Line, figure_of
from fedkd_flwr.report.bench_plot import draw_bench


@pytest.fixture(scope="module")
def record():
    return sample(3, 2)


def test_figures_are_those_of_the_record(record):
    assert figure_of(record, "federated") == record.mean_accuracies()["federated-common"]
    assert figure_of(record, "solo-own") == record.mean_accuracies()["solo-own"]
    assert figure_of(record, "up-kb") == sum(r.bytes_up / r.asked for r in record.rounds) / 1e3
    first = statistics.fmean(record.rounds[0].accuracy.values())
    assert figure_of(record, "federated@1") == first
    assert figure_of(record, "federated@99") is None
    assert figure_of(record, "auc") is None
    for wrong in ("beauty", "solo-there", "beauty@1"):
        with pytest.raises(ValueError, match="no figure"):
            figure_of(record, wrong)


def test_the_error_of_a_difference_counts_both_spreads_and_the_verdict_its_sign():
    values = {1: 0.80, 2: 0.82, 3: 0.84}
    line = Line(row="a", figure="server", values=values, printed=0.83, deviation=0.01, trials=4)
    assert line.mean == pytest.approx(0.82)
    assert line.difference == pytest.approx(-0.01)
    assert line.error == pytest.approx(math.sqrt(0.02**2 / 3 + 0.01**2 / 4))
    assert line.verdict == "within one deviation"
    assert Line(row="a", figure="server", values=values, printed=0.9).verdict == "worse"
    assert Line(row="a", figure="auc", values=values, printed=0.9).verdict == "as good or better"
    assert Line(row="a", figure="server", values={1: 0.8}, printed=0.7).verdict == "one run"
    assert Line(row="a", figure="server", values={}).mean is None


def test_a_shortfall_that_many_runs_make_sure_is_said_though_it_is_within_one_deviation():
    values = dict(enumerate([0.80, 0.82, 0.84] * 4))
    assert (
        Line(row="a", figure="server", values=values, printed=0.83).verdict
        == "short of the print, within one deviation"
    )
    assert (
        Line(row="a", figure="auc", values=values, printed=0.81).verdict == "short of the print, within one deviation"
    )


def _found(*lines, **more):
    return BenchTable(name="t", title="T", source="S", lines=list(lines), **more)


def test_pairs_are_compared_seed_by_seed_and_one_pair_says_nothing():
    a = Line(row="a", figure="server", values={1: 0.5, 2: 0.7, 3: 0.9, 4: 0.1})
    b = Line(row="b", figure="server", values={1: 0.6, 2: 0.8, 3: 1.001})
    said = _found(a, b, against=[("b", "a")]).compared()
    assert len(said) == 1
    assert "+0.1003 ± " in said[0]
    assert "more than noise, n = 3" in said[0]
    one = Line(row="a", figure="server", values={1: 0.5})
    assert "one pair, n = 1" in _found(one, b, against=[("b", "a")]).compared()[0]
    assert not _found(a, against=[("b", "a")]).compared()


def test_rows_that_lack_the_same_runs_for_one_reason_stand_in_one_line():
    missing = {
        "a, seed 13": "not run yet",
        "a, seed 14": "not run yet",
        "a, seed 15": "too few",
        "b, seed 13": "not run yet",
        "e, seed 13": "not run yet",
        "c": "not run yet",
        "d": "not run yet",
    }
    lines = [line for line in _found(missing=missing).markdown().splitlines() if "missing" in line]
    assert lines == [
        "- **missing**: seeds 13, 14 of a: not run yet",
        "- **missing**: seed 15 of a: too few",
        "- **missing**: seed 13 of b; e: not run yet",
        "- **missing**: c; d: not run yet",
    ]


def test_rows_that_agree_in_each_pair_are_not_said_to_differ_by_noise():
    a, b = (Line(row=name, figure="server", values={1: 0.5, 2: 0.7, 3: 0.9}) for name in "ab")
    assert _found(a, b, against=[("b", "a")]).compared()[0].endswith("the same in each pair, n = 3")


def test_equal_gaps_are_not_said_to_be_more_than_noise():
    a, b = (Line(row=name, figure="server", values={1: v, 2: v + 0.1, 3: v}) for name, v in (("a", 0.5), ("b", 0.6)))
    said = _found(a, b, against=[("b", "a")]).compared()[0]
    assert said == "b − a, server: +0.1000: equal in each pair, so its noise is not known, n = 3"


def test_the_table_stands_in_columns_and_the_picture_holds_both(tmp_path):
    line = Line(row="a", figure="server", values={1: 0.5, 2: 0.7}, printed=0.65, deviation=0.1, trials=3)
    found = _found(line, Line(row="a", figure="up-kb", values={1: 12.0, 2: 13.0}), notes={"a": "mind"})
    lines = found.table().splitlines()
    assert len({len(one) for one in lines}) == 1
    assert [cell.strip() for cell in lines[2].split("|")[1:8]] == [
        "a",
        "server",
        "2",
        "0.6000",
        "0.1414",
        "0.6500 ± 0.1",
        "-0.0500",
    ]
    assert "- a: mind" in found.markdown()
    assert draw_bench(found, tmp_path / "x.svg")
    assert "printed in the paper" in (tmp_path / "x.svg").read_text()
    assert not draw_bench(_found(found.lines[1]), tmp_path / "y.svg")
    curves = [
        Line(row=row, figure=f"server@{at}", values={1: 0.5, 2: 0.6}, printed=0.4) for row in "ab" for at in (1, 2)
    ]
    assert draw_bench(_found(*curves), tmp_path / "z.svg")


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
    assert draw_bench(_found(*lines), tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text()
    for text in ("wine, even<", "wine, uneven<", "no noise, here", "alone, here", "PATE", ">0.5<", ">4<"):
        assert text in drawn
    assert "wine, even, epsilon 1" not in drawn


def test_two_epsilons_make_no_curve_and_are_drawn_row_by_row(tmp_path):
    assert draw_bench(_found(*_at("wine", (1, 2))), tmp_path / "x.svg")
    assert "wine, epsilon 2, server" in (tmp_path / "x.svg").read_text()
