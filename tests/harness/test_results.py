"""The figures of a benchmark table, and what is said about them."""

import math
import statistics
from dataclasses import replace

import pytest
from report.conftest import sample

from benchmarks.harness.pictures import draw_bench
from benchmarks.harness.results import BenchTable, Line, figure_of, lines_of


@pytest.fixture(scope="module")
def record():
    return sample(3, 2)


def test_figures_are_those_of_the_record(record):
    assert figure_of(record, "federated") == record.mean_accuracies()["federated-common"]
    assert figure_of(record, "solo-own") == record.mean_accuracies()["solo-own"]
    for way in ("up", "down"):
        sent = [getattr(r, f"bytes_{way}") / r.asked for r in record.rounds]
        assert figure_of(record, f"{way}-kb") == sum(sent) / 1e3
    assert figure_of(record, "up-kb") != figure_of(record, "down-kb")
    assert figure_of(record, "consensus") == record.rounds[-1].consensus_accuracy
    assert figure_of(record, "centralised") == record.centralised["common"].accuracy
    assert figure_of(record, "server") is None
    assert figure_of(record, "balanced-solo") == record.mean_accuracies("balanced_accuracy").get("solo-common")
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
    line = Line(row="a", figure="server", values={1: 0.8, 2: 0.9}, printed=0.9, deviation=0.1)
    assert line.error == pytest.approx(0.05)  # a deviation without a number of trials adds nothing


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [
        (0.8200, "as good or better"),
        (0.8297, "within one deviation"),  # 1.97 standard errors
        (0.8300, "short of the print, within one deviation"),  # 2.03
        (0.8370, "short of the print, within one deviation"),  # 0.997 of a deviation
        (0.8371, "worse"),  # 1.003
    ],
)
def test_a_mean_is_short_from_two_standard_errors_on_and_worse_from_one_deviation_on(printed, verdict):
    """Of twelve runs .80, .82 and .84 by turns: deviation .02 sqrt(8/11) = .01706, standard error .00492."""
    values = dict(enumerate([0.80, 0.82, 0.84] * 4))
    values[0] += 1e-9  # so that a mean of .82 is not below a print of .82 by rounding
    line = Line(row="a", figure="server", values=values, printed=printed)
    assert line.spread == pytest.approx(0.02 * math.sqrt(8 / 11))
    assert line.error == pytest.approx(line.spread / math.sqrt(12))
    assert line.verdict == verdict


@pytest.mark.parametrize("figure", ["auc", "seconds", "up-kb", "down-kb"])
def test_of_an_attack_of_time_and_of_bytes_less_is_better(figure):
    values = {1: 2.0, 2: 2.2}
    assert Line(row="a", figure=figure, values=values, printed=3.0).verdict == "as good or better"
    assert Line(row="a", figure=figure, values=values, printed=1.0).verdict == "worse"


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
    for values, said in (
        ((0.5, 0.7, 0.9), "the same in each pair, n = 3"),
        ((0.6, 0.8, 1.0), "+0.1000: equal in each pair, so its noise is not known, n = 3"),
    ):
        a = Line(row="a", figure="server", values={1: 0.5, 2: 0.7, 3: 0.9})
        b = Line(row="b", figure="server", values=dict(enumerate(values, 1)))
        assert _found(a, b, against=[("b", "a")]).compared()[0].endswith(said)


def test_a_row_takes_figures_from_its_records_and_from_the_published_table_where_there_is_none(record):
    record = replace(record, seconds=7.0)
    taken = {1: {"seconds": 3.0, "federated": 0.5}, 2: {"seconds": 99.0, "federated": 0.0}, 3: {"federated": 0.7}}
    first, second = lines_of(
        "a", ["seconds", "federated"], {2: record}, {"seconds": 5.0}, {"seconds": 0.1}, 4, taken=taken
    )
    assert (first.values, second.values) == (
        {1: 3.0, 2: 7.0},
        {1: 0.5, 2: record.mean_accuracies()["federated-common"], 3: 0.7},
    )
    assert (first.printed, first.deviation, first.trials) == (5.0, 0.1, 4)
    assert (second.printed, second.deviation) == (None, None)


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
