"""Small rows that several test files of this room share."""

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits():
    """Return 400 training rows and 1,397 test rows of the digits, float32 within [0, 1]."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    return X[:400], y[:400], X[400:], y[400:]
