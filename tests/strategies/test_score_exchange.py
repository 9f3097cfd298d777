"""The exchange of scores, by FedMD: rows, averages, subsets and noise, in whole rounds through the real door."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from federation import handler, model, party, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.clients import FedMDClient
from fedkd_flwr.data.public import PublicLabels
from fedkd_flwr.errors import ConfigError, PayloadError
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.stores.subset import SubsetStore
from fedkd_flwr.strategies import FedMD, FedMDConfig
from fedkd_flwr.wire.records import Reply, open_instruction
from fedkd_flwr.wire.row_codec import encode_rows
from fedkd_flwr.wire.score_codec import encode_scores

ALLOW = frozenset({"fedmd"})


def net(*, seed):
    return model(seed=seed, name="mlp", hidden=[8], lr=0.02, batch_size=16)


def _members(count=2, *, state=None, ledger=False, make=net, **changes):
    made = []
    for i in range(count):
        name = f"party-{i:03d}"
        kept = {"state": PartyState(state, run_id="1", party=name)} if state is not None else {}
        if ledger:
            kept |= {"ledger": LedgerStore(state, party=name, data_digest=f"{i:064x}"), "run_id": "1"}
        kept["rows_at_least"] = 20
        settings = {"allow": ALLOW, "model": make, "model_name": "its model", **kept, **changes}
        made.append(party(name, *rows(20, seed=i), **settings))
    return made


def _run(members, *, rounds=2, client=FedMDClient, noise=False, grid=None, strategy=None, **settings):
    public = members[0].public
    fast = {"initial_epochs": 3, "distillation_epochs": 1, "nodes_stable_s": 1e-6, "seed": 1}
    sizes = settings.pop("party_rows", ())
    strategy = FedMD(config=FedMDConfig(**{**fast, **settings}), public=public, party_rows=sizes)
    rng = np.random.default_rng(5) if noise else None
    clients = [client(p, noise_rng=rng) for p in members]
    network = InProcessGrid(handler(clients), [{}] * len(clients), **(grid or {}))
    strategy.start(network, num_rounds=rounds)
    return strategy, network


def _accuracies(strategy):
    return [(p.name, p.solo, p.federated, p.notes) for p in strategy.record.parties]


# ---------------------------------------------------------------------------------------------- the exchange


@pytest.mark.parametrize("share", ["softmax", "argmax"])
def test_any_learner_takes_part_where_no_logits_are_asked(share):
    strategy, _ = _run(_members(make=model), answer_form=share)
    assert strategy.record.mean_accuracies()["federated-common"] > 0.7
    assert all(p.notes == [] for p in strategy.record.parties)


def test_a_learner_without_logits_refuses_to_share_them(caplog):
    with caplog.at_level(logging.ERROR, logger="flwr.party"), pytest.raises(Exception, match="wrong-config"):
        _run(_members(make=model), answer_form="logits")
    assert "model must be a torch net to share logits" in caplog.text


def test_all_parties_get_the_same_rows_drawn_anew_each_round(tmp_path):
    strategy, network = _run(_members(make=model), rounds=2, public_rows_per_round=20)
    by_round = {}
    for message in network.sent:
        if message.metadata.message_type != "train":
            continue
        arrays, config = open_instruction(message.content)
        named = dict(zip(str(config["payload"]).split(","), arrays, strict=True))
        by_round.setdefault(config["server-round"], []).append(named["indices"].tobytes())
    assert [len(set(found)) for found in by_round.values()] == [1, 1]
    assert by_round[1][0] != by_round[2][0]
    again, _ = _run(_members(make=model), rounds=2, public_rows_per_round=20)
    for server_round in (1, 2):
        rows = strategy.exchange.rows(server_round).tolist()
        assert rows == sorted(set(rows)) == again.exchange.rows(server_round).tolist()
        assert len(rows) == 20


def test_the_order_of_parties_and_their_node_ids_change_nothing(tmp_path):
    first, _ = _run(_members(3, state=tmp_path / "a", make=model))
    second, _ = _run(_members(3, state=tmp_path / "b", make=model), grid={"order": [2, 0, 1]})
    assert _accuracies(first) == _accuracies(second)
    assert np.array_equal(first.exchange.average, second.exchange.average)


def test_logits_with_infinities_leave_their_party_out():
    strategy = FedMD(config=FedMDConfig(answer_form="logits", public_rows_per_round=4), public=public_set(4))
    spec = strategy.exchange.spec
    payload = encode_scores(np.ones((4, 3)), public=spec, server_round=1, kind="logits").copy()
    clean = strategy.exchange.read(Reply(node_id=1, party="a", arrays={"logits": payload}), 1)
    assert clean.scores.shape == (4, 3)
    body = np.full((4, 3), np.inf, dtype="<f4").tobytes()
    header = bytearray(payload.tobytes()[:36])
    header[3] = 0  # not compressed
    header[8:12] = (48).to_bytes(4, "little")
    spoilt = np.frombuffer(bytes(header) + body, dtype=np.uint8)
    with pytest.raises(PayloadError) as caught:
        strategy.exchange.read(Reply(node_id=1, party="a", arrays={"logits": spoilt}), 1)
    assert caught.value.reason == "not-a-number"


class Shouts(FedMDClient):
    """Says finite logits of which the averages are still finite, and the other nets' losses are not."""

    def release(self, answer, instruction):
        return {name: np.full_like(array, 3e38) for name, array in super().release(answer, instruction).items()}


