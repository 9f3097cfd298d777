"""Mistakes of somebody who uses our clients and strategies in a project of his own: named, and early."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from federation import fedct_grid, fedkt_grid, model, party, public_set, rows, run_fedkt
from flwr.app import ConfigRecord
from sklearn.ensemble import RandomForestClassifier

from fedkd_flwr.clients import FedKTClient
from fedkd_flwr.clients.opening import kept_state
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.report.table import summary_table
from fedkd_flwr.stores.party_state import PartyState, Saved
from fedkd_flwr.strategies import FedCT, FedCTConfig, FedKT, FedKTConfig
from fedkd_flwr.wire.records import instruction_record, named_arrays, open_instruction


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
        strategy = FedCT(config=FedCTConfig(consensus="majority"), public=public_set(), min_available_nodes=2)
        strategy.start(fedct_grid(members), num_rounds=2)
        made.append([strategy.consensus.tolist(), [p.federated["common"].accuracy for p in strategy.record.parties]])
        teachers = FedKTClient(members[0], teacher=kind)
        assert teachers.teacher(seed=1).num_classes == 3
    assert made[0] == made[1]
    assert len(made[0][1]) == 2


def test_a_frame_of_rows_is_taken_as_an_array():
    X, y = rows(20, seed=1)
    assert isinstance(party("a", pd.DataFrame(X), y.tolist()).X, np.ndarray)


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


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(60, 3), r"y of the public set must lie within -1..2, got 3 at row 0 \(60 such rows\)"),
        (np.full(60, "red"), r"y of the public set must hold integers"),
        (np.full(60, np.nan), r"y of the public set must hold integers"),
    ],
)
def test_labels_of_public_rows_are_checked(y, message):
    public = public_set()
    with pytest.raises(DataError, match=message):
        make_public_set(np.zeros((60, 2), np.float32), public.schema, y=y)


def test_labels_of_public_rows_are_taken_by_place():
    table, schema = np.zeros((60, 2), np.float32), public_set().schema
    given = pd.Series(np.arange(60) % 3, index=np.arange(60)[::-1])
    assert (make_public_set(table, schema, y=given).truth == np.arange(60) % 3).all()


def test_the_record_of_a_strategy_of_one_s_own_knows_what_its_figures_are_shares_of():
    strategy, _ = run_fedkt([party(name, *rows(40, seed=i)) for i, name in enumerate("ab")])
    record, public = strategy.record, public_set()
    assert (record.num_public, record.num_classes) == (public.num_rows, 3)
    assert (record.classes, record.fingerprint) == (["red", "green", "blue"], public.fingerprint)
    assert record.seed == strategy.exchange.config.seed
    assert "of at most 0" not in summary_table(record)


@pytest.mark.parametrize(
    ("final", "message"),
    [
        (model(seed=0), r"final_model must be a function that makes a Classifier.*got 'Classifier'"),
        (lambda *, seed: object(), r"final_model must be a function that makes a Classifier.*got 'object'"),
        (lambda *, seed: make_model("knn", num_classes=4, num_features=2, seed=seed), r"have the schema's 3 classes"),
    ],
)
def test_a_final_model_that_cannot_be_used_is_refused_before_anybody_answers(final, message):
    """All parties answer once, and their budgets are spent by then."""
    grid = fedkt_grid([party(name, *rows(20, seed=i)) for i, name in enumerate("ab")])
    strategy = FedKT(min_train_nodes=2, config=FedKTConfig(nodes_stable_s=1e-6), public=public_set(), final_model=final)
    with pytest.raises(ConfigError, match=message):
        strategy.start(grid)
    assert not strategy.roster.times_asked


def test_an_instruction_without_arrays_carries_no_empty_text():
    """Flower's message_size_mod fails on one."""
    content = instruction_record({}, {"algorithm": "fedct"})
    (settings,) = (record for record in content.values() if isinstance(record, ConfigRecord))
    assert "" not in settings.values()
    assert named_arrays(*open_instruction(content)) == {}


def test_an_answer_kept_without_a_ledger_is_not_that_of_other_rows(tmp_path):
    """A run id that is used again, as by Flower's old API, must not bring back the answers of a run that was mended."""
    X, y = rows(20, seed=1)
    state = PartyState(tmp_path, party="a", run_id="1")
    first, mended = (party("a", X, labels, state=state) for labels in (y, (y + 1) % 3))
    meta = {"algorithm": "fedkt", "data": first.rows_digest, "values": [], "payload": [], "reply": {}, "charge": ""}
    state.save(Saved(server_round=1, arrays={}, model=b"net", meta=meta))
    assert kept_state(first, FedKTClient.card).model == b"net"
    assert kept_state(mended, FedKTClient.card).model == b""


def test_rows_of_texts_have_one_digest_in_every_process(tmp_path):
    """The bytes of an array of texts are addresses, which no second process has."""
    X = np.array([["pump one"], ["pump two"]], dtype=object)
    members = []
    for texts in (X, np.array([["pump " + "one"], ["".join(["pump", " two"])]], dtype=object)):
        public, state = replace(public_set(), X=texts), PartyState(tmp_path, party="a", run_id="1")
        members.append(party("a", texts, np.array([0, 1]), public=public, state=state, tests={}))
    assert members[0].rows_digest == members[1].rows_digest
