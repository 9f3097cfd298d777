"""PrivateKT at the server: whole rounds, whom it asks how often, and a run that continues another."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
import rounds
from federation import public_set, rows
from flwr.app import Array, ArrayRecord
from rounds import TEST, grid_of

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.record.notes import NoteCode
from fedkd_flwr.stores.checkpoints import Participations
from fedkd_flwr.wire.label_codec import decode_labels, encode_labels
from fedkd_flwr.wire.records import numbered_arrays, open_instruction, open_reply

pytest.importorskip("torch")

CLEAR = 200.0  # an epsilon at which every label is kept
make, run = partial(rounds.make, "privatekt"), partial(rounds.run, "privatekt", known=True)
members = partial(rounds.members, algorithm="privatekt")


def curve(strategy):
    return [(r.server_round, r.answered, r.server_accuracy, r.consensus_accuracy) for r in strategy.record.rounds]


def same_weights(one, other):
    return all((a == b).all() for a, b in zip(one.model.arrays(), other.model.arrays(), strict=True))


def test_the_server_s_model_learns_from_a_few_labels_a_round():
    strategy, _ = run(rounds=6, round_epsilon=60.0, transfer_rows=6, local_epochs=5)
    accuracies = [r.server_accuracy for r in strategy.record.rounds]
    assert strategy.record.status == "completed"
    assert accuracies[-1] == strategy.record.server_accuracy > 0.85
    assert (strategy.exchange.model.predict(TEST[0]) == TEST[1]).mean() == accuracies[-1]
    assert set(strategy.record.mean_accuracies()) == {"solo-common", "federated-common"}
    assert all(p.federated["common"].accuracy == pytest.approx((strategy.exchange.model.predict(X) == y).mean())
               for p in strategy.record.parties for X, y in [rows(50, seed=7)])  # fmt: skip
    line = strategy.record.rounds[-1].line(6)
    assert f"server's model {accuracies[-1]:.4f}" in line
    assert "labelled" not in line  # a few rows a round: no share of the public rows is meant


def test_a_group_is_drawn_by_name_and_counted():
    strategy, _ = run(rounds=4, fraction=0.4)
    groups = [tuple(r.answered) for r in strategy.record.rounds]
    assert {len(group) for group in groups} == {2}
    assert len(set(groups)) > 1
    counted = Counter(name for group in groups for name in group)
    assert strategy.roster.asked == Participations(by_party=dict(counted))


def test_without_self_training_the_model_learns_the_buffer_alone(monkeypatch):
    with_it, _ = run(rounds=1, round_epsilon=CLEAR)
    monkeypatch.setattr("fedkd_flwr.strategies.privatekt.SELF_TRAINING_SHARE", 0.0)
    without, _ = run(rounds=1, round_epsilon=CLEAR)
    assert not same_weights(with_it, without)
    fresh = make()
    start = fresh.model.arrays()
    ((asked, targets),) = without.exchange.buffer
    taught = fresh.exchange._fresh("teach", 1).set_arrays(start)
    taught.full_batch_steps(public_set().X[asked], targets, steps=4)
    assert all((a == b).all() for a, b in zip(taught.arrays(), without.model.arrays(), strict=True))


def test_only_k_privatised_labels_leave_a_party_and_weights_go_down_only():
    strategy, grid = run(rounds=2, held=members(simulated=False), transfer_rows=3)
    for reply in (r for r in grid.replies if r.metadata.message_type == "train"):
        opened = open_reply(reply, "fit")
        assert list(opened.arrays) == ["labels"]
        assert set(opened.metrics) == {"party", "wire-version", "payload", "num-examples"}
        spec = strategy.exchange.spec.rows(3)
        labels = decode_labels(opened.arrays["labels"], public=spec, server_round=int(reply.metadata.group_id))
        assert labels.shape == (1, 3)
        assert reply.content.metric_records["metrics"]["num-examples"] == 3
    for reply in (r for r in grid.replies if r.metadata.message_type == "evaluate"):
        assert set(reply.content.config_records["reply"]) == {"party", "wire-version"}
    assert strategy.record.mean_accuracies() == {}
    # a round brings the model and the rows, and the end the model; its bytes are shared in fresh records
    arrays, config = open_instruction(grid.sent[0].content)
    assert config["payload"] == "model.0,model.1,model.2,model.3,indices"
    assert arrays[-1].shape == (3,)
    arrays, config = open_instruction(grid.sent[-1].content)
    assert config["payload"] == "model.0,model.1,model.2,model.3"
    sent = numbered_arrays(dict(zip(config["payload"].split(","), arrays, strict=True)), "model")
    assert all((a == b).all() for a, b in zip(sent, strategy.exchange.model.arrays(), strict=True))
    one, two = (m.content.array_records["arrays"] for m in grid.sent[:2])
    assert one is not two
    assert one["model.0"].data is two["model.0"].data


def _answer(count=2, *, label=0):
    labels = np.full((1, count), label, dtype=np.int16)
    spec = make().exchange.spec.rows(count)
    return encode_labels(labels, public=spec, server_round=1)


def test_replies_that_cannot_be_counted_are_left_out_of_the_mean():
    forged = {0: _answer(3), 1: _answer(2, label=-1), 2: np.zeros(4, dtype=np.uint8)}

    def tamper(node, reply):
        if node in forged and reply.metadata.message_type == "train":
            reply.content["arrays"] = ArrayRecord({"labels": Array(forged[node])})
        return reply

    strategy, _ = run(rounds=1, tamper=tamper)
    codes = [r.code for r in strategy.record.rounds[0].rejected]
    assert codes == ["wrong-length", "class-out-of-range", "bad-payload"]
    assert strategy.exchange.buffer[0][1].sum() == pytest.approx(2.0)


def test_the_claim_is_of_the_party_asked_most_often_and_says_what_the_paper_claims_too_much():
    strategy, _ = run(rounds=3, fraction=0.6)
    (claim,) = strategy.claims
    most = max(Counter(name for r in strategy.record.rounds for name in r.answered).values())
    assert (claim.unit, claim.adversary, claim.basis) == ("party", "server", "proven")
    assert 5.0 < claim.epsilon <= most * 5.0
    assert f"2 labels a round, {most} rounds of the party asked most often" in claim.mechanism
    assert "needs a shuffler" in " ".join(claim.notes)


def test_who_was_asked_counts_though_it_never_answered():
    silent = lambda node, reply: None if node == 0 else reply  # noqa: E731
    strategy, _ = run(rounds=2, held=members(3), tamper=silent, timeout=0.05)
    assert strategy.roster.asked.before("party-000") == 2
    assert "2 rounds of the party" in strategy.claims[0].mechanism


@pytest.mark.parametrize("known", [True, False])
def test_with_participation_once_nobody_is_asked_twice_and_the_run_costs_one_round(known):
    strategy, _ = run(rounds=2, fraction=0.4, participation="once", known=known)
    assert sorted(strategy.roster.times_asked.values()) == [1, 1, 1, 1]
    counted = Counter(name for r in strategy.record.rounds for name in r.answered)
    assert sorted(counted.values()) == [1, 1, 1, 1]
    assert 4.9 < strategy.claims[0].epsilon <= 5.0


def test_participation_once_with_too_few_parties_for_the_rounds_is_refused_before_anybody_is_asked():
    held = members()
    grid, names = grid_of(held, "privatekt"), {1000 + i: one.name for i, one in enumerate(held)}
    rule = r"num-rounds must be at most 2 with participation once \(2 of 5 parties a round\), got 3. Lower fraction"
    with pytest.raises(ConfigError, match=rule):
        make(fraction=0.4, names=names, participation="once").start(grid, num_rounds=3)
    assert grid.sent == []


def test_a_continued_run_ends_where_an_uninterrupted_one_does(tmp_path, monkeypatch):
    monkeypatch.setattr("fedkd_flwr.strategies.privatekt.BUFFER_ROUNDS", 2)
    settings = {"round_epsilon": CLEAR, "fraction": 0.4}
    whole, _ = run(rounds=4, **settings)
    run(rounds=2, checkpoint=tmp_path / "one", **settings)
    rest, grid = run(rounds=4, checkpoint=tmp_path / "two", resume_from=tmp_path / "one", **settings)
    assert curve(rest) == curve(whole)
    assert same_weights(rest, whole)
    assert (rest.exchange.rows == whole.exchange.rows).all()
    assert rest.roster.asked == whole.roster.asked
    assert rest.claims == whole.claims
    asked = sum(m.metadata.message_type == "train" for m in grid.sent)
    assert asked == 2 * len(whole.record.rounds[0].answered)
    assert NoteCode.CONTINUES in [note.code for note in rest.record.notes]


def test_a_run_that_died_in_a_round_has_asked_all_the_same(tmp_path):
    def die(node, reply):
        if reply.metadata.group_id == "3":
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        run(rounds=5, held=members(2), checkpoint=tmp_path / "one", tamper=die)
    going_on = {"held": members(2), "resume_from": tmp_path / "one"}
    rest, _ = run(rounds=5, checkpoint=tmp_path / "two", **going_on)
    assert [r.server_round for r in rest.record.rounds] == [1, 2, 3, 4, 5]
    assert rest.roster.asked.most == 6  # rounds 1 and 2, round 3 twice, rounds 4 and 5
    assert "6 rounds of the party" in rest.claims[0].mechanism
    # continued once more from the same place, the rounds of the first continuation count too
    again, _ = run(rounds=3, **going_on)
    assert again.roster.asked.most == 7


def test_once_stays_once_over_a_continued_run(tmp_path):
    settings = {"fraction": 0.4, "participation": "once"}
    first, _ = run(rounds=1, checkpoint=tmp_path, **settings)
    second, _ = run(rounds=2, resume_from=tmp_path, **settings)
    one, two = (set(r.answered) for r in second.record.rounds)
    assert one == set(first.record.rounds[0].answered)
    assert not one & two
    with pytest.raises(ConfigError, match=r"num-rounds must be at most 1 with participation once \(2 of 1 parties"):
        run(rounds=2, resume_from=tmp_path, **settings)


def test_more_rows_a_round_than_there_are_is_refused():
    rule = r"paper.transfer-rows must be at most 60 \(public rows\), got 61\. Ask for fewer"
    with pytest.raises(ConfigError, match=rule):
        make(transfer_rows=61)
