"""Whether a row was trained on, judged by what left: evidence on each row, and its likelihood ratio.

The attack is that of Carlini et al., "Membership inference attacks from first principles" (LiRA; S&P 2022), online: the
attacker repeats the recipe in *shadow runs* of its own, in each of which a coin decides whether a row is trained on.
It asks under which of the two laws the run under attack is more likely. What is looked at depends on what left:

| what left | evidence on a private row (x, y) |
|---|---|
| weights | log-odds of class y at x, under the net sent in the first and in the last round, and their mean |
| trees | log-odds of class y at x, under the party's trees of the first round, the first few, the others, and all |
| probabilities, logits | log-odds of class y at the public rows nearest to x, and what models taught by all say of x |
| labels, bits, noisy scores | how often such rows were given class y, and what models taught by all answers say of x |

An answer on public rows speaks of a private row only through models of the answers: nearest neighbours, a linear model
and a forest. The last two find what smooth answers tell together, and none of them alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedkd_flwr.audit.bounds import one_run_epsilon
from fedkd_flwr.baselines.trees import Trees, model_of, together
from fedkd_flwr.errors import DataError, explain

__all__ = ["CUTS", "NEAR", "Answers", "likelihood_ratios", "log_odds", "pairs_epsilon", "tree_odds"]

NEAR = (1, 8, 64)
"""How many of the nearest public rows are looked at: one piece of evidence for each number."""
CUTS = (1, 3, 8, 15)
"""Of the trees of so many first rounds, and of the others', one piece of evidence each."""
_TREES, _COLUMNS = 30, 32  # of the forest that learns the answers; images have more columns than are looked at
_LEAST_PROBABILITY, _LEAST_DOUBT = 1e-6, 1e-14
_MOST_ODDS = -float(np.log(_LEAST_DOUBT))
_MOST_SCATTER, _MOST_AWAY = 2.0, 4.0


