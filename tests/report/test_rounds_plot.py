from pages import texts

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.report.rounds_plot import rounds_plot


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


def test_how_many_rows_judge_the_consensus_is_a_bound_where_one_round_knows_no_more(make_record):
    record = make_record(3, 2)
    record.rounds[0].labelled_share, record.rounds[1].labelled_share = 1.0, 0.5
    said = "The accuracy of the consensus labels is of {} in a round."
    assert said.format("5,000 to 10,000 rows") in rounds_plot(record).caption
    record.config["known-rows"] = 3_000
    assert said.format("at most 7,000 rows") in rounds_plot(record).caption
    record.config["known-rows"], record.simulation = 0, False
    assert said.format("at most 10,000 rows") in rounds_plot(record).caption


def test_a_falling_accuracy_is_called_falling(make_record):
    record = make_record(5, 2)
    record.rounds[1].accuracy = {"party-000": 0.1}
    assert "falls from" in rounds_plot(record).title


def test_the_accuracy_of_one_fixed_answer_is_drawn_because_models_that_flag_nobody_reach_it(make_record):
    record = make_record(3, 2)
    for party in record.parties:
        party.federated["common"] = Metrics(n=500, accuracy=0.936, baseline=0.936, balanced_accuracy=0.5)
    for r, accuracy in zip(record.rounds, (0.5, 0.936), strict=True):
        r.accuracy = {p.name: accuracy for p in record.parties}
    plot = rounds_plot(record)
    end = "not above the 0.936 of always answering the commonest class"
    assert plot.title == f"The parties' mean accuracy rises from 0.500 to 0.936 in 2 rounds, {end}"
    assert "always the commonest class 0.936" in texts(plot.svg)
    assert "The dotted line is the accuracy of always answering the commonest class, 0.936" in plot.caption
    for party in record.parties:
        party.federated = {}
    assert "commonest" not in (plot := rounds_plot(record)).title + plot.caption


def test_where_a_class_is_rare_the_title_ends_with_balanced_accuracy_because_accuracy_may_rise_as_it_falls(make_record):
    record = make_record(3, 2)
    for party in record.parties:
        party.federated["common"] = Metrics(n=500, accuracy=0.94, balanced_accuracy=0.553, support=[32, 468])
        party.solo = {}
    plot = rounds_plot(record)
    assert plot.title.endswith(" in 2 rounds. Balanced accuracy at the end: 0.553")
    record.server = {"common": Metrics(n=500, accuracy=0.95, balanced_accuracy=0.6, support=[32, 468])}
    for r in record.rounds:
        r.accuracy, r.server_accuracy = {}, r.server_round / 2
    assert rounds_plot(record).title.endswith("Balanced accuracy at the end: 0.600")
