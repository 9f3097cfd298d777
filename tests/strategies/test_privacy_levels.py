"""Whole rounds at every level of privacy: what leaves, what is claimed, what a budget refuses."""

import dataclasses
from functools import cache, partial
from types import SimpleNamespace

import dp_accounting as dp
import numpy as np
import pytest
from federation import SCHEMA, accuracies, as_they_are, handler, held_by_server, model, parties, party, public_set, rows
from grid import InProcessGrid
from rounds import grid_of, make
from visits import CONFIG, RESPONSE

from fedkd_flwr.clients import FedCTClient, FedKTClient
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.metrics import NAMES
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import TwoClassEvent, event_to_json
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget, Ledger
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.votes import GaussianMax
from fedkd_flwr.record.notes import NoteCode
from fedkd_flwr.record.run_record import RoundRecord, RunRecord
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.strategies import FedKT, FedKTConfig, PartyLabels
from fedkd_flwr.wire.label_codec import decode_labels, digest
from fedkd_flwr.wire.records import open_instruction

QUICK = {"seed": 1, "nodes_stable_s": 1e-6}
L2 = {"level": "L2", "noise": "gaussian", "noise_strength": 2.0, "teachers_per_student": 4, "num_queries": 30}
L1 = {"level": "L1", "noise": "gaussian", "noise_strength": 2.0, "num_queries": 30}
NOISY = {"label_mechanism": "randomized-response", "noise_strength": 3.0}
LEVELS = {
    "L0": ("fedkt", {}),
    "L1": ("fedkt", L1),
    "L2": ("fedkt", L2),
    "L2 counts": ("fedkt", {**L2, "learn_from": "counts"}),
    "PATE": ("pate", {"noise": "gaussian", "noise_strength": 1.0}),
    "FedCT": ("fedct", {}),
    "FedCT response": ("fedct", NOISY),
    "FedCT xor": ("fedct", {**NOISY, "label_mechanism": "xor"}),
}
AT_THE_PARTY = ("L2", "L2 counts", "FedCT response", "FedCT xor")


def _strategy(case, **changes):
    algorithm, settings = LEVELS[case]
    return make(algorithm, **{**settings, **changes})


def _grid(case, members, **keywords):
    return grid_of(members, LEVELS[case][0], **keywords)


def _run(case, members, *, num_rounds=1, **changes):
    strategy, grid = _strategy(case, **changes), _grid(case, members)
    strategy.start(grid, num_rounds=num_rounds)
    return strategy, grid


def _said(grid, stage):
    """Return what every reply of a stage carried: array names and bytes, numbers of examples, metrics."""
    out = []
    for reply in grid.replies:
        if reply.metadata.message_type != {"fit": "train"}.get(stage, stage):
            continue
        metrics = {**reply.content["reply"], **reply.content["metrics"]}
        count = metrics.pop("num-examples")
        arrays = reply.content.array_records.get("arrays", {})
        metrics |= {"payload": ",".join(arrays)} if arrays else {}
        out.append((metrics, count, [bytes(a.data) for a in arrays.values()]))
    assert out
    return out


# ------------------------------------------------------------------------------------------- who speaks from two nodes


def _events(case, strategy):
    """Return what one reply of this level costs, by the mechanism the parties were told."""
    if case.startswith("L2"):
        return strategy.exchange.told_config.party_plan(
            strategy.exchange.spec.num_public, strategy.exchange.spec.num_classes
        ).events()
    return [(strategy.exchange.mechanism.dp_event(), strategy.exchange.spec.num_public)]


@pytest.mark.parametrize("case", AT_THE_PARTY)
@pytest.mark.parametrize("code", ["duplicate-name", "bad-payload"])
def test_a_claim_covers_all_that_one_silo_sends_from_two_nodes(case, code):
    """Its second node is turned away each time, but its labels have left all the same."""
    members = [*parties(3), party("party-001", *rows(20, seed=8))]

    def spoil(node, reply):
        if code == "bad-payload" and node == 3:
            for array in reply.content.array_records.get("arrays", {}).values():
                array.data = array.data[:-3]
        return reply

    rounds = 1 if case.startswith("L2") else 2
    strategy = _strategy(case, **({} if rounds == 1 else {"stop_when_converged": False}))
    strategy.start(_grid(case, members, tamper=spoil), num_rounds=rounds)
    assert [(r.party, r.code) for r in strategy.record.rounds[-1].rejected] == [("party-001", code)]
    accountant = Accountant()
    for event, count in _events(case, strategy):
        accountant = accountant.compose(event, 2 * rounds * count)
    assert strategy.claims[0].epsilon == pytest.approx(accountant.epsilon(strategy.exchange.config.delta), rel=1e-9)


