"""Fixtures of the data room."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from schemas import column
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.data.look import Rules, look
from fedkd_flwr.data.schema import Schema

N = 120


def table_of(**columns):
    return pd.DataFrame({**columns, "y": ["no", "yes"] * (N // 2)})


def german(numbers):
    return [f"{number:,.2f}".translate(str.maketrans(",.", ".,")) for number in numbers]


def found_of(values, **rules):
    """Return the column made of values, and its note."""
    found = look(table_of(x=values, other=["a", "b"] * (N // 2)), label="y", rules=Rules(**rules))
    note = next(note for note in found.notes if note.name == "x")
    return next((column for column in found.columns if column.name == "x"), None), note


NUMBERS = np.random.default_rng(1).normal(0, 3000, N)
DAYS = [pd.Timestamp("2020-01-01") + pd.Timedelta(days=3 * i) for i in range(N)]


@pytest.fixture
def data_root() -> Path:
    """The folder with the published data sets; tests that need it skip loudly without it."""
    root = os.environ.get("FEDKD_DATA", "")
    if not root:
        pytest.skip("FEDKD_DATA is unset: set it to the folder with adult/, mnist/, ... to run tests on real data")
    return Path(root)


@pytest.fixture
def schema() -> Schema:
    """A numeric and a categorical column, two classes."""
    return Schema(columns=(column("age"), column("job", "cook", "smith")), classes=("<=50K", ">50K"), label="income")


@pytest.fixture
def people() -> pd.DataFrame:
    """Rows that fit the schema."""
    return pd.DataFrame(
        {"age": [20.0, 40.0, 60.0], "job": ["cook", "smith", "cook"], "income": ["<=50K", ">50K", ">50K"]}
    )


def check_pool(pool, private, public, test, features):
    """Check the sizes, types and values of the three parts of a pool."""
    assert pool.X.shape == (private, features)
    assert pool.public.X.shape == (public, features)
    assert pool.X_test.shape == (test, features)
    for X, y in ((pool.X, pool.y), (pool.public.X, pool.public.y), (pool.X_test, pool.y_test)):
        assert X.dtype == np.float32
        assert X.flags.c_contiguous
        assert np.isfinite(X).all()
        assert y.dtype == np.int16
        assert y.shape == (len(X),)
        assert set(np.unique(y)) <= set(range(pool.public.num_classes))
    assert len(np.unique(pool.rows)) == private


def forest_accuracy(pool):
    """Return what trees taught by private rows reach on the common test rows."""
    forest = RandomForestClassifier(30, random_state=0)
    if len(pool.X) > 10_000:  # boosted trees are several times quicker there, and of many columns a single one is
        wide = pool.X.shape[1] > 100
        forest = DecisionTreeClassifier(min_samples_leaf=20) if wide else HistGradientBoostingClassifier(max_iter=30)
    forest.fit(pool.X, pool.y)
    return forest.score(pool.X_test, pool.y_test)


@pytest.fixture
def write(tmp_path):
    """A writer of texts into files of a name, gzipped where it ends so."""

    def _write(name, text):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return _write