def test_one_party_of_huge_logits_is_left_out_and_ends_no_run():
    """Else the others' nets learn the averages, diverge, and no party has an answer in the next round."""
    members = _members(3)
    clients = [FedMDClient(members[0]), FedMDClient(members[1]), Shouts(members[2])]
    settings = {"initial_epochs": 1, "distillation_epochs": 1, "nodes_stable_s": 1e-6, "answer_form": "logits"}
    strategy = FedMD(config=FedMDConfig(**settings), public=members[0].public)
    strategy.start(InProcessGrid(handler(clients), [{}] * 3), num_rounds=2)
    for one in strategy.record.rounds:
        assert one.answered == ["party-000", "party-001"]
        assert [(left.party, left.code) for left in one.rejected] == [("party-002", "not-a-number")]


# ---------------------------------------------------------------------------------------------- a start in common


def test_pretrained_parties_start_from_one_body_and_need_labels():
    pytest.importorskip("torch")
    public = public_set()
    labelled = PublicLabels(y=public.y, num_classes=3, of_schema=True)
    known = replace(public, labels=labelled)
    strategy, _ = _run(_members(public=known), rounds=1, pretrain_epochs=20, initial_epochs=1, answer_form="logits")
    assert strategy.record.rounds[0].consensus_accuracy > 0.9
    with pytest.raises(ConfigError, match=r"paper.pretrain-epochs must be 0 without labelled public rows, got 1"):
        FedMD(config=FedMDConfig(pretrain_epochs=1), public=public)


# ---------------------------------------------------------------------------------------------- one subset for ever


def test_nfdp_learns_from_one_subset_for_ever_and_is_charged_once(tmp_path):
    pytest.importorskip("torch")
    members = _members(state=tmp_path, ledger=True)
    strategy, _ = _run(members, subset_rows=5, rounds=3, party_rows=[20, 20])
    expected = Subsampling(num_rows=20, subset_rows=5, replacement=True)
    for member in members:
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
    drawn = [SubsetStore(m.ledger).stored().tolist() for m in members]
    again = [_at_run(m, tmp_path, "2") for m in members]
    _run(again, subset_rows=5, rounds=1)
    assert [SubsetStore(m.ledger).stored().tolist() for m in again] == drawn
    assert [m.ledger.load().entries[4].events[0][0]["kind"] for m in again] == ["no-op"] * 2


def _at_run(member, state, run_id):
    return replace(member, run_id=run_id, state=PartyState(state, run_id=run_id, party=member.name))


