"""What a caller hangs on the end of each round: it sees what the round left, may stop the run, and ends none."""

from federation import fedct_grid, parties, quick_fedct
from flwr.app import MetricRecord


def test_an_evaluate_fn_gets_each_round_s_labels_and_nothing_before_there_are_any():
    seen = []

    def evaluate(server_round, arrays):
        seen.append((server_round, list(arrays), arrays["labels"].numpy().shape))
        return MetricRecord({"round": server_round})

    result = quick_fedct(stop_when_converged=False).start(fedct_grid(parties(3)), num_rounds=2, evaluate_fn=evaluate)
    assert seen == [(1, ["labels"], (60,)), (2, ["labels"], (60,))]
    assert [dict(one) for one in result.evaluate_metrics_serverapp.values()] == [{"round": 1}, {"round": 2}]


def test_an_evaluate_fn_that_loads_weights_ends_no_run_and_the_record_says_what_it_got():
    asked = []

    def evaluate(server_round, arrays):
        asked.append(server_round)
        return MetricRecord({"accuracy": float(arrays["fc1.weight"].numpy().mean())})

    strategy = quick_fedct(stop_when_converged=False)
    strategy.start(fedct_grid(parties(3)), num_rounds=2, evaluate_fn=evaluate)
    assert asked == [1]
    assert strategy.record.status == "completed"
    (note,) = (note for note in strategy.record.notes if note.code == "evaluate-fn-failed")
    assert (note.values["arrays"], note.values["algorithm"]) == ("labels [60]", "fedct")


def test_a_run_stops_where_should_stop_of_a_newer_flower_says_so():
    strategy, grid, asked = quick_fedct(stop_when_converged=False), fedct_grid(parties(3)), []

    def should_stop(server_round, result):
        asked.append((server_round, list(result.train_metrics_clientapp)))
        return server_round == 2

    strategy.start(grid, num_rounds=5, should_stop=should_stop)
    assert asked == [(1, [1]), (2, [1, 2])]
    assert [r.server_round for r in strategy.record.rounds] == [1, 2]
    assert [m.content["config"]["server-round"] for m in grid.sent] == [1, 1, 1, 2, 2, 2, 2, 2, 2]
    assert strategy.record.status == "completed"
    assert all(party.federated for party in strategy.record.parties)  # they got the result
    asked.clear()
    keywords = {"num_rounds": 2, "should_stop": lambda *_: asked.append(1)}
    quick_fedct(stop_when_converged=False).start(fedct_grid(parties(3)), **keywords)
    assert asked == [1]  # after its last round a run ends anyway