# ------------------------------------------------------------------------------------------------ what the wire carries


@pytest.mark.parametrize("level", LEVELS)
def test_the_wire_carries_labels_a_name_and_nothing_else(level):
    # one party of one class, another with few rows: both would have something to tell
    members = [party("a", *rows(40, seed=0)), party("b", *rows(40, seed=1, classes=(2,))), party("c", *rows(9, seed=2))]
    members = [dataclasses.replace(m, share_metrics=()) for m in members]
    _, grid = _run(level, members)
    for metrics, count, arrays in _said(grid, "fit"):
        notes = set() if level in AT_THE_PARTY else {"notes"}
        assert {"party", "payload", "wire-version"} <= set(metrics) <= {"party", "payload", "wire-version"} | notes
        assert metrics["payload"] == ("bits" if level == "FedCT xor" else "labels")
        assert len(arrays) == 1
        assert count == 60  # public rows, whatever a party holds
    for metrics, count, _ in _said(grid, "evaluate"):
        assert set(metrics) == {"party", "wire-version"}
        assert count == 60


@pytest.mark.parametrize("level", AT_THE_PARTY)
def test_beside_a_claim_made_at_the_party_no_metric_leaves_even_if_it_is_willing(level):
    members = [dataclasses.replace(m, share_metrics=NAMES, simulated=False) for m in parties(3)]
    strategy, grid = _run(level, members)
    for stage in ("fit", "evaluate"):
        for metrics, _, _ in _said(grid, stage):
            assert set(metrics) <= {"party", "payload", "wire-version"}
    assert accuracies(strategy) == [(p.name, {}, {}, []) for p in members]


def test_simulated_parties_report_all_the_same_and_the_record_says_simulation():
    strategy, _ = _run("L2", [dataclasses.replace(m, simulated=True) for m in parties(3)])
    assert all(p.solo and p.federated for p in strategy.record.parties)


@pytest.mark.parametrize("level", AT_THE_PARTY)
def test_but_for_the_privatised_values_replies_are_the_same_whatever_the_private_rows_are(level, monkeypatch):
    """With the mechanism's output held fixed, two parties with nothing in common send the same bytes."""
    monkeypatch.setattr(RandomizedResponse, "privatize", lambda self, x, *, rng=None: np.zeros(x.shape, np.int16))
    monkeypatch.setattr(
        BitFlip, "privatize", lambda self, x, *, rng=None: np.eye(3, dtype=np.uint8)[np.zeros(len(x), int)]
    )
    monkeypatch.setattr(GaussianMax, "privatize", lambda self, x, *, rng=None: (np.arange(len(x)) % 3).astype(np.int16))
    fixed = np.random.default_rng(0).random((60, 3))
    monkeypatch.setattr(GaussianMax, "noisy_counts", lambda self, x, *, rng=None: fixed[: len(x)])
    said = []
    for count, seed, classes in ((40, 0, (0, 1, 2)), (25, 77, (1,))):
        member = party("a", *rows(count, seed=seed, classes=classes), share_metrics=NAMES)
        _, grid = _run(level, [member], minimum=1)
        said.append((_said(grid, "fit"), _said(grid, "evaluate")))
    assert said[0] == said[1]


def test_without_a_mechanism_that_test_would_notice_the_private_rows():
    said = []
    for count, seed in ((40, 0), (25, 77)):
        _, grid = _run("FedCT", [party("a", *rows(count, seed=seed), share_metrics=())], minimum=1)
        said.append(_said(grid, "fit"))
    assert said[0] != said[1]


