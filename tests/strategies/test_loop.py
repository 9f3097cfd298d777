"""The loop of a run: what it refuses to start, and how it ends where parties are lost."""

import pytest
from federation import fedct_grid, parties, party, quick_fedct, rows

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
