"""Noisy sums: a model, and public rows, from one release of how many records have each value with each class.

Nothing else of private rows is used, so how uneven the parties are does not matter: sums add up. The whole round is
told in `fedkd_flwr.strategies.noisy_sums`. All below `aggregate` is post-processing, which costs no privacy. A second
round finds a weight for each column (`fedkd_flwr.algorithms.column_weights`).

- *Naive Bayes* needs the sums alone: the log shares of each column's values within each class, linear in the bins.
- *By public rows*: a logistic regression needs of labels only their sums with each feature (X'y), which are the noisy
  counts; how features go together (the convex part of its loss) is taken from public rows, which have no labels. So
  correlated columns are not counted twice, at no further cost. It holds where public rows are like the private ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import PAPER, Card, Privacy, setting
from fedkd_flwr.algorithms.exchange import EpsilonConfig
from fedkd_flwr.labels.scores import onto_simplex
from fedkd_flwr.privacy.noise.sums import NoisyCounts, NoisyProducts

__all__ = ["CARD", "NoisySumsConfig", "SumFacts", "aggregate", "difference", "draw", "shares", "shares_of_sums"]

Sums = NDArray[np.int64]
"""(cells, classes): of each column's bins, one column after the other, how many records of each class they hold."""


_USUAL_EPSILON = 1.0
_ALIKE = 0.1  # mean difference of columns up to which public rows count as like the private ones
_MOST_ROWS = 5000  # public rows: more change the third decimal


class NoisySumsConfig(EpsilonConfig):
    """Settings of noisy sums."""

    section: ClassVar[str] = "noisy-sums"

    bins: int = setting(10, ge=2, le=100, told=True)
    """Noisy sums: bins of a numeric column whose bins the schema does not say; public rows fill them equally."""
    learn: Literal["auto", "naive-bayes", "public-rows"] = setting("auto")
    """How noisy sums make the server's model. naive-bayes: of sums alone. public-rows: a logistic regression that takes
    from public rows how columns go together. auto: that, where public rows are like private ones."""
    party_models: bool = setting(True, told=True, section=PAPER)
    """Whether parties fit models of their own on the final labels of public rows."""

    @property
    def privacy(self) -> Privacy:
        """Noise is always added, by each party to its own counts."""
        return "party"

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings as parties are told them: the noise is found."""
        found = self.noise_strength or _calibrated(self.epsilon or _USUAL_EPSILON, self.delta, num_rounds)
        return self.changed(noise_strength=found, epsilon=0.0)

    def mechanism(self, columns: int) -> NoisyCounts:
        """Return the noise on the counts of so many columns, once it is found."""
        return NoisyCounts(sigma=self.noise_strength * math.sqrt(2 * columns), tables=columns)

    def products(self, columns: int) -> NoisyProducts:
        """Return the noise on the products of a second visit, once it is found: as strong as that on the counts."""
        return NoisyProducts(sigma=self.noise_strength * math.sqrt(2), vectors=columns + 1)


@lru_cache(maxsize=16)
def _calibrated(epsilon: float, delta: float, times: int) -> float:
    from fedkd_flwr.privacy.cost.calibration import calibrate

    def make(multiplier: float) -> NoisyCounts:
        return NoisyCounts(sigma=multiplier * math.sqrt(2), tables=1)

    return calibrate(make, count=times, epsilon=epsilon, delta=delta).sigma / math.sqrt(2)


@dataclass(frozen=True, kw_only=True)
class SumFacts:
    """What the sums show besides; computed from what was released alone."""

    difference: float  # how far public rows are from the sums (`difference`), 0 to 1
    by_public_rows: bool  # whether the scores take from them how columns go together


def aggregate(
    sums: Sums, *, config: NoisySumsConfig, sizes: Sequence[int], public_cells: NDArray[np.int64], noises: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], SumFacts]:
    """Return a score of each cell and class, (cells, num_classes), a score of each class, and facts.

    A row's score of a class is that of the class and those of its cells, added up. ``sums``, (cells, num_classes)
    int64, are the parties' noisy counts, added up; ``sizes`` how many bins each column has; ``public_cells``,
    (num_public, num_columns), the cells that the public rows are in; ``noises`` how often noise was added to the sums.

    >>> sums, config = np.array([[90, 10], [20, 80]]), NoisySumsConfig(noise_strength=0.001, learn="naive-bayes")
    >>> scores, prior, _ = aggregate(sums, config=config, sizes=[2], public_cells=np.array([[0], [1]]), noises=1)
    >>> (scores + prior).argmax(axis=1).tolist()
    [0, 1]
    """
    spread = max(config.mechanism(len(sizes)).sigma * math.sqrt(noises), 1.0)
    cells = public_cells[:_MOST_ROWS]
    apart = difference(sums, sizes, np.bincount(cells.ravel(), minlength=len(sums)))
    public = config.learn == "public-rows" or (config.learn == "auto" and apart <= _ALIKE)
    scores, prior = _by_public_rows(sums, sizes, cells, spread) if public else _naive_bayes(sums, sizes, spread)
    return scores, prior, SumFacts(difference=apart, by_public_rows=public)


def shares_of_sums(sums: Sums, sizes: Sequence[int]) -> NDArray[np.float64]:
    """Return the share of each class, (num_classes,): each column says it once, with noise of its own.

    >>> shares_of_sums(np.array([[50, 4], [10, 36]]), [2]).tolist()
    [0.6, 0.4]
    """
    totals = sums.sum(axis=0) / len(sizes)
    return np.asarray(onto_simplex(totals[None] / max(totals.sum(), 1.0))[0])


def shares(sums: Sums, sizes: Sequence[int]) -> list[NDArray[np.float64]]:
    """Return of each column the share of each bin within each class, (bins, num_classes), each column of sum 1.

    The nearest shares that there can be: cells that noise alone has filled, or emptied below 0, become 0.
    """
    totals = np.maximum(sums.sum(axis=0) / len(sizes), 1.0)
    return [onto_simplex((part / totals).T).T for part in np.split(sums, np.cumsum(sizes)[:-1])]


def draw(
    sums: Sums, sizes: Sequence[int], count: int, *, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """Draw rows: a class each, then a bin of every column given the class, independently.

    Returned are the bins, (count, num_columns) int64, and the classes, (count,) int16. What a row was drawn
    as is no truth: the columns' bins of other classes overlap.

    >>> codes, classes = draw(np.array([[60, 0], [0, 40]]), [2], 100, rng=np.random.default_rng(1))
    >>> bool((codes[:, 0] == classes).all())
    True
    """
    prior, given = shares_of_sums(sums, sizes), shares(sums, sizes)
    classes = rng.choice(len(prior), count, p=prior)
    above = [np.cumsum(part, axis=0)[:-1, classes] for part in given]
    codes = np.stack([(rng.random(count) >= part).sum(axis=0) for part in above], axis=1)
    return codes, classes.astype(np.int16)


def difference(sums: Sums, sizes: Sequence[int], public: NDArray[np.integer]) -> float:
    """Return how differently public rows fill the columns' bins: the mean of half the summed differences, 0 to 1.

    ``public``, of shape (cells,), counts public rows in each cell. Noise raises it.

    >>> difference(np.array([[50, 4], [10, 36]]), [2], np.array([46, 54])).__round__(2)
    0.08
    """
    apart = []
    for own, other in zip(*(np.split(one, np.cumsum(sizes)[:-1]) for one in (sums.sum(axis=1), public)), strict=True):
        share = onto_simplex(own[None] / max(own.sum(), 1.0))[0]
        apart.append(float(np.abs(share - other / max(other.sum(), 1)).sum() / 2))
    return float(np.mean(apart))


def _naive_bayes(sums: Sums, sizes: Sequence[int], spread: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log shares of cells and of classes: as much is added to each cell as noise may have taken."""
    filled = np.maximum(sums, 0) + spread
    parts = np.split(filled, np.cumsum(sizes)[:-1])
    scores = np.concatenate([np.log(part / part.sum(axis=0)) for part in parts])
    return scores, np.log(np.maximum(shares_of_sums(sums, sizes), 1e-6))