def test_parties_are_told_which_rows_to_ask_and_these_do_not_depend_on_votes():
    asked = []
    for seeds in (0, 50):
        members = [party(f"p{i}", *rows(30, seed=seeds + i)) for i in range(3)]
        _, grid = _run("L2", members)
        arrays, config = open_instruction(grid.sent[0].content)
        asked.append(arrays[str(config["payload"]).split(",").index("indices")].tolist())
    assert asked[0] == asked[1]
    assert len(set(asked[0])) == 30


# ------------------------------------------------------------------------------------------------------ what is claimed


def test_level_l1_claims_each_party_against_everyone_and_keeps_the_data_dependent_number_to_itself():
    noise = {"noise": "laplace", "noise_strength": 1.0, "num_queries": 8}
    seeded = _run("L1", parties(3), noise_rng=np.random.default_rng(0), **noise)[0].claims
    assert [(claim.basis, claim.epsilon) for claim in seeded] == [("none: seeded", float("inf"))]
    strategy, _ = _run("L1", parties(10), **noise)
    public, private = strategy.claims
    assert (public.unit, public.adversary, public.publishable) == ("party", "everyone who sees the result", True)
    assert public.basis == "proven"
    assert not private.publishable
    assert private.epsilon < public.epsilon
    laplace = strategy.exchange.noise.mechanism
    # a party moves one vote, which is counted as two halves
    assert (laplace.votes, laplace.counts_per_vote) == (1, 2)
    exact = Accountant().compose(laplace.dp_event(), 8).epsilon(1e-5)
    assert public.epsilon == pytest.approx(exact, rel=1e-9)
    assert strategy.record.claims[0]["epsilon"] == public.epsilon


@pytest.mark.parametrize("release", ["labels", "counts"])
@pytest.mark.parametrize("case", ["L2", "PATE"])
def test_labels_of_two_classes_are_claimed_and_charged_as_such_at_every_level(case, release):
    """From two-class schema to claim: the server's plan, the parties' own charge, and what is printed."""
    schema = Schema(columns=SCHEMA.columns, classes=("red", "green"))
    X, y = rows(60, seed=99, classes=(0, 1))
    public = PublicSet(X=X, fingerprint="ab" * 32, schema=schema, preprocessor=as_they_are(schema), y=y)
    two = partial(make_model, "decision-tree", num_classes=2, num_features=2)
    members = [party(f"p{i}", *rows(20, i, (0, 1)), public=public, model=two, tests={}) for i in range(3)]
    settings = {"noise": "laplace", "noise_strength": 0.5, "num_queries": 4}
    strategy = _strategy(case, learn_from=release, public=public, final_model=two, test=None, **settings)
    grid = _grid(case, members)
    strategy.start(grid, num_rounds=1)
    event = TwoClassEvent(2.0) if release == "labels" else dp.SelfComposedDpEvent(dp.LaplaceDpEvent(2.0), 2)
    assert strategy.claims[0].epsilon == Accountant().compose(event, 4).epsilon(strategy.exchange.config.delta)
    assert ("of two classes" in strategy.claims[0].mechanism) == (release == "labels")
    if case == "L2":
        client = FedKTClient(members[0])
        charge = client.charge(SimpleNamespace(config=strategy.exchange.told_config))
        assert charge.events == [(event, 4)]
        assert plain_events(charge.events)[0][0] == event_to_json(event)
    else:
        assert strategy.exchange.noise.events() == [(event, 4)]


def test_level_l2_claims_the_record_and_beside_it_the_party():
    strategy, _ = _run("L2", parties(3), students_per_party=2)
    record, whole = strategy.claims
    assert (record.unit, record.adversary, whole.unit) == ("record", "server", "party")
    event = strategy.exchange.told_config.party_plan(60, 3).mechanism.dp_event()
    assert record.epsilon == pytest.approx(Accountant().compose(event, 60).epsilon(1e-5), rel=1e-9)  # 30 x 2 partitions
    assert whole.epsilon > record.epsilon


def test_private_labels_compose_over_the_rounds_of_the_party_asked_most():
    one, three = (_run("FedCT response", parties(3), num_rounds=n)[0].claims[0] for n in (1, 3))
    event = RandomizedResponse(epsilon=3.0, num_classes=3).dp_event()
    assert one.epsilon == pytest.approx(Accountant().compose(event, 60).epsilon(1e-5), rel=1e-9)
    assert three.epsilon == pytest.approx(Accountant().compose(event, 180).epsilon(1e-5), rel=1e-9)
    assert (three.unit, three.basis) == ("party", "proven")


