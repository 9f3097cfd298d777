"""PrivateKT: whole rounds in process, what crosses the wire, what it costs, and a run that continues another."""

import copy
import dataclasses
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from federation import handler, model, parties, party, public_set, rows
from flwr.app import Array, ArrayRecord
from grid import InProcessGrid

from fedkd_flwr.clients import Party, PrivateKTClient
from fedkd_flwr.errors import ConfigError, DataError, LimitError, TooFewPartiesError
from fedkd_flwr.files import write_sealed
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.processes.limits import limits_of
from fedkd_flwr.record.notes import NoteCode
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.participations import Participations
from fedkd_flwr.strategies import PrivateKT, PrivateKTConfig
from fedkd_flwr.wire.label_codec import decode_labels, encode_labels
from fedkd_flwr.wire.records import numbered_arrays, open_instruction, open_reply

pytest.importorskip("torch")


TEST = rows(100, seed=7)
CLEAR = 200.0  # an epsilon at which every label is kept


def net(*, seed, hidden=(8,), **params):
    return model(seed=seed, name="mlp", hidden=list(hidden), optimizer="sgd", lr=0.1, batch_size=8, **params)


def members(count=5, **changes):
    return parties(count, **{"allow": frozenset({"privatekt"}), "model": net, "simulated": True, **changes})


def names(count=5, first=1000):
    return {first + i: f"party-{i:03d}" for i in range(count)}


def make(*, clients=5, fraction=1.0, minimum=2, checkpoint=None, resume_from=None, known=True, run_id="1", **settings):
    settings = {"solo_epochs": 1, "local_epochs": 2, **settings}
    config = PrivateKTConfig(seed=settings.pop("seed", 1), nodes_stable_s=1e-6, node_deadline_s=0.5, **settings)
    return PrivateKT(
        fraction,
        min_train_nodes=minimum,
        config=config,
        public=public_set(),
        global_model=net,
        test=TEST,
        checkpoint=checkpoint,
        resume_from=resume_from,
        names=names(clients) if known else None,
        record=RunRecord(run_id=run_id, algorithm="privatekt"),
    )


def grid_of(held, **keywords):
    first = keywords.get("first_node_id", 1000)
    return InProcessGrid(handler([PrivateKTClient(p) for p in held], first), [{}] * len(held), **keywords)


def run(*, rounds=4, held=None, timeout=60.0, **settings):
    held = members() if held is None else held
    grid_settings = {k: settings.pop(k) for k in ("order", "tamper") if k in settings}
    strategy = make(clients=len(held), **settings)
    grid = grid_of(held, **grid_settings)
    strategy.start(grid, num_rounds=rounds, timeout=timeout)
    return strategy, grid


def curve(strategy):
    return [(r.server_round, r.answered, r.server_accuracy, r.consensus_accuracy) for r in strategy.record.rounds]


def same_weights(one, other):
    return all((a == b).all() for a, b in zip(one.model.arrays(), other.model.arrays(), strict=True))


# ---------------------------------------------------------------------------------------------------- whole runs


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


def test_the_order_of_replies_changes_nothing():
    one, _ = run(rounds=2, round_epsilon=CLEAR)
    other, _ = run(rounds=2, round_epsilon=CLEAR, order=[3, 0, 4, 1, 2])
    assert curve(one) == curve(other)
    assert same_weights(one, other)


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
    held = without.exchange.buffer.all()
    taught = fresh.exchange._fresh("teach", 1).set_arrays(start)
    taught.full_batch_steps(public_set().X[held.rows], held.targets, steps=4)
    assert all((a == b).all() for a, b in zip(taught.arrays(), without.model.arrays(), strict=True))


# ---------------------------------------------------------------------------------------------------- the wire


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


