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