def test_a_failed_run_still_states_what_it_released():
    strategy = _strategy("FedCT response")
    grid = _grid("FedCT response", parties(3), tamper=lambda node, reply: reply if node == 0 else None)
    with pytest.raises(Exception, match="valid replies in round 1"):
        strategy.start(grid, num_rounds=2, timeout=0.1)
    assert strategy.claims[0].epsilon > 0


# ---------------------------------------------------------------------------------------------------- noise in the vote


def test_looking_at_the_noise_before_the_run_does_not_fix_it_for_one_round():
    strategy = _strategy("FedCT response", noise_strength=0.0, epsilon=2.0, stop_when_converged=False)
    for_one = strategy.exchange.mechanism.epsilon
    strategy.start(_grid("FedCT response", parties(3)), num_rounds=4)
    assert strategy.exchange.mechanism.epsilon < for_one
    assert strategy.claims[0].epsilon <= 2.0


def test_rows_without_a_consistent_vote_stay_in_at_level_l1():
    """Dropping them on the true counts would leak."""
    strategy = _strategy("L1", num_queries=0, students_per_party=2)
    torn = np.stack([np.zeros(60, dtype=np.int16), np.arange(60, dtype=np.int16) % 2])
    strategy.exchange.combine(1, [PartyLabels(party=name, labels=torn) for name in "ab"], RoundRecord(server_round=1))
    assert (strategy.exchange.votes[1::2].sum(axis=1) == 0).all()  # nobody is consistent there
    assert (strategy.exchange.vote != ABSTAIN).all()


# -------------------------------------------------------------------------------------------------------------- budgets


@cache
def _label_epsilon(rounds_covered):
    """Return a label's epsilon with which 1.0 covers so many rounds of 60 labels, and not one more."""
    low, high, ledger = 1e-4, 1.0, Ledger(party="b", data_digest="ab" * 32)
    for _ in range(60):
        middle = (low * high) ** 0.5
        event = RandomizedResponse(epsilon=middle, num_classes=3).dp_event()
        covered = not ledger.would_exceed([(event, 60 * rounds_covered)], Budget(epsilon=1.0))
        low, high = (middle, high) if covered else (low, middle)
    return low


def _with_budget(tmp_path, **limits):
    ledger = LedgerStore(tmp_path, party="b", data_digest="ab" * 32)
    budget = Budget(**{"epsilon": 1.0, **limits})
    members = parties(3)
    return [members[0], party("b", *rows(20, seed=8), ledger=ledger, budget=budget, run_id="1"), members[2]]


def test_a_party_whose_budget_covers_two_of_four_rounds_takes_part_in_the_last_two_and_nobody_else_waits(
    tmp_path, caplog
):
    learnt = []

    class Watched(FedCTClient):
        def learn(self, instruction):
            learnt.append(instruction.server_round)
            return super().learn(instruction)

    def handle(message, context):  # a new client for each visit, as after a restart of the node
        return handler([Watched(p) for p in _with_budget(tmp_path)])(message, context)

    strategy = _strategy("FedCT response", noise_strength=_label_epsilon(2))
    strategy.start(InProcessGrid(handle, [{}] * 3), num_rounds=4)
    refused = [("b", Code.BUDGET_EXCEEDED)]
    rejected = [[(r.party, r.code) for r in this.rejected] for this in strategy.record.rounds]
    assert rejected == [refused, refused, [], []]  # it pays nothing until what is left can be paid whole
    assert learnt == [1, 1, 2, 2, 3, 3, 3, 4, 4, 4]  # and learns nothing before it has asked
    # the numbers are in the party's own log
    assert "the 4 rounds of this run: epsilon <= 1 at delta 1e-05, got epsilon 0 spent before" in caplog.text
    assert "asked" in caplog.text


def test_the_ledger_of_a_party_holds_what_the_run_claims_for_it(tmp_path):
    members = _with_budget(tmp_path, epsilon=float("inf"))
    strategy, _ = _run("L2", members, students_per_party=2)
    assert members[1].ledger.load().spent(1e-5) == pytest.approx(strategy.claims[0].epsilon, rel=1e-9)


