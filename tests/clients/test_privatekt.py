"""PrivateKT at a party: what it refuses, what leaves, and what that costs."""

import copy
import dataclasses
from functools import partial

import numpy as np
import pytest
import rounds
from federation import handler, party, rows
from flwr.app import Array, ArrayRecord
from grid import InProcessGrid
from rounds import grid_of, net

from fedkd_flwr.clients import Party, PrivateKTClient
from fedkd_flwr.errors import LimitError, TooFewPartiesError
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.processes.limits import limits_of
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.wire.records import open_instruction

pytest.importorskip("torch")

make, run = partial(rounds.make, "privatekt"), partial(rounds.run, "privatekt", known=True)
members = partial(rounds.members, algorithm="privatekt")


def spoilt(change):
    """Return a handler that changes what the first node is sent."""

    def handle_with(inner):
        def handle(message, context):
            if context.node_id == 1000 and message.metadata.message_type == "train":
                change(message.content)
            return inner(message, context)

        return handle

    return handle_with


def with_ledger(root, held, **changes):
    ledger = LedgerStore(root, party=held.name, data_digest="a" * 64)
    return dataclasses.replace(held, ledger=ledger, run_id="1", **changes)


def _arrays(content):
    return content.array_records["arrays"]


def _replace(content, name, array):
    old = _arrays(content)
    content["arrays"] = ArrayRecord({k: (Array(array) if k == name else v) for k, v in old.items()})


HOSTILE = {
    "another shape": lambda c: _replace(c, "model.0", np.zeros((3, 3), dtype=np.float32)),
    "not a number": lambda c: _replace(c, "model.0", np.full((8, 2), np.nan, dtype=np.float32)),
    "integers": lambda c: _replace(c, "model.0", np.zeros((8, 2), dtype=np.int32)),
    "an array less": lambda c: _drop(c),
    "repeated rows": lambda c: _replace(c, "indices", np.array([1, 1], dtype=np.int32)),
    "more rows than it says": lambda c: _replace(c, "indices", np.array([1, 2, 3], dtype=np.int32)),
    "rows beyond U": lambda c: _replace(c, "indices", np.array([1, 60], dtype=np.int32)),
    "no epochs": lambda c: c.config_records["config"].__setitem__("local-epochs", 0),
    "no epsilon": lambda c: c.config_records["config"].__setitem__("round-epsilon", 0.0),
}


def _drop(content):
    del content["arrays"]["model.1"]


@pytest.fixture(scope="module")
def asked():
    """Return what a party is sent in a round."""
    return run(rounds=1, held=members(2))[1].sent[0].content


@pytest.mark.parametrize("what", HOSTILE)
def test_a_model_or_instruction_that_does_not_fit_is_refused_with_a_code(what, tmp_path, asked):
    content, member = copy.deepcopy(asked), with_ledger(tmp_path, members(1)[0])
    HOSTILE[what](content)
    arrays, _, said = PrivateKTClient(member).fit(*open_instruction(content))
    assert (arrays, said["code"]) == ([], "bad-instruction")
    assert member.ledger.load().entries == ()


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_limits_that_private_rows_in_memory_may_pass_refuse_no_weights():
    def too_much(work, *, parts=1):
        raise LimitError("memory")

    strategy = make()
    strategy.start(grid_of(members(2, apart=too_much), "privatekt"), num_rounds=1)
    assert strategy.record.rounds[0].rejected == []
    assert strategy.record.rounds[0].answered == ["party-000", "party-001"]


def test_weights_that_make_training_overflow_get_privatised_labels_like_any_others(tmp_path, caplog):
    """A reply that stayed away where private rows make the loss overflow would tell of them, uncharged."""
    held = members(2)
    held[0] = with_ledger(tmp_path, held[0])
    huge = spoilt(lambda c: _replace(c, "model.2", np.full((3, 8), 3e38, dtype=np.float32)))
    strategy = make()
    strategy.start(InProcessGrid(huge(handler([PrivateKTClient(p) for p in held])), [{}] * 2), num_rounds=1)
    assert "it learnt nothing" in caplog.text
    assert strategy.record.rounds[0].rejected == []
    assert len(held[0].ledger.load().entries) == 1


def test_a_net_is_made_in_no_process_that_a_later_piece_of_work_is_forked_from(monkeypatch):
    """A GPU that it had used could not be used in the fork, and every answer would be the fixed one, in silence."""
    made = []
    with_weights = Party.net_with
    monkeypatch.setattr(Party, "net_with", lambda self, *a, **w: made.append(1) or with_weights(self, *a, **w))
    strategy, _ = run(rounds=1, held=members(2, apart=limits_of(60, 0)))
    assert strategy.record.rounds[0].answered == ["party-000", "party-001"]
    assert made == []  # what children append is lost


def test_a_party_with_another_net_or_none_is_left_out_with_a_reason():
    held = [
        *members(2),
        party("wide", *rows(20, seed=8), allow=frozenset({"privatekt"}), model=partial(net, hidden=(9,))),
        party("tree", *rows(20, seed=9), allow=frozenset({"privatekt"})),
    ]
    strategy, _ = run(rounds=1, held=held, known=False)
    codes = {r.party: r.code for r in strategy.record.rounds[0].rejected}
    assert codes == {"wide": "bad-instruction", "tree": "wrong-config"}


def test_the_ledger_charges_k_labels_of_the_whole_party_for_each_round_it_takes_part_in(tmp_path):
    held = [with_ledger(tmp_path, p) for p in members()]
    strategy, _ = run(rounds=3, held=held, fraction=0.4, round_epsilon=3.0, transfer_rows=3)
    event = RandomizedResponse(epsilon=1.0, num_classes=3).dp_event()
    for p in held:
        entries = p.ledger.load().entries
        assert len(entries) == strategy.roster.asked.before(p.name)
        for entry in entries:
            assert (entry.unit, entry.adversary) == ("party", "server")
            assert entry.neighbouring_relation == "any change of the party's data"
            assert entry.events == plain_events([(event, 3)])


def test_a_run_whose_rounds_a_budget_does_not_cover_is_refused_before_anything_is_paid(tmp_path):
    held = [with_ledger(tmp_path, p, budget=Budget(epsilon=11.0)) for p in members(2)]
    with pytest.raises(TooFewPartiesError, match="party-000: budget-exceeded"):
        run(rounds=3, held=held, round_epsilon=5.0)
    assert [len(p.ledger.load().entries) for p in held] == [0] * 2
    run(rounds=2, held=held, round_epsilon=5.0)
    assert [len(p.ledger.load().entries) for p in held] == [2] * 2
