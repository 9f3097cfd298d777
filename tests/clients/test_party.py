"""What a party holds and allows, and for whose class shares its model answers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from federation import model, party, public_set, rows
from rounds import run, run_fedct, run_fedkt
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from fedkd_flwr.clients import FedKTClient
from fedkd_flwr.clients.party import OPEN, Ask, Leaving
from fedkd_flwr.errors import Code, ConfigError, DataError
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import Answering
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState, StoredReply


def test_a_budget_needs_a_ledger_that_remembers():
    with pytest.raises(DataError, match="ledger must be given with a finite budget"):
        party("a", *rows(20, seed=0), budget=Budget(epsilon=1.0))


def test_a_ledger_needs_the_number_of_the_run(tmp_path):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    with pytest.raises(DataError, match=r"run_id must be given with a ledger, got ''\. Give str\(context"):
        party("a", *rows(20, seed=0), ledger=ledger)


@pytest.mark.parametrize(
    ("X", "y", "code", "message"),
    [
        (np.zeros((0, 2)), np.zeros(0, np.int16), Code.NO_ROWS, r"rows of a must be \(n, d\) and \(n,\) with n >= 1"),
        (np.zeros((4, 3)), np.zeros(4, np.int16), Code.WRONG_DATA, "rows of a must have 2 features, got 3"),
        (np.zeros((1, 2)), np.array([3]), Code.CLASS_OUTSIDE_SCHEMA, r"y of a must lie within 0..2, got 3"),
    ],
)
def test_rows_that_fit_nothing_are_refused(X, y, code, message):
    with pytest.raises(DataError, match=message) as caught:
        party("a", X.astype(np.float32), y)
    assert caught.value.code == code


def test_a_shuffled_series_of_labels_gives_the_same_run_as_its_values():
    """Rows are taken by their places; a Series would be looked up by its index."""
    made = []
    for kind in (np.asarray, lambda y: pd.Series(y, index=np.arange(len(y))[::-1])):
        members = [party(name, X, kind(y)) for name, (X, y) in (("a", rows(40, seed=1)), ("b", rows(40, seed=2)))]
        strategy, _ = run_fedkt(members)
        made.append(strategy.exchange.model.predict(public_set().X))
    assert (made[0] == made[1]).all()


def test_a_bare_estimator_of_a_party_is_wrapped_by_itself():
    """Every party was left out as `internal`: 'RandomForestClassifier' object has no attribute 'continues'."""
    forest = lambda seed: RandomForestClassifier(5, random_state=seed)  # noqa: E731
    made = []
    for kind in (forest, lambda *, seed: Classifier(forest(seed), num_classes=3)):
        members = [party(name, *rows(40, seed=i), model=kind) for i, name in enumerate("ab")]
        strategy, _ = run("fedct", members, rounds=2, consensus="majority")
        made.append([strategy.consensus.tolist(), [p.federated["common"].accuracy for p in strategy.record.parties]])
        teachers = FedKTClient(members[0], teacher=kind)
        assert teachers.teacher(seed=1).num_classes == 3
    assert made[0] == made[1]
    assert len(made[0][1]) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"allow": "dp-fedavg"}, r"allow must be a set of names, no text, got 'dp-fedavg'"),
        (
            {"share_metrics": "balanced-accuracy"},
            r"share-metrics must be a collection of names, no text, got 'balanced-accuracy'",
        ),
        ({"model": model(seed=0)}, r"model must be a function that makes a fresh model from a seed, got 'Classifier'"),
        ({"tests": {"holdout": rows(3, seed=1)}}, r"tests must name its rows own or common, got 'holdout'"),
    ],
)
def test_an_argument_of_another_kind_is_refused_where_the_party_is_made(given, message):
    """A text passes for a collection: of its letters, so "dp-fedavg" allowed FedAvg too."""
    with pytest.raises(ConfigError, match=message):
        party("a", *rows(9, seed=1), **given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, y[:-1]), r"'own' test rows of a must be \(n, d\) and \(n,\), got X \(9, 2\), y \(8,\)"),
        (lambda X, y: (X[:, :1], y), r"'own' test rows of a must have 2 features, got 1"),
        (lambda X, y: (X, y + 1), r"y of 'own' test rows of a must lie within 0..2, got 3 at row \d"),
        (lambda X, y: (X, y.astype(str)), r"y of 'own' test rows of a must hold integers.*red, green, blue"),
    ],
)
def test_test_rows_that_would_be_measured_wrongly_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        party("a", *rows(9, seed=1), tests={"own": change(*rows(9, seed=2))})


def test_test_rows_that_a_model_cannot_answer_are_named():
    X, y = rows(9, seed=2)
    X[0, 0] = np.nan
    member = party("a", *rows(9, seed=1), tests={"own": (X, y)})
    learnt = model(seed=0).fit(member.X, member.y)
    for measure in (member.metrics, member.progress):
        with pytest.raises(DataError, match=r"'own' test rows of a: X must be finite"):
            measure(learnt)


def test_rows_of_texts_have_one_digest_in_every_process(tmp_path):
    """The bytes of an array of texts are addresses, which no second process has."""
    X = np.array([["pump one"], ["pump two"]], dtype=object)
    members = []
    for texts in (X, np.array([["pump " + "one"], ["".join(["pump", " two"])]], dtype=object)):
        public, state = replace(public_set(), X=texts), PartyState(tmp_path, party="a", run_id="1")
        members.append(party("a", texts, np.array([0, 1]), public=public, state=state, tests={}))
    assert members[0].rows_digest == members[1].rows_digest


def _bells(*, seed):
    return Classifier(GaussianNB(), num_classes=3)


def _skewed(seen, **changes):
    """Return three parties; the first holds many rows of class 0 and few of the others, the others all alike."""
    made = []
    for i in range(3):
        X, y = rows(90, seed=i)
        kept = np.flatnonzero((y == 0) | (np.arange(90) % 6 == 0)) if i == 0 else np.arange(90)
        tests = {"own": (X[kept], y[kept]), "common": rows(50, seed=7)}

        def show(finished, models, i=i):
            seen[i] = finished

        made.append(party(f"p{i}", X[kept], y[kept], model=_bells, tests=tests, show=show, **changes))
    return made


@pytest.mark.parametrize(
    "run",
    [
        lambda members: run_fedct(members, rounds=2, consensus="majority", steps_per_round=100),
        lambda members: run_fedkt(members, minimum=3),
    ],
    ids=["fedct", "fedkt"],
)
def test_own_rows_are_measured_with_own_class_shares_and_common_ones_with_the_federations(run):
    seen = {}
    members = _skewed(seen)
    record = run(members)[0].record
    for i, one in enumerate(members):
        trained = seen[i].model
        assert set(trained.shares) == {"taught", "own", "common"}
        own = np.bincount(one.y, minlength=3) + 1.0
        assert trained.shares["own"].tolist() == (own / own.sum()).tolist()
        found = next(p for p in record.parties if p.name == one.name).federated
        for population in ("own", "common"):
            answers = Answering(trained, trained.shares[population])
            assert found[population].accuracy == answers.metrics(*one.tests[population]).accuracy
            assert found[population].log_loss == answers.metrics(*one.tests[population]).log_loss
    skewed, tests = seen[0].model, members[0].tests["own"]
    assert record.parties[0].federated["own"].log_loss != skewed.metrics(*tests).log_loss  # these are as it was taught
    alone = seen[0].alone  # answers as it was taught
    assert np.array_equal(alone.shares["own"], alone.shares["taught"])
    assert seen[0].solo["own"].accuracy == alone.accuracy(*members[0].tests["own"])


def test_the_open_door_refuses_nothing_and_has_written_down_what_leaves_without_a_claim():
    noted = []
    OPEN.check_run()
    OPEN.before_rows(Ask(server_round=1, algorithm="fedct", told={}))
    OPEN.let_out(Leaving(reply=StoredReply(), num_examples=3, note=lambda: noted.append(True)))
    assert noted == [True]