@pytest.mark.parametrize("level", ["L1", "PATE"])
@pytest.mark.parametrize("usable", [2, 0])
def test_beside_noise_at_the_server_rows_that_cannot_be_used_do_not_decide_whether_there_is_a_result(level, usable):
    """The other parties would see it: a probability of 0 against 1, which no epsilon covers."""
    fault = DataError("a label is outside the schema", code=Code.CLASS_OUTSIDE_SCHEMA)
    members = [m if i < usable else dataclasses.replace(m, fault=fault) for i, m in enumerate(parties(3))]
    strategy = _strategy(level)
    strategy.roster.fewest = 3
    strategy.start(_grid(level, members), num_rounds=1)
    assert (strategy.record.status, strategy.record.final_asked) == ("completed", 3)
    assert len(strategy.record.rounds[0].answered) == usable
    assert (strategy.record.notes[0].code, strategy.record.notes[0].values["valid"]) == (NoteCode.FEW_ANSWERS, usable)


def test_noisy_votes_that_may_be_drawn_twice_are_refused(tmp_path):
    """A run that is kept and goes on would let the same votes out with other noise, and claim one draw."""
    with pytest.raises(ConfigError, match=r"ledger must be given where a noisy run is kept or continued"):
        FedKT(config=FedKTConfig(**QUICK, **L1), public=public_set(), final_model=model,
              checkpoint=tmp_path, record=RunRecord(run_id="1", algorithm="fedkt"))  # fmt: skip


def test_a_run_that_goes_on_without_the_ledger_of_votes_that_left_is_refused(tmp_path):
    """It would let them out with other noise, and claim one draw; with the ledger they are the same."""
    found = []
    for number, ledgers in (("1", "kept"), ("2", "kept"), ("3", "empty")):
        strategy = _strategy(
            "L1",
            record=RunRecord(run_id=number, algorithm="fedkt"),
            ledger=LedgerStore(tmp_path / ledgers, party="server", data_digest="ab" * 32),
            checkpoint=tmp_path / number,
            resume_from=tmp_path / "1" if found else None,
        )
        answer = handler([FedKTClient(one) for one in parties(3)])

        def lost(message, context, answer=answer):
            if message.metadata.message_type == "evaluate":
                raise KeyboardInterrupt  # the server is killed while the result is on its way
            return answer(message, context)

        grid = InProcessGrid(lost, [{}] * 3)
        if ledgers == "kept":
            with pytest.raises(KeyboardInterrupt):
                strategy.start(grid, num_rounds=1)
            found.append(strategy.exchange.vote.tolist())
        else:
            with pytest.raises(DataError, match=r"ledger .* must hold the noisy votes of run 1, which had begun to go"):
                strategy.start(grid, num_rounds=1)
    assert found[0] == found[1]


ASKED = {**CONFIG, **RESPONSE, "noise-strength": 20.0, "privacy": "party"}


def test_a_crash_after_the_charge_loses_no_reply_and_charges_once(tmp_path, monkeypatch):
    member = _with_budget(tmp_path, epsilon=float("inf"))[1]
    member = dataclasses.replace(member, state=PartyState(tmp_path, run_id="1", party="b"))
    config = {**ASKED, "noise-strength": 1.0}
    kept = {}

    def cut_off(store, **keywords):
        kept["reply"] = keywords["reply"]
        raise KeyboardInterrupt  # the process ends before anything is charged, and nothing has left

    with monkeypatch.context() as patch:
        patch.setattr(LedgerStore, "charge", cut_off)
        with pytest.raises(KeyboardInterrupt):
            FedCTClient(member).fit([], config)
    assert member.ledger.load().entries == ()
    arrays, _, _ = FedCTClient(member).fit([], config)
    assert arrays[0].tobytes() == kept["reply"].arrays["labels"].tobytes()  # what was made is sent, not made anew
    again, _, _ = FedCTClient(member).fit([], config)
    assert arrays[0].tobytes() == again[0].tobytes()
    assert len(member.ledger.load().entries) == 1


