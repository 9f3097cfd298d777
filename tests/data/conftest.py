"""Fixtures of the data room."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from fedkd_flwr.data.schema import Column, Schema


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
    return Schema(
        columns=(
            Column(name="age", kind="numeric"),
            Column(name="job", kind="categorical", categories=("cook", "smith")),
        ),
        classes=("<=50K", ">50K"),
        label="income",
    )


@pytest.fixture
def people() -> pd.DataFrame:
    """Rows that fit the schema."""
    return pd.DataFrame(
        {"age": [20.0, 40.0, 60.0], "job": ["cook", "smith", "cook"], "income": ["<=50K", ">50K", ">50K"]}
    )
