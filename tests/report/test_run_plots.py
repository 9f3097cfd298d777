import xml.etree.ElementTree as ET

import pytest
from pages import texts

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.report.run_plots import accuracy_plot, own_rows_plot, rounds_plot


def test_a_party_that_lost_is_not_counted_as_gaining(make_record):
    record = make_record(5, 2)
    worse = record.parties[0].solo["common"].accuracy - 0.05
    record.parties[0].federated["common"] = Metrics(n=2000, accuracy=worse)
    plot = accuracy_plot(record)
    assert "4 of 5 parties gain" in plot.title
    assert "#d55e00" in plot.svg.lower()


def test_an_error_bar_ends_where_an_accuracy_must_end(make_record, monkeypatch):
    drawn = []
    monkeypatch.setattr("matplotlib.axes.Axes.errorbar", lambda _, x, y, **look: drawn.append((x, look["xerr"])))
    record = make_record(3, 1)
    for party, accuracy in zip(record.parties, (1.0, 1.0, 0.4), strict=True):
        party.federated["common"] = Metrics(n=10, accuracy=accuracy)
    accuracy_plot(record)
    (mean, ((low,), (high,))), _ = drawn
    assert mean == pytest.approx(0.8)
    assert high == pytest.approx(0.2)
    assert low == pytest.approx(0.8)  # Student's t with 2 degrees: 4.30 * 0.346 / sqrt(3) = 0.86


def test_a_mean_of_all_classes_is_not_drawn_beside_means_of_the_classes_that_each_party_holds(make_record):
    record = make_record(3, 1)
    for party, balanced in zip(record.parties, (0.7, 0.8, 0.9), strict=True):
        found = Metrics(n=50, accuracy=0.9, balanced_accuracy=balanced, support=(45, 5))
        party.solo["own"] = party.federated["own"] = found
    record.centralised["own"] = Metrics(n=150, accuracy=0.9, balanced_accuracy=0.6, support=(135, 15))
    plot = own_rows_plot(record)
    assert "balanced accuracy" in plot.title
    assert not [text for text in texts(plot.svg) if text.startswith("centralised")]
    assert "entralised" not in plot.caption


def test_few_parties_are_named_the_worst_alone_lowest_and_means_have_error_bars_over_more_than_two(make_record):
    record = make_record(10, 2, algorithm="fedkt")
    svgs = [accuracy_plot(one).svg for one in (make_record(2, 1), record, make_record(100, 2))]
    two, ten, many = map(texts, svgs)
    names = [p.name for p in sorted(record.parties, key=lambda p: p.solo["common"].accuracy)]
    assert [t for t in ten if t.startswith("party-")] == names
    assert {"server's model 0.893", "centralised 0.934", "mean"} <= set(ten)
    assert not [t for t in many if t.startswith("party-")]
    assert any("100 parties" in t for t in many)
    assert "mean" not in two
    bars = [svg.count("LineCollection") for svg in svgs]  # as matplotlib draws each, with two caps
    assert bars[1] == bars[2] == bars[0] + 2


def test_no_name_breaks_the_drawing_and_a_hostile_one_is_text(make_record, hostile_record):
    names = ["工厂", r"$\frac{$", "a" * 500, "\u0000\u202e", "", "<!-- -->", 'id="a" url(#b)']
    record = make_record(len(names), 1)
    for party, name in zip(record.parties, names, strict=True):
        party.name = name
    ET.fromstring(accuracy_plot(record).svg)
    svg = accuracy_plot(hostile_record).svg
    assert not [e for e in ET.fromstring(svg).iter() if e.tag.endswith("script")]
    assert any(t.startswith("<script>") for t in texts(svg))


def test_one_round_is_a_sentence_not_a_plot(make_record):
    plot = rounds_plot(make_record(5, 1, algorithm="fedkt"))
    assert plot.svg == ""
    assert "one round" in plot.caption
    record = make_record(5, 4)  # a value that is missing in a round leaves a gap
    record.rounds[1].agreement, record.rounds[2].agreement = None, float("nan")
    for r in record.rounds:
        r.accuracy, r.consensus_accuracy = {}, None
    shown = texts(rounds_plot(record).svg)
    assert "agreement with the consensus" in shown
    assert "parties' mean" not in shown


def test_the_accuracy_of_one_fixed_answer_is_drawn_because_models_that_flag_nobody_reach_it(make_record):
    record = make_record(3, 2)
    for party in record.parties:
        party.federated["common"] = Metrics(n=500, accuracy=0.936, baseline=0.936, balanced_accuracy=0.5)
    for r, accuracy in zip(record.rounds, (0.5, 0.936), strict=True):
        r.accuracy = {p.name: accuracy for p in record.parties}
    plot = rounds_plot(record)
    assert "always the commonest class 0.936" in texts(plot.svg)
    for party in record.parties:
        party.federated = {}
    assert "commonest" not in rounds_plot(record).svg
