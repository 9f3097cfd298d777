import numpy as np


class Means:
    """The class whose mean is nearest; the means move on in each round."""

    def __init__(self, num_classes):
        self.num_classes = num_classes

    def fit(self, X, y):
        self.sums = np.zeros((self.num_classes, X.shape[1]))
        self.counts = np.zeros((self.num_classes, 1))
        return self.update_steps(X, y, X[:0], y[:0], None)

    def update_steps(self, X, y, X_public, y_public, steps):
        if not hasattr(self, "sums"):  # the first round
            return self.fit(X, y)
        np.add.at(self.sums, np.concatenate([y, y_public]), np.concatenate([X, X_public]))
        np.add.at(self.counts, np.concatenate([y, y_public]), 1)
        return self

    def predict(self, X):
        means = self.sums / np.maximum(self.counts, 1)
        return ((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