def test_nfdp_s_server_that_knows_no_sizes_states_no_numbers(tmp_path):
    strategy, _ = _run(_members(state=tmp_path, ledger=True, make=model), subset_rows=5)
    (claim,) = strategy.claims
    assert claim.epsilon == float("inf")
    assert "each party's own ledger states its own" in claim.basis


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
    members = _members(2, state=tmp_path, ledger=True)
    _run(members, subset_rows=4, rounds=2, client=SeesRows)
    drawn = {m.X[i].tobytes() for m in members for i in SubsetStore(m.ledger).stored()}
    assert SeesRows.seen == drawn
    assert len(drawn) <= 8


def _asked(member, server_round, **settings):
    """Let a server ask one party whatever it likes."""
    config = {
        **FedMDConfig(initial_epochs=3, distillation_epochs=1).told(),
        "algorithm": "fedmd",
        "privacy": "party",
        "fingerprint": member.public.fingerprint,
        "payload": "indices",
        "wire-version": 1,
        "last-round": 0,
        "server-round": server_round,
    }
    rows = encode_rows(np.arange(member.public.num_rows), num_public=member.public.num_rows)
    return SeesRows(member).fit([rows], {**config, **settings})


def test_a_net_that_learnt_all_rows_under_noise_is_not_continued_under_nfdp(tmp_path, caplog):
    """Else a server has a net trained on everything for next to nothing, and then its answers without noise."""
    pytest.importorskip("torch")
    member = _members(1, state=tmp_path, ledger=True)[0]
    SeesRows.seen = set()
    _asked(member, 1, **{"score-noise": "gaussian", "noise-strength": 1e6})
    assert len(SeesRows.seen) == 20
    with caplog.at_level(logging.WARNING, logger="flwr.party"):
        after_noise = _asked(member, 2, **{"subset-rows": 1, "subset-replacement": True})[0][0]
    assert "the kept model learnt from other rows than random subset of 1 of 20 rows" in caplog.text
    fresh = _at_run(member, tmp_path, "2")
    from_nothing = _asked(fresh, 2, **{"subset-rows": 1, "subset-replacement": True})[0][0]
    assert after_noise.tobytes() == from_nothing.tobytes()


def test_a_subset_is_not_taken_of_rows_that_a_run_s_seed_put_in_order(tmp_path, caplog):
    """Else the same row numbers mean other rows in every run, and the ledger is charged once."""
    member = replace(_members(1, state=tmp_path, ledger=True, make=model)[0], whole=False)
    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        arrays, _, metrics = _asked(member, 1, **{"subset-rows": 5, "subset-replacement": True})
    assert (arrays, metrics["code"]) == ([], "bad-instruction")
    assert "subset-rows must come with the same key in the run config" in caplog.text
    assert SubsetStore(member.ledger).stored() is None


def test_beside_nfdp_no_metric_leaves_a_silo_and_the_others_rows_are_its_own_test(tmp_path, caplog):
    members = _members(state=tmp_path, ledger=True, make=model, tests={})
    with caplog.at_level(logging.INFO, logger="flwr.party"):
        strategy, _ = _run(members, subset_rows=5)
    assert all(p.solo == p.federated == {} for p in strategy.record.parties)
    assert all(r.accuracy == {} for r in strategy.record.rounds)
    assert "own test rows: accuracy" in caplog.text
    assert "epsilon 0.2440" in caplog.text.replace("0.244,", "0.2440,")


def test_a_party_whose_subset_is_gone_refuses_to_draw_again(tmp_path, caplog):
    members = _members(3, state=tmp_path, ledger=True, make=model)
    _run(members, subset_rows=5, rounds=1)
    with sqlite3.connect(members[0].ledger.path) as db:
        db.execute("DELETE FROM parts WHERE name = 'draw'")
    again = [_at_run(m, tmp_path, "2") for m in members]
    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        strategy, _ = _run(again, subset_rows=5, rounds=1)
    assert [(r.party, r.code) for r in strategy.record.rounds[0].rejected] == [("party-000", "ledger-lost")]
    assert "Restore" in caplog.text


