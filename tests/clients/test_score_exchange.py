"""A party that answers with scores: its one subset for ever, what it refuses, and what its changes refer to."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from federation import model, rows
from score_runs import members, run
from visits import NFDP, WIRE, of_run

from fedkd_flwr.algorithms.fedmd import FedMDConfig
from fedkd_flwr.clients import FedMDClient, Party
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.stores.subset import SubsetStore
from fedkd_flwr.wire.score_codec import encode_rows


def test_a_learner_without_logits_refuses_to_share_them(caplog):
    with pytest.raises(Exception, match="wrong-config"):
        run(members(make=model), answer_form="logits")
    assert "model must be a torch net to share logits" in caplog.text


def test_nfdp_learns_from_one_subset_for_ever_and_is_charged_once(tmp_path):
    pytest.importorskip("torch")
    held = members(state=tmp_path, ledger=True)
    strategy, _ = run(held, subset_rows=5, rounds=3, party_rows=[20, 20])
    expected = Subsampling(num_rows=20, subset_rows=5, replacement=True)
    for member in held:
        entries = [entry for entry in member.ledger.load().entries if entry.server_round]
        kinds = [entry.events[0][0]["kind"] for entry in entries]
        assert kinds == ["approximate", "no-op", "no-op"]
        assert member.ledger.load().spent(expected.delta) == pytest.approx(expected.epsilon)
        assert entries[0].neighbouring_relation == "add, remove or replace one record"
        assert entries[1].mechanism.endswith("charged before")
    (claim,) = strategy.claims
    assert (claim.epsilon, claim.delta, claim.unit) == (expected.epsilon, expected.delta, "record")
    assert any("at least 1 in 20" in note for note in claim.notes)
    # another run, from the same folder: nothing is drawn or charged again
    drawn = [SubsetStore(m.ledger).stored().tolist() for m in held]
    again = [_at_run(m, tmp_path, "2") for m in held]
    run(again, subset_rows=5, rounds=1)
    assert [SubsetStore(m.ledger).stored().tolist() for m in again] == drawn
    assert [m.ledger.load().entries[4].events[0][0]["kind"] for m in again] == ["no-op"] * 2


def _at_run(member, state, run_id):
    return replace(member, run_id=run_id, state=PartyState(state, run_id=run_id, party=member.name))


class SeesRows(FedMDClient):
    seen: set[bytes]

    def begin(self, model, X, y, instruction):
        SeesRows.seen |= {row.tobytes() for row in X}
        super().begin(model, X, y, instruction)

    def improve(self, model, X, y, lesson, instruction):
        SeesRows.seen |= {row.tobytes() for row in X}
        super().improve(model, X, y, lesson, instruction)


def test_nfdp_shows_the_net_no_other_row(tmp_path):
    pytest.importorskip("torch")
    SeesRows.seen = set()
    held = members(2, state=tmp_path, ledger=True)
    run(held, subset_rows=4, rounds=2, client=SeesRows)
    drawn = {m.X[i].tobytes() for m in held for i in SubsetStore(m.ledger).stored()}
    assert SeesRows.seen == drawn
    assert len(drawn) <= 8


def _asked(member, server_round, **settings):
    """Let a server ask one party whatever it likes."""
    config = {**FedMDConfig(initial_epochs=3, distillation_epochs=1).told(), **WIRE, "server-round": server_round}
    config |= {"algorithm": "fedmd", "privacy": "party", "payload": "indices"}
    rows = encode_rows(np.arange(member.public.num_rows), num_public=member.public.num_rows)
    return SeesRows(member).fit([rows], {**config, **settings})


def test_a_net_that_learnt_all_rows_under_noise_is_not_continued_under_nfdp(tmp_path, caplog):
    """Else a server has a net trained on everything for next to nothing, and then its answers without noise."""
    pytest.importorskip("torch")
    member = members(1, state=tmp_path, ledger=True)[0]
    SeesRows.seen = set()
    _asked(member, 1, **{"score-noise": "gaussian", "noise-strength": 1e6})
    assert len(SeesRows.seen) == 20
    after_noise = _asked(member, 2, **{"subset-rows": 1, "subset-replacement": True})[0][0]
    assert "the kept model learnt from other rows than random subset of 1 of 20 rows" in caplog.text
    fresh = _at_run(member, tmp_path, "2")
    from_nothing = _asked(fresh, 2, **{"subset-rows": 1, "subset-replacement": True})[0][0]
    assert after_noise.tobytes() == from_nothing.tobytes()


def test_a_subset_is_not_taken_of_rows_that_a_run_s_seed_put_in_order(tmp_path, caplog):
    """Else the same row numbers mean other rows in every run, and the ledger is charged once."""
    member = replace(members(1, state=tmp_path, ledger=True, make=model)[0], whole=False)
    arrays, _, metrics = _asked(member, 1, **{"subset-rows": 5, "subset-replacement": True})
    assert (arrays, metrics["code"]) == ([], "bad-instruction")
    assert "subset-rows must come with the same key in the run config" in caplog.text
    assert SubsetStore(member.ledger).stored() is None


def test_beside_nfdp_no_metric_leaves_a_silo_and_the_others_rows_are_its_own_test(tmp_path, caplog):
    held = members(state=tmp_path, ledger=True, make=model, tests={})
    with caplog.at_level(logging.INFO, logger="flwr.party"):
        strategy, _ = run(held, subset_rows=5)
    assert all(p.solo == p.federated == {} for p in strategy.record.parties)
    assert all(r.accuracy == {} for r in strategy.record.rounds)
    assert "own test rows: accuracy" in caplog.text


@pytest.mark.parametrize(
    ("settings", "changes", "code", "text"),
    [
        (
            {"subset_rows": 21, "subset_replacement": False},
            {"require_privacy": True},
            "privacy-required",
            "got all of the 21 that it is known to hold. Ask for fewer rows, or let this party say rows-at-least",
        ),
        ({"subset_rows": 5}, {"ledger": False}, "wrong-config", "Give this party a ledger"),
        (
            {"subset_rows": 20, "subset_replacement": False},
            {"require_privacy": True},
            "privacy-required",
            "subset-rows must protect anybody at party-000",
        ),
        ({"subset_rows": 5}, {"budget": Budget(epsilon=1.0)}, "budget-exceeded", "privacy budget of party-000"),
    ],
)
def test_a_subset_that_protects_nobody_or_is_not_remembered_is_refused(tmp_path, caplog, settings, changes, code, text):
    held = members(state=tmp_path, make=model, **{"ledger": True, **changes})
    with pytest.raises(Exception, match=code):
        run(held, rounds=1, **settings)
    assert text in caplog.text


def test_a_budget_with_room_for_its_delta_lets_a_subset_pass(tmp_path):
    held = members(state=tmp_path, ledger=True, make=model, budget=Budget(epsilon=1.0, delta=0.5))
    strategy, _ = run(held, subset_rows=5, rounds=2)
    assert [len(r.answered) for r in strategy.record.rounds] == [2, 2]


def test_with_nfdp_rows_that_were_not_drawn_are_not_even_measured_on(tmp_path, monkeypatch):
    member = of_run(tmp_path, *rows(20, seed=0), model=model, rows_at_least=20)
    asked = encode_rows(np.arange(9), num_public=60)
    monkeypatch.setattr(Party, "progress", lambda *_: pytest.fail("it measured"))
    told = {**NFDP, **WIRE, "algorithm": "fedmd", "payload": "indices"}
    assert "code" not in FedMDClient(member).fit([asked], told)[2]
