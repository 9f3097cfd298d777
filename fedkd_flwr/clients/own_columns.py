"""A party's own final model of all its columns: the shared ones, and those that only it has.

The model that votes reads the shared columns alone, in every round. In the final visit a second one is made here: a
model of the same kind learns from the party's own rows, all columns, and from the public rows with their final labels.
A public row lacks the own columns. It gets those of a private row of the same class that is like it in the shared
columns, drawn anew for each (a *hot deck*, as for survey answers that are missing: Andridge and Little 2010,
https://doi.org/10.1111/j.1751-5823.2010.00103.x, section 3). So what the own columns say of a class comes from the
party's rows alone, and how frequent the classes are comes from the federation too. The seemingly simpler way, to call
them missing in public rows, teaches a model that rows without them are of other classes.

Own columns may say nothing new. So the party's rows are left out in turn, and both models, with and without them, are
asked about those: only where the squared error of their probabilities, averaged over classes, is smaller with all
columns, by more than the standard error of the difference, does the party keep that model. Otherwise it keeps the one
without, and so does a party with fewer than 30 rows of all classes but one. All of this is computed in the
final visit, after the last labels or weights have left. Nothing of it leaves but, where no privacy is claimed, the
figures that the party's share-metrics names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.clients.party import Extended, Finished, Instruction, ModelFactory, OwnRows, Party
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.models.classifier import Classifier

__all__ = ["drawn_columns", "extended"]

_FOLDS = 3
_NEAREST = 5  # private rows of a class from which one is drawn
_FEWEST = 30  # rows of a class; the own columns of fewer, copied to many public rows, would say what is chance


def extended(party: Party, own: OwnRows, finished: Finished, instruction: Instruction) -> Extended:
    """Return what came of a party's own columns.

    Parameters
    ----------
    party : Party
    own : OwnRows
        The own columns of its rows.
    finished : Finished
        What it is left with without them, measured.
    instruction : Instruction
        The final visit's, whose seeds are used.
    """
    rng = instruction.rng("own-columns")
    taught = finished.taught if finished.taught is not None else np.full(party.public.num_rows, ABSTAIN, dtype=np.int16)
    known = taught != ABSTAIN
    X_public, y_public = party.public.X[known], taught[known]
    seed = instruction.seed("model")

    def learnt(X_own: NDArray[np.float32] | None, rows: NDArray[np.intp], make: ModelFactory) -> Classifier:
        """Return a model of these private rows and of the public ones, with own columns where they are given."""
        X, y, more = party.X[rows], party.y[rows], X_public
        if X_own is not None:
            drawn = drawn_columns(X, X_own[rows], y, X_public, y_public, rng=rng)
            X, more = np.concatenate([X, X_own[rows]], axis=1), np.concatenate([X_public, drawn], axis=1)
        return make(seed=seed).fit(np.concatenate([X, more]), np.concatenate([y, y_public]))

    def with_own(X: NDArray[Any], X_own: NDArray[np.float32]) -> NDArray[Any]:
        return np.concatenate([X, X_own], axis=1)

    without = Extended(model=None, encoder=own.encoder, metrics=dict(finished.federated or finished.solo))
    if len(_known_classes(party.y)) < 2:
        return without
    gains = np.zeros(len(party.y))
    for held_out in np.array_split(rng.permutation(len(party.y)), _FOLDS):
        rows = np.setdiff1d(np.arange(len(party.y)), held_out)
        X, y = party.X[held_out], party.y[held_out]
        before = learnt(None, rows, party.model).predict_proba(X)
        after = learnt(own.X, rows, own.model).predict_proba(with_own(X, own.X[held_out]))
        gains[held_out] = _squared_error(before, y) - _squared_error(after, y)
    if not _clear(gains, party.y):
        return without
    model = learnt(own.X, np.arange(len(party.y)), own.model)
    tests = {name: (with_own(X, own.tests[name]), y) for name, (X, y) in party.tests.items() if len(y)}
    return Extended(
        model=model, encoder=own.encoder, metrics={name: model.metrics(X, y) for name, (X, y) in tests.items()}
    )


def drawn_columns(
    X: NDArray[Any],
    X_own: NDArray[np.float32],
    y: NDArray[np.integer[Any]],
    X_public: NDArray[Any],
    y_public: NDArray[np.integer[Any]],
    *,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Return own columns for public rows, each row's from one of the private rows of its class that are nearest to it.

    Parameters
    ----------
    X : ndarray of shape (num_rows, num_features)
        Shared features of private rows; at least one row.
    X_own : ndarray of shape (num_rows, num_own), float32
        Their own columns.
    y : ndarray of shape (num_rows,), integers
        Their classes.
    X_public : ndarray of shape (num_public, num_features)
        Shared features of public rows.
    y_public : ndarray of shape (num_public,), integers
        Their classes. A class that fewer than 30 private rows have takes columns from all rows.
    rng : Generator

    Returns
    -------
    ndarray of shape (num_public, num_own), float32

    Examples
    --------
    >>> y = np.array([0] * 30 + [1] * 30)
    >>> X, own = np.zeros((60, 1)), np.where(y == 0, 7, 8).astype(np.float32)[:, None]
    >>> drawn_columns(X, own, y, np.zeros((3, 1)), np.array([1, 0, 1]), rng=np.random.default_rng(0)).ravel().tolist()
    [8.0, 7.0, 8.0]
    """
    from sklearn.neighbors import NearestNeighbors

    drawn = np.zeros((len(X_public), X_own.shape[1]), dtype=np.float32)
    for label in np.unique(y_public):
        wanted = np.flatnonzero(y_public == label)
        donors = np.flatnonzero(y == label)
        if len(donors) < _FEWEST:
            donors = np.arange(len(y))
        count = min(_NEAREST, len(donors))
        near = NearestNeighbors(n_neighbors=count).fit(X[donors]).kneighbors(X_public[wanted], return_distance=False)
        chosen = near[np.arange(len(wanted)), rng.integers(0, count, len(wanted))]
        drawn[wanted] = X_own[donors[chosen]]
    return drawn


def _known_classes(y: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Return the classes with rows enough to say what own columns are like in them."""
    classes, counts = np.unique(y, return_counts=True)
    known: NDArray[np.integer[Any]] = classes[counts >= _FEWEST]
    return known


def _clear(gains: NDArray[np.float64], y: NDArray[np.integer[Any]]) -> bool:
    """Tell whether the mean over classes of the rows' gains is above its standard error.

    Classes count alike, because a column that tells a rare one may be worth most.
    """
    of_class = [gains[y == label] for label in _known_classes(y)]
    mean = sum(one.mean() for one in of_class)
    return bool(mean > np.sqrt(sum(one.var() / len(one) for one in of_class)))


def _squared_error(probs: NDArray[np.float64], y: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    """Return each row's Brier score: it tells small gains that no label shows yet, and stays finite."""
    error: NDArray[np.float64] = ((probs - np.eye(probs.shape[1])[y]) ** 2).sum(axis=1)
    return error
