"""The loop of a run: what it refuses to start, and how it ends where parties are lost."""

import pytest
from federation import fedct_grid, parties, party, rows
from flwr.app import MetricRecord
from rounds import quick_fedct

from fedkd_flwr.errors import ConfigError, TooFewPartiesError
from fedkd_flwr.stores.party_state import PartyState


def test_a_strategy_runs_once():
    strategy = quick_fedct()
    strategy.start(fedct_grid(parties(3)), num_rounds=1)
    with pytest.raises(ConfigError, match="a strategy must start one run"):
        strategy.start(fedct_grid(parties(3)), num_rounds=1)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"fraction_train": 0.0}, r"fraction_train must be within \(0, 1\], got 0.0"),
        ({"fraction_evaluate": float("nan")}, "fraction_evaluate must be within"),
        ({"min_train_nodes": 0}, "min_train_nodes must be a whole number >= 1, got 0"),
        ({"min_train_nodes": 5, "min_available_nodes": 4}, "min_train_nodes must be at most 4, got 5"),
    ],
)
def test_impossible_flower_settings_are_refused(keywords, message):
    with pytest.raises(ConfigError, match=message):
        quick_fedct(**keywords)


def _ends_midway(count, *, rounds=3, strategy=None, members=None):
    """Run parties of which all but ``count`` go silent in round 2."""

    def tamper(index, reply):
        late = reply.metadata.message_type == "train" and int(reply.metadata.group_id) > 1
        return None if late and index >= count else reply

    strategy = strategy or quick_fedct(stop_when_converged=False)
    with pytest.raises(TooFewPartiesError, match=r"valid replies in round 2 must be >= 2, got 1.*party-001: no-reply"):
        strategy.start(fedct_grid(members or parties(3), tamper=tamper), num_rounds=rounds, timeout=0.2)
    return strategy


def test_a_run_that_loses_its_parties_midway_hands_out_its_last_good_consensus_and_then_fails(tmp_path):
    kept = PartyState(tmp_path, run_id="1", party="party-000")
    strategy = _ends_midway(
        1, members=[party("party-000", *rows(20, seed=0), state=kept, keep_model=True), *parties(3)[1:]]
    )
    unbroken = quick_fedct()
    unbroken.start(fedct_grid(parties(3)), num_rounds=1)
    assert (strategy.exchange.consensus == unbroken.exchange.consensus).all()
    record = strategy.record
    assert (record.status, len(record.rounds), record.rounds[1].ended) == ("failed", 2, False)
    assert [note.values["good"] for note in record.notes if note.code == "ended-early"] == [1]
    assert len(list(tmp_path.rglob("*.model"))) == 2  # the federation's and its own
    assert all("common" in one.federated for one in record.parties)


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
