"""A party's own final model of all its columns: taught by the federation, better where the columns tell something."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from federation import SCHEMA, party, public_set, rows

from fedkd_flwr.clients.final_visit import learnt_at_the_end
from fedkd_flwr.clients.own_columns import drawn_columns, extended
from fedkd_flwr.clients.party import Finished, Instruction, OwnRows
from fedkd_flwr.clients.pieces import pack_extended, unpack_extended
from fedkd_flwr.data.own_columns import OwnColumns
from fedkd_flwr.models.serialize import loads
from fedkd_flwr.models.zoo import make_model


def wide(*, seed):
    return make_model("decision-tree", num_classes=3, num_features=3, seed=seed, params={"max_depth": 4})


def _own(y, y_test, *, telling):
    """One own column: the class of the row, or noise."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"dose": np.arange(len(y)) / 2})
    encoder = OwnColumns.fit(table, ["dose"], SCHEMA).encoder(public_set())

    def column(labels):
        values = labels if telling else rng.normal(size=len(labels))
        return np.asarray(values, dtype=np.float32)[:, None]

    return OwnRows(X=column(y), tests={"common": column(y_test)}, encoder=encoder, model=wide)


def _extended(*, telling, taught=True, count=120):
    X, y = rows(count, seed=3)
    if telling:  # then the shared columns tell nothing
        X = np.random.default_rng(1).normal(size=X.shape).astype(np.float32)
    one = party("a", X, y)
    labels = one.public.y
    shared = one.model(seed=0).fit(one.X, one.y)
    finished = Finished(
        model=shared, solo=one.metrics(shared), federated=one.metrics(shared), taught=labels if taught else None
    )
    own = _own(y, one.tests["common"][1], telling=telling)
    return extended(one, own, finished, Instruction(server_round=2, config=None)), finished


@pytest.mark.parametrize("taught", [True, False])
def test_a_column_that_tells_the_class_makes_the_party_s_own_model_better(taught):
    found, finished = _extended(telling=True, taught=taught)
    assert found.model.num_features == 3
    assert found.metrics["common"].accuracy > finished.federated["common"].accuracy + 0.3


def test_columns_that_tell_nothing_leave_the_party_its_model_without_them():
    found, finished = _extended(telling=False)
    assert found.model is None
    assert found.metrics == finished.federated


def test_a_party_of_few_rows_keeps_its_model_without_own_columns():
    found, finished = _extended(telling=True, count=40)
    assert found.model is None
    assert found.metrics == finished.federated


def test_a_public_row_gets_the_columns_of_a_private_row_of_its_class_that_is_near():
    y = np.array([0] * 30 + [1] * 30 + [2] * 3)
    X = np.concatenate([np.arange(30.0), np.zeros(30), np.zeros(3)])[:, None]
    own = np.arange(63, dtype=np.float32)[:, None]
    many = np.zeros((50, 1))
    rng = np.random.default_rng(0)
    assert set(drawn_columns(X, own, y, many, np.zeros(50, dtype=int), rng=rng).ravel()) == {0.0, 1.0, 2.0, 3.0, 4.0}
    assert set(drawn_columns(X, own, y, many, np.ones(50, dtype=int), rng=rng).ravel()) <= set(range(30, 60))
    # three rows do not say what class 2 is like, none what class 3 is: any row's columns are as good
    for label in (2, 3):
        found = drawn_columns(X, own, y, many + 20, np.full(50, label), rng=rng).ravel()
        assert set(found) == {18.0, 19.0, 20.0, 21.0, 22.0}
    assert drawn_columns(X, own, y, many[:0], np.zeros(0, dtype=int), rng=rng).shape == (0, 1)


def test_what_own_columns_gave_survives_the_process_that_made_it():
    found, _ = _extended(telling=True)
    again = unpack_extended(pack_extended(found))
    assert again.metrics["common"].as_dict() == found.metrics["common"].as_dict()
    assert again.encoder.own == ("dose",)
    assert again.encoder.schema.column_names == ("a", "b", "dose")
    X = np.ones((4, 3), dtype=np.float32)
    assert np.array_equal(loads(again.model.data).predict(X), found.model.predict(X))
    assert unpack_extended(pack_extended(replace(found, model=None))).model is None


def test_a_failure_over_own_columns_costs_that_model_alone(caplog):
    def broken():
        raise ValueError("no such file")

    one = party("a", *rows(30, seed=1), own_rows=broken)
    left = Finished(model=one.model(seed=0), solo={}, learnt=False)
    finished = learnt_at_the_end(one, lambda instruction: left, Instruction(server_round=1, config=None))
    assert finished.extended is None
    assert "no model of its own columns could be made" in caplog.text