def _spoil(change):
    """Return a handler that changes what the first node is sent."""

    def handle_with(inner):
        def handle(message, context):
            if context.node_id == 1000 and message.metadata.message_type == "train":
                change(message.content)
            return inner(message, context)

        return handle

    return handle_with


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
    content, member = copy.deepcopy(asked), _with_ledger(tmp_path, members(1)[0])
    HOSTILE[what](content)
    arrays, _, said = PrivateKTClient(member).fit(*open_instruction(content))
    assert (arrays, said["code"]) == ([], "bad-instruction")
    assert member.ledger.load().entries == ()


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_limits_that_private_rows_in_memory_may_pass_refuse_no_weights():
    def too_much(work, *, parts=1):
        raise LimitError("memory")

    strategy = make(clients=2)
    strategy.start(grid_of(members(2, apart=too_much)), num_rounds=1)
    assert strategy.record.rounds[0].rejected == []
    assert strategy.record.rounds[0].answered == list(names(2).values())


def test_weights_that_make_training_overflow_get_privatised_labels_like_any_others(tmp_path, caplog):
    """A reply that stayed away where private rows make the loss overflow would tell of them, uncharged."""
    held = members(2)
    held[0] = _with_ledger(tmp_path, held[0])
    huge = _spoil(lambda c: _replace(c, "model.2", np.full((3, 8), 3e38, dtype=np.float32)))
    strategy = make(clients=2)
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
    def wide(*, seed):
        return net(seed=seed, hidden=(9,))

    held = [
        *members(2),
        party("wide", *rows(20, seed=8), allow=frozenset({"privatekt"}), model=wide),
        party("tree", *rows(20, seed=9), allow=frozenset({"privatekt"})),
    ]
    strategy, _ = run(rounds=1, held=held, known=False)
    codes = {r.party: r.code for r in strategy.record.rounds[0].rejected}
    assert codes == {"wide": "bad-instruction", "tree": "wrong-config"}


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
    assert strategy.exchange.buffer.all().targets.sum() == pytest.approx(2.0)


# ---------------------------------------------------------------------------------------------------- the cost


def _with_ledger(root, held, **changes):
    ledger = LedgerStore(root, party=held.name, data_digest="a" * 64)
    return dataclasses.replace(held, ledger=ledger, run_id="1", **changes)


def test_the_ledger_charges_k_labels_of_the_whole_party_for_each_round_it_takes_part_in(tmp_path):
    held = [_with_ledger(tmp_path, p) for p in members()]
    strategy, _ = run(rounds=3, held=held, fraction=0.4, round_epsilon=3.0, transfer_rows=3)
    event = RandomizedResponse(epsilon=1.0, num_classes=3).dp_event()
    for p in held:
        entries = p.ledger.load().entries
        assert len(entries) == strategy.roster.asked.before(p.name)
        for entry in entries:
            assert (entry.unit, entry.adversary) == ("party", "server")
            assert entry.neighbouring_relation == "any change of the party's data"
            assert entry.events == plain_events([(event, 3)])


def test_a_party_is_charged_whatever_privacy_the_server_says_there_is(tmp_path):
    held = members(2)
    held[0] = _with_ledger(tmp_path, held[0])
    lie = _spoil(lambda c: c.config_records["config"].__setitem__("privacy", "none"))
    make(clients=2).start(InProcessGrid(lie(handler([PrivateKTClient(p) for p in held])), [{}] * 2), num_rounds=1)
    assert len(held[0].ledger.load().entries) == 1


def test_what_goes_wrong_is_an_answer_whatever_privacy_the_server_says_there_is(tmp_path):
    class Broken(PrivateKTClient):
        def learn(self, instruction):
            raise ValueError("row 3 holds 1.7")

    held = members(2, simulated=False)
    lie = _spoil(lambda c: c.config_records["config"].__setitem__("privacy", "none"))
    grid = InProcessGrid(lie(handler([Broken(held[0]), PrivateKTClient(held[1])])), [{}] * 2)
    make(clients=2).start(grid, num_rounds=1)
    replies = [open_reply(r, "fit") for r in grid.replies if r.metadata.message_type == "train"]
    assert len({(r.code, tuple(r.metrics), r.num_bytes) for r in replies}) == 1
    assert replies[0].code == ""


def test_a_run_whose_rounds_a_budget_does_not_cover_is_refused_before_anything_is_paid(tmp_path):
    held = [_with_ledger(tmp_path, p, budget=Budget(epsilon=11.0)) for p in members(2)]
    with pytest.raises(TooFewPartiesError, match="party-000: budget-exceeded"):
        run(rounds=3, held=held, round_epsilon=5.0)
    assert [len(p.ledger.load().entries) for p in held] == [0] * 2
    run(rounds=2, held=held, round_epsilon=5.0)
    assert [len(p.ledger.load().entries) for p in held] == [2] * 2


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


