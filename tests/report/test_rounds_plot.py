from pages import texts

from fedkd_flwr.report.rounds_plot import rounds_plot


def test_one_round_is_a_sentence_not_a_plot(make_record):
    plot = rounds_plot(make_record(5, 1, algorithm="fedkt"))
    assert plot.svg == ""
    assert "one round" in plot.caption


def test_rounds_without_accuracy_keep_the_votes_panel(make_record):
    record = make_record(5, 3)
    for r in record.rounds:
        r.accuracy, r.consensus_accuracy = {}, None
    plot = rounds_plot(record)
    assert "agreement with the consensus" in texts(plot.svg)
    assert "mean of the parties" not in texts(plot.svg)


def test_a_value_missing_in_one_round_leaves_a_gap(make_record):
    record = make_record(5, 4)
    record.rounds[1].agreement = None
    record.rounds[2].agreement = float("nan")
    assert rounds_plot(record).svg


def test_a_falling_accuracy_is_called_falling(make_record):
    record = make_record(5, 2)
    record.rounds[1].accuracy = {"party-000": 0.1}
    assert "falls from" in rounds_plot(record).title
