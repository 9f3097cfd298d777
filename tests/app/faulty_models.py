"""Models that users get wrong, each in one way."""

import os
import threading
import time

import numpy as np


class Commonest:
    """Right, and not very good."""

    def fit(self, X, y):
        self.label = int(np.bincount(y).argmax())
        return self

    def predict(self, X):
        return np.full(len(X), self.label)


class Raises(Commonest):
    def fit(self, X, y):
        raise ValueError("no luck")


class Short(Commonest):
    def predict(self, X):
        return super().predict(X)[:-1]


class Uneven(Commonest):
    def predict_proba(self, X):
        return np.ones((len(X), self.classes))

    def fit(self, X, y):
        self.classes = len(np.unique(y))
        return super().fit(X, y)


class Mutates(Commonest):
    def fit(self, X, y):
        X[:] = 0
        y[:] = 0
        return super().fit(X, y)


class Hangs(Commonest):
    def fit(self, X, y):
        while True:
            time.sleep(0.01)


class Random(Commonest):
    def predict(self, X):
        return np.random.default_rng().integers(0, 2, len(X))


class Unpicklable(Commonest):
    def __init__(self):
        self.lock = threading.Lock()


class Dies(Commonest):
    def fit(self, X, y):
        os._exit(1)


class FailsOnMany(Commonest):
    """Right on the few rows of a trial."""

    def fit(self, X, y):
        if len(X) > 30:
            raise ValueError("too many rows")
        return super().fit(X, y)


class ShortOnMany(Commonest):
    def predict(self, X):
        return super().predict(X)[: 30 if len(X) > 30 else None]


class FailsOnPooled(Commonest):
    """Right on the rows of one party with the public ones."""

    def fit(self, X, y):
        if len(X) > 95:
            raise ValueError("too many rows")
        return super().fit(X, y)