@pytest.mark.parametrize("other", [{"subset_rows": 6}, {"subset_rows": 5, "subset_replacement": False}])
def test_a_party_that_drew_one_subset_refuses_another(tmp_path, caplog, other):
    members = _members(state=tmp_path, ledger=True, make=model)
    _run(members, subset_rows=5, rounds=1)
    again = [_at_run(m, tmp_path, "2") for m in members]
    with caplog.at_level(logging.ERROR, logger="flwr.party"), pytest.raises(Exception, match="subset-fixed"):
        _run(again, rounds=1, **other)
    assert "Ask for subset-rows 5 and paper.subset-replacement true" in caplog.text


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
    members = _members(state=tmp_path, make=model, **{"ledger": True, **changes})
    with caplog.at_level(logging.ERROR, logger="flwr.party"), pytest.raises(Exception, match=code):
        _run(members, rounds=1, **settings)
    assert text in caplog.text


def test_a_budget_with_room_for_its_delta_lets_a_subset_pass(tmp_path):
    members = _members(state=tmp_path, ledger=True, make=model, budget=Budget(epsilon=1.0, delta=0.5))
    strategy, _ = _run(members, subset_rows=5, rounds=2)
    assert [len(r.answered) for r in strategy.record.rounds] == [2, 2]


# ---------------------------------------------------------------------------------------------- noise


@pytest.mark.parametrize(
    "settings",
    [
        {"answer_form": "softmax", "score_noise": "gaussian", "noise_strength": 0.01},
        {"answer_form": "logits", "score_noise": "laplace", "noise_strength": 0.01},
        {"answer_form": "argmax", "label_mechanism": "randomized-response", "noise_strength": 20.0},
    ],
)
def test_a_little_noise_changes_little_and_is_charged_for_every_row_and_round(tmp_path, settings):
    pytest.importorskip("torch")
    members = _members(state=tmp_path, ledger=True)
    strategy, _ = _run(members, rounds=2, initial_epochs=12, public_rows_per_round=20, noise=True, **settings)
    assert strategy.record.rounds[-1].consensus_accuracy > 0.85
    (claim,) = strategy.claims
    assert (claim.unit, claim.adversary) == ("party", "server")
    assert "20 public rows a round, 2 rounds" in claim.mechanism
    entries = members[0].ledger.load().entries
    assert [entry.events[0][1] for entry in entries] == [20, 20]
    assert members[0].ledger.load().spent(1e-5) == pytest.approx(claim.epsilon)


def test_noise_for_a_target_keeps_to_it_over_all_rounds(tmp_path):
    strategy, _ = _run(
        _members(make=model),
        answer_form="softmax",
        score_noise="gaussian",
        epsilon=2.0,
        public_rows_per_round=20,
        rounds=2,
    )
    (claim,) = strategy.claims
    assert 1.9 < claim.epsilon <= 2.0
    assert claim.delta == 1e-5


def test_at_each_variant_the_wire_carries_what_is_private_and_nothing_else(tmp_path):
    for settings, name in (
        ({"score_noise": "laplace", "noise_strength": 1.0}, "scores"),
        ({"subset_rows": 5}, "probs"),
    ):
        folder = tmp_path / name
        _, network = _run(
            _members(state=folder, ledger=True, make=model), rounds=1, public_rows_per_round=20, **settings
        )
        for reply in network.replies:
            content = reply.content
            assert set(content.config_records["reply"]) == {"party", "wire-version"}
            assert set(content.metric_records["metrics"]) == {"num-examples"}
            if reply.metadata.message_type == "train":
                assert list(content.array_records["arrays"]) == [name]
                assert content.metric_records["metrics"]["num-examples"] == 20


def test_more_rows_a_round_than_there_are_is_refused():
    with pytest.raises(ConfigError, match=r"public-rows-per-round must be at most 60 \(public rows\), got 61"):
        FedMD(config=FedMDConfig(public_rows_per_round=61), public=public_set(60))
    assert FedMD(config=FedMDConfig(), public=public_set(60)).exchange.batch == 60