def test_with_participation_once_nobody_is_asked_twice_and_the_run_costs_one_round():
    strategy, _ = run(rounds=2, fraction=0.4, participation="once")
    counted = Counter(name for r in strategy.record.rounds for name in r.answered)
    assert sorted(counted.values()) == [1, 1, 1, 1]
    assert 4.9 < strategy.claims[0].epsilon <= 5.0


def test_participation_once_with_too_few_parties_for_the_rounds_is_refused_before_anybody_is_asked():
    held = members()
    grid = grid_of(held)
    rule = r"num-rounds must be at most 2 with participation once \(2 of 5 parties a round\), got 3. Lower fraction"
    with pytest.raises(ConfigError, match=rule):
        make(fraction=0.4, participation="once").start(grid, num_rounds=3)
    assert grid.sent == []


def test_once_works_where_names_are_not_known_before():
    strategy, _ = run(rounds=2, fraction=0.4, participation="once", known=False)
    assert max(strategy.roster.times_asked.values()) == 1
    assert len(strategy.roster.times_asked) == 4


# ------------------------------------------------------------------------------------- a run that continues another


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


def test_a_continued_run_charges_ledgers_for_new_rounds_only(tmp_path):
    held = [_with_ledger(tmp_path / "ledgers", p) for p in members(2)]
    run(rounds=1, held=held, checkpoint=tmp_path / "one")
    later = [dataclasses.replace(p, run_id="2") for p in held]
    run(rounds=2, held=later, resume_from=tmp_path / "one", run_id="2")
    assert [len(p.ledger.load().entries) for p in held] == [2] * 2


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the checkpoint of a run of two rounds."""
    folder = tmp_path_factory.mktemp("finished")
    run(rounds=2, held=members(2), checkpoint=folder)
    return folder


def _cut_short(path):
    path.write_bytes(path.read_bytes()[:500])


def _wrong_counts(path):
    write_sealed(path, {"version": 1, "unnamed": -1, "parties": {}, "several": []})


STATE, COUNTS = "checkpoint.npz", "participations.json"


@pytest.mark.parametrize(
    ("changes", "file", "spoil", "error", "message"),
    [
        (
            {"rounds": 1},
            STATE,
            None,
            ConfigError,
            "num-rounds must be above 2, the rounds that the run to continue has",
        ),
        (
            {"transfer_rows": 3},
            STATE,
            None,
            ConfigError,
            "transfer-rows must be 2, as in the run to continue, got 3. Cont",
        ),
        ({}, STATE, Path.unlink, DataError, "checkpoint.npz must be there, got no such file. Name a run that has one"),
        ({}, STATE, _cut_short, DataError, "checkpoint.npz must be whole, got"),
        (
            {},
            COUNTS,
            Path.unlink,
            DataError,
            "participations.json must be whole, got .*Restore it beside the checkpoint",
        ),
        ({}, COUNTS, _wrong_counts, DataError, "must be whole, got count must be a whole number >= 0, got -1"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, finished, changes, file, spoil, error, message):
    folder = shutil.copytree(finished, tmp_path / "copy")
    if spoil is not None:
        spoil(folder / file)
    with pytest.raises(error, match=message):
        run(resume_from=folder, held=members(2), **{"rounds": 4, **changes})


# ---------------------------------------------------------------------------------------------------- bad settings


def test_more_rows_a_round_than_there_are_is_refused():
    rule = r"paper.transfer-rows must be at most 60 \(public rows\), got 61\. Ask for fewer"
    with pytest.raises(ConfigError, match=rule):
        make(transfer_rows=61)


def test_a_model_without_weights_is_refused_at_the_server():
    rule = "model must be a torch net, got an estimator DecisionTreeClassifier. Use a torch net: mlp"
    with pytest.raises(ConfigError, match=rule):
        PrivateKT(config=PrivateKTConfig(), public=public_set(), global_model=model)