def log_odds(values: NDArray[np.floating[Any]], kind: str) -> NDArray[np.float64]:
    """Return log(p / (1 - p)) of each class for ``probs`` or ``logits`` (rows, classes); anything else as it is.

    They are finite: at most what single precision tells from certainty, in both directions.
    """
    exact = np.asarray(values, dtype=np.float64)
    if kind == "logits":
        with np.errstate(invalid="ignore", over="ignore"):  # logits that have overflowed: nothing is known
            logs = np.minimum(log_softmax(exact, axis=1), -_LEAST_DOUBT)
        odds = np.nan_to_num(logs - np.log(-np.expm1(logs)), nan=0.0, neginf=-_MOST_ODDS)
        return np.asarray(np.maximum(odds, -_MOST_ODDS))
    if kind == "probs":
        exact = np.clip(exact, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        return np.asarray(np.log(exact) - np.log1p(-exact))
    return exact


def tree_odds(
    trees: Sequence[Trees], X: NDArray[np.floating[Any]], y: NDArray[np.integer[Any]], *, num_classes: int
) -> NDArray[np.float64]:
    """Return the log-odds of class ``y`` at each row under all trees, and under those of some rounds (`CUTS`).

    Of shape (num_rows, 1 + 2 x len(CUTS)); 0 where a party sent none.
    """
    parts = [trees, *(part for cut in CUTS for part in (trees[:cut], trees[cut:]))]
    found = np.zeros((len(y), len(parts)))
    for column, some in enumerate(parts):
        if some:
            whole = together(some)
            boosted = whole["values"].shape[1] == 1
            says = model_of(whole, num_classes=num_classes, num_features=X.shape[1], boosted=boosted).estimator
            found[:, column] = log_odds(says.predict_proba(X), "probs")[np.arange(len(y)), y]
    return found


class Answers:
    """What one party said of the public rows: ``first``, ``last`` and ``total``, (num_public, num_classes).

    Those are the first and the last answer on each row, and the sum of all; 0 where there was none.
    """

    def __init__(self, num_public: int, num_classes: int) -> None:
        self.first = np.zeros((num_public, num_classes))
        self.last = np.zeros((num_public, num_classes))
        self.total = np.zeros((num_public, num_classes))
        self._count = np.zeros(num_public)

    @property
    def given(self) -> bool:
        """Whether anything was said."""
        return bool(self._count.any())

    def add(self, rows: NDArray[np.integer[Any]], values: NDArray[np.floating[Any]]) -> None:
        """Add a round's answers (n, num_classes) on ``rows``, as `log_odds` or frequencies."""
        new = rows[self._count[rows] == 0]
        self.last[rows] = values
        self.first[new] = self.last[new]
        self.total[rows] += values
        self._count[rows] += 1

    def evidence(self, order: NDArray[np.integer[Any]], y: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return what the answers near each private row say of its own class ``y``: (num_rows, 3 x len(NEAR)).

        ``order``, (num_rows, m), are the public rows nearest to each, nearest first; rows nobody was asked about are
        passed over.
        """
        asked = self._count[order] > 0
        rank = np.cumsum(asked, axis=1)
        mean = self.total / np.maximum(self._count, 1)[:, None]
        columns = []
        for values in (self.first, self.last, mean):
            said = values[order, y[:, None]]
            for near in NEAR:
                used = asked & (rank <= near)
                columns.append((said * used).sum(axis=1) / np.maximum(used.sum(axis=1), 1))
        return np.stack(columns, axis=1)

    def taught(self, public: NDArray[Any], X: NDArray[Any], y: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return what a linear model and a forest that learn the answers say of class ``y`` at each row: (num_rows, 2).

        ``public`` are the public rows, ``X`` and ``y`` the private ones; 0 where there was no answer.
        """
        asked = np.flatnonzero(self._count)
        if not len(asked):
            return np.zeros((len(y), 2))
        said = self.total[asked] / self._count[asked, None]
        columns = min(_COLUMNS, public.shape[1])
        forest = RandomForestRegressor(_TREES, max_features=columns, random_state=0, n_jobs=1)
        models = (make_pipeline(StandardScaler(), Ridge()), forest)
        found = [model.fit(public[asked], said).predict(X)[np.arange(len(y)), y] for model in models]
        return np.stack(found, axis=1)


def likelihood_ratios(
    evidence: NDArray[np.floating[Any]], shadows: NDArray[np.floating[Any]], member: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return for each row the logarithm of how much likelier the evidence is of a member than of a fresh row.

    Gaussian laws for each row, one covariance for all rows (LiRA's "fixed variance", for few shadow runs), half of it
    shrunk to none between features: first, last and mean answers are nearly the same, and with few shadow runs their
    exact inverse finds less than one of them alone. What membership shifts is estimated per row and drawn towards the
    mean shift of all rows, by as much as the rows' shifts scatter no more than chance (an empirical Bayes estimate):
    few shadow runs then do no worse than none.

    ``evidence``, (num_rows, num_features), is of the run under attack; ``shadows``, (num_shadows, num_rows,
    num_features), of each shadow run; ``member``, (num_shadows, num_rows), says whether it trained on the row. Raises
    `DataError` if shapes do not fit, or a row was in all shadow runs or in none.
    """
    if shadows.shape[1:] != evidence.shape or member.shape != shadows.shape[:2]:
        seen = f"{evidence.shape}, {shadows.shape}, {member.shape}"
        raise DataError(explain("evidence, shadows and member", "be of shapes (n, f), (s, n, f) and (s, n)", seen))
    inside, outside = member.sum(axis=0), (~member).sum(axis=0)
    if not (inside.all() and outside.all()):
        way_out = "Make more shadow runs."
        raise DataError(explain("member", "hold each row in some shadow runs and not in others", "otherwise", way_out))
    evidence, shadows = _tamed(evidence, shadows)
    weight = member[..., None].astype(np.float64)
    with_it = (shadows * weight).sum(axis=0) / inside[:, None]
    without = (shadows * (1 - weight)).sum(axis=0) / outside[:, None]
    left = shadows - np.where(member[..., None], with_it, without)
    flat = left.reshape(-1, left.shape[-1])
    freedom = max(left.shape[0] * left.shape[1] - 2 * left.shape[1], 1)
    covariance = flat.T @ flat / freedom
    shift, common = with_it - without, (with_it - without).mean(axis=0)
    chance = np.diag(covariance) * (1 / inside + 1 / outside)[:, None]
    scatter = np.maximum(((shift - common) ** 2 - chance).mean(axis=0), 0)
    shift = common + (shift - common) * (scatter / np.maximum(scatter + chance, 1e-300))
    # in units of each feature's own deviation: weights that a round's noise has blown up must not hide another round's
    unit = np.sqrt(np.diag(covariance))
    unit[unit == 0] = 1.0
    shrunk = (covariance / np.outer(unit, unit) + np.eye(len(unit))) / 2
    middle = (with_it + without) / 2
    direction = np.linalg.solve(shrunk, (shift / unit).T).T
    return np.asarray(((evidence - middle) / unit * direction).sum(axis=1))


def _tamed(
    evidence: NDArray[np.floating[Any]], shadows: NDArray[np.floating[Any]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both with runs and values that lie far outside drawn in: one odd run of eight must not set the laws.

    Around each row's middle shadow, in units of what is usual for the feature: a run may scatter twice as much as the
    usual run does, a value may lie four units away.
    """
    middle = np.median(shadows, axis=0)
    away = np.concatenate([shadows, evidence[None]]) - middle
    scatter = np.sqrt((away**2).mean(axis=1))  # of each run, by feature
    usual = np.median(scatter[:-1], axis=0)
    too_much = scatter > _MOST_SCATTER * usual
    share = np.where(too_much, _MOST_SCATTER * usual / np.where(too_much, scatter, 1.0), 1.0)
    away = np.clip(away * share[:, None, :], -_MOST_AWAY * usual, _MOST_AWAY * usual) + middle
    return away[-1], away[:-1]


def pairs_epsilon(
    chosen: NDArray[np.floating[Any]], other: NDArray[np.floating[Any]], *, delta: float, confidence: float = 0.95
) -> float:
    """Return the epsilon that guesses prove about pairs of rows, of each of which a fair coin put one in.

    The attacker names of a pair the row with the larger score. It guesses all pairs, the tenth with the largest
    differences, and the hundredth; what it proves is the best of the three, each at a third of what the confidence
    leaves. Equal scores count as a wrong guess. ``chosen`` and ``other``, (num_pairs,), are the scores of the rows that
    were put in and of those that were not; the rest is as in `fedkd_flwr.audit.bounds.one_run_epsilon`.
    """
    difference = chosen - other
    order, pairs = np.argsort(-np.abs(difference), kind="stable"), len(difference)
    numbers = sorted({max(1, pairs // part) for part in (1, 10, 100)})
    each = 1 - (1 - confidence) / len(numbers)
    return max(
        one_run_epsilon(int((difference[order[:r]] > 0).sum()), r, pairs, delta=delta, confidence=each) for r in numbers
    )
