"""Small rows that several test files of this room share."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def one_thread():
    """Keep libraries from fighting over the cores with whatever else runs on the machine."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session")
def digits():
    """Return 400 training rows and 1,397 test rows of the digits, float32 within [0, 1]."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    return X[:400], y[:400], X[400:], y[400:]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the directory of real data sets, or skip loudly."""
    if not os.environ.get("FEDKD_DATA"):
        pytest.skip("FEDKD_DATA is not set: the tests on real data did NOT run")
    return Path(os.environ["FEDKD_DATA"])