def _refused_once(tmp_path):
    """Return a party whose reply was made and kept, but not paid for: another run of the server's was faster."""
    member = _with_budget(tmp_path, epsilon=1300.0)[1]
    member = dataclasses.replace(member, state=PartyState(tmp_path, run_id="1", party="b"))

    class Overtaken(FedCTClient):
        def learn(self, instruction):
            elsewhere = PartyState(tmp_path, run_id="2", party="b")
            FedCTClient(dataclasses.replace(member, run_id="2", state=elsewhere)).fit([], ASKED)
            return super().learn(instruction)

    arrays, _, metrics = Overtaken(member).fit([], ASKED)
    assert (arrays, metrics["code"]) == ([], Code.BUDGET_EXCEEDED)
    return member


def test_a_reply_that_was_not_paid_for_is_not_sold_for_less(tmp_path):
    member = _refused_once(tmp_path)
    kept = member.state.load().arrays["payload.labels"]
    arrays, _, _ = FedCTClient(member).fit([], {**ASKED, "noise-strength": 1e-6})
    assert [entry.run_id for entry in member.ledger.load().entries] == ["2", "1"]
    assert arrays[0].tobytes() != kept.tobytes()
    labels = [decode_labels(a, public=member.spec, server_round=1)[0] for a in (arrays[0], kept)]
    assert np.mean(labels[0] == labels[1]) < 0.7  # noise of its own, a third by chance


def test_a_guess_at_a_reply_that_never_left_gets_the_same_answer_right_or_wrong(tmp_path):
    member = _refused_once(tmp_path)
    unsent = member.state.load().arrays["value.labels"]
    for server_round, guess in ((2, unsent), (3, np.zeros_like(unsent))):
        config = {**ASKED, "server-round": server_round, "noise-strength": 1e-6, "base": digest(guess).hex()}
        assert held_by_server(FedCTClient(member), [], config) == {}


def test_under_noise_at_the_party_labels_do_not_decide_how_many_rounds_a_claim_counts():
    """With hardly any noise trees repeat themselves: without a claim the run would stop after two rounds."""
    strategy, _ = _run("FedCT response", parties(3), num_rounds=4, noise_strength=40.0)
    assert (len(strategy.record.rounds), strategy.exchange.finished_round) == (4, None)
    assert strategy.record.rounds[-1].changed_share == 0.0
    assert "60 labels a round, 4 rounds" in strategy.claims[0].mechanism


def test_the_server_s_own_budget_covers_all_runs_on_a_public_set(tmp_path):
    store = LedgerStore(tmp_path, party="server", data_digest="ab" * 32)

    def once(run_id):
        record = RunRecord(run_id=run_id, algorithm="fedkt")
        return _run("L1", parties(3), ledger=store, budget=Budget(epsilon=3.0), record=record, noise_strength=20.0)[0]

    first = once("1")
    assert first.claims[0].epsilon < 3.0 < 2 * first.claims[0].epsilon
    assert store.load().spent(1e-5) == pytest.approx(first.claims[0].epsilon, rel=1e-6)
    while not store.load().would_exceed(first.exchange.noise.events(), Budget(epsilon=3.0)):
        once(str(len(store.load().entries) + 1))
    assert 1 < len(store.load().entries) < 6
    record = RunRecord(run_id="after", algorithm="fedkt")
    strategy = _strategy("L1", ledger=store, budget=Budget(epsilon=3.0), record=record, noise_strength=20.0)
    grid = _grid("L1", parties(3))
    with pytest.raises(RefusalError, match="privacy budget of server"):
        strategy.start(grid)
    assert grid.sent == []  # nobody trains for a vote that may not be released


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("level", "settings", "message"),
    [
        ("L1", {"num_queries": 61}, r"num-queries must be at most 60 \(public rows\), got 61"),
        ("L2", {"num_queries": 61}, r"num-queries must be at most 60 \(public rows\), got 61"),
        ("PATE", {"noise_strength": 1e-300}, "sigma must be"),
        ("FedCT response", {"noise_strength": 701.0}, "epsilon must be"),
    ],
)
def test_noise_that_cannot_be_made_is_refused_before_anybody_is_waited_for(level, settings, message):
    strategy, grid = _strategy(level, node_deadline_s=0.1, **settings), _grid(level, [])
    with pytest.raises(ConfigError, match=message):
        strategy.start(grid)
    assert (strategy.record.status, strategy.record.rounds, strategy.claims) == ("failed", [], [])
