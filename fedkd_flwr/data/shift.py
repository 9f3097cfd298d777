"""How far private rows are from the public ones: how well a forest tells them apart, and which columns give it away.

Labels of public rows from elsewhere teach nobody anything, so this is what a silo should know before its first run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import column_texts
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import DataError, explain

__all__ = ["FEWEST_ROWS", "Shift", "column_differences", "find_shift"]

FEWEST_ROWS = 20
"""Of fewer rows on either side nothing can be said."""

_MOST_ROWS = 2000  # of either side: more change the second decimal and cost seconds
_FOLDS = 3
_SUREST = 10.0  # the largest ratio of densities that is believed


@dataclass(frozen=True)
class Shift:
    """How far private rows are from public ones."""

    # Area under the ROC curve with which a forest tells a private row from a public one that it did not learn from.
    # 0.5: not at all; 1: always. A party that holds few of the classes is told apart too, which does no harm.
    auc: float
    # How much of the private rows' kinds the public rows show, within [0, 1]; about 0 for public rows from elsewhere.
    # It stays high where the public rows show more than this party holds.
    fit: float


def find_shift(X: NDArray[np.floating], X_public: NDArray[np.floating], *, rng: np.random.Generator) -> Shift:
    """Return how far private rows are from public ones, by a classifier of the two and cross-validation.

    Both are features; of each side at most 2,000 rows are used, and fewer than `FEWEST_ROWS` are a `DataError`. The fit
    is the mean over public rows of the ratio of densities, private to public, at most 1: that mean is 1 if the private
    rows' kinds all occur among the public rows.
    Source of the classifier test: Lopez-Paz and Oquab, "Revisiting classifier two-sample tests", ICLR 2017.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(400, 2))
    >>> alike, apart = (find_shift(rows[:200], rows[200:] + far, rng=rng) for far in (0.0, 9.0))
    >>> alike.auc < 0.65 and alike.fit > 0.7 and apart.auc > 0.99 and apart.fit < 0.1
    True
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    if min(len(X), len(X_public)) < FEWEST_ROWS:
        seen = f"{len(X)} private and {len(X_public)} public"
        raise DataError(explain("rows to compare", f"be {FEWEST_ROWS} or more on each side", seen))
    sides = [rows[np.sort(rng.permutation(len(rows))[:_MOST_ROWS])] for rows in (X, X_public)]
    rows, own = np.concatenate(sides), np.repeat((1, 0), [len(side) for side in sides])
    seed = int(rng.integers(2**31))
    forest = RandomForestClassifier(40, min_samples_leaf=3, class_weight="balanced", random_state=seed)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    chance = cross_val_predict(forest, rows, own, cv=folds, method="predict_proba")[:, 1]
    public = chance[own == 0]
    ratios = np.minimum(public / np.maximum(1 - public, 1e-9), _SUREST)
    return Shift(auc=float(roc_auc_score(own, chance)), fit=float(min(ratios.mean(), 1.0)))


def column_differences(table: pd.DataFrame, public: pd.DataFrame, schema: Schema) -> list[tuple[str, float]]:
    """Return each column with how differently it is filled in two tables of raw rows, the most different first.

    The distance is within [0, 1]: for numbers the largest difference of the two distribution functions (Kolmogorov and
    Smirnov), an empty cell being the least; for categories half the sum of the differences of shares. 0: alike; 1:
    nothing in common. Texts are passed over.
    """
    from scipy.stats import ks_2samp

    found = []
    for column in schema.columns:
        if column.kind == "text":
            continue
        sides = [table[column.name], public[column.name]]
        if column.kind == "numeric":
            numbers = [np.nan_to_num(column.reading.parse(side)[0], nan=-np.inf) for side in sides]
            distance = float(ks_2samp(*numbers, method="asymp").statistic)
        else:
            texts = [pd.Series(column_texts(side, column.reading.missing), dtype=object).fillna("") for side in sides]
            shares = [one.value_counts(normalize=True) for one in texts]
            distance = float(shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2)
        found.append((column.name, distance))
    return sorted(found, key=lambda item: (-item[1], item[0]))