def _by_public_rows(
    sums: Sums, sizes: Sequence[int], cells: NDArray[np.int64], spread: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scores of cells and of classes that a logistic regression gives them, of public rows and noisy sums.

    Its loss on rows with labels is mean(logsumexp(Xw)) - <w, X'y> / n: the first part needs no label, the second the
    sums alone. The penalty on a cell's score is what noise may have moved its sum by.
    """
    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix
    from scipy.special import logsumexp, softmax

    (rows, columns), (count, classes) = cells.shape, sums.shape
    total = max(float(sums.sum()) / len(sizes), 1.0)
    shown = csr_matrix((np.ones(cells.size), cells.ravel(), np.arange(0, cells.size + 1, columns)), (rows, count))
    met = np.vstack([sums / total, shares_of_sums(sums, sizes)])
    penalty = np.append(np.full(count, spread / total), 1e-6)[:, None]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        w = flat.reshape(count + 1, classes)
        scores = shown @ w[:-1] + w[-1]
        probs = softmax(scores, axis=1) / rows
        slope = np.vstack([shown.T @ probs, probs.sum(axis=0)]) - met + penalty * w
        value = logsumexp(scores, axis=1).mean() - (w * met).sum() + 0.5 * (penalty * w * w).sum()
        return float(value), slope.ravel()

    found = minimize(loss, np.zeros((count + 1) * classes), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    w = found.x.reshape(count + 1, classes)
    return w[:-1], w[-1]


CARD = Card(
    name="noisy-sums",
    title="Noisy sums",
    paper="docs/howto/draw-public-rows.md",
    config=NoisySumsConfig,
    strategy="fedkd_flwr.strategies.noisy_sums:NoisySums",
    client="fedkd_flwr.clients.noisy_sums:NoisySumsClient",
    sends="sums",
    returns="labels",
    default_rounds=2,
    noise=("party",),
)
