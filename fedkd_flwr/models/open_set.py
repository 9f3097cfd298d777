"""How much public rows look like a party's own: probabilities of its classes and of "other", by its own kind of model.

A model with one class more than the party's learns its rows and, as class "other", the public rows; either side has the
same total weight, and weights that the model gives its classes do not count. A public row is scored by a model that did
not learn it, or hardly: a forest by the trees that did not draw the row (of twice as many trees; a small forest has
three times as many, up to 150; a single tree is a forest of such trees, because its own probabilities are 0 and 1), a
net by the one of two that learns the other half of the public rows, and any other estimator by the one of three fits
that leaves a third of the public rows out. Where a round's minibatches hold at most a tenth of the public rows, one net
learns from all and scores all. An estimator whose outputs are fixed cannot have one class more: it tells own rows from
public ones with two of the classes it has, and the classes among themselves by a model of the own rows.

Where own rows differ from public ones by their class shares alone, or not at all, a model of the classes says all. One
that tells own rows from public ones would tell of little but which rows it learnt, and an attacker would read that
(docs/evidence/trees.md). Nets do not ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import norm
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter

from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.models.classifier import Classifier

__all__ = ["OpenSet", "open_set", "widened"]

_FOLDS = 3
_NET_FOLDS = 2
_FEW_DRAWS = 0.1  # of the public rows in a round: too few for a net to know any of them
_STEPS_OF_ONE_NET = 0.75  # of those that two nets take together: a round is then twice as long as with labels alone
_FEWEST_TREES = 10  # of fewer, too few leave any one row out
_ENOUGH_TREES = 150  # a row is out of the bag of a third of the trees, and fifty that speak of it are enough
_GROVE = 20
_ROWS_AT_ONCE = 4096
_FEW, _RARE = 30, 0.05  # rows of a class, and share of all
_MOST_APART = 3.0  # times as frequent a class is here or there: one side has too few rows of one to speak of it
_TOLD = 0.1  # coefficient of discrimination of classes: 0 of a model that knows nothing, 1 of one that knows all
_LEVEL = 0.01  # of the tests whether own rows differ from public ones


class OpenSet(NamedTuple):
    """Probabilities of public rows, by models that did not learn them, or hardly.

    They are float64 of shape (num_public, num_classes + 1). The last column is "other"; ``models`` are the nets that go
    on in the next round.
    """

    probs: NDArray[np.float64]
    models: Sequence[Classifier] = ()


def open_set(
    fresh: Classifier,
    X: NDArray[Any],
    y: NDArray[np.integer[Any]],
    X_public: NDArray[Any],
    *,
    rng: np.random.Generator,
    steps: int | None = None,
    models: Sequence[Classifier] = (),
) -> OpenSet:
    """Score public rows by ``fresh``, an unfitted model of a party's kind, its own rows and labels.

    ``rng`` draws which public rows are left out together: the same in each round where nets go on. ``steps`` are the
    minibatch steps of a net, or of both nets together (by default as many as ``fit`` takes), ``models`` the last
    round's.
    """
    labels: NDArray[np.int64] = np.asarray(y).astype(np.int64)
    if type(fresh.template) is DecisionTreeClassifier:
        fresh = Classifier(_grove(_unweighted(fresh)), num_classes=fresh.num_classes)
    wide = widened(fresh)
    if wide is not None and wide.takes_steps:
        return _continued(wide, X, labels, X_public, rng, steps, models)
    if (probs := _alike(fresh, X, labels, X_public, rng.spawn(1)[0])) is not None:
        return OpenSet(probs)
    if wide is not None:
        try:
            return OpenSet(_refitted(wide, X, labels, X_public, rng))
        except (IndexError, ValueError, RuntimeError, KeyError):
            pass  # a user's estimator may know how many classes there are without saying so
    return OpenSet(_of_two(fresh, X, labels, X_public, rng))


def _alike(
    fresh: Classifier, X: NDArray[Any], y: NDArray[np.int64], X_public: NDArray[Any], rng: np.random.Generator
) -> NDArray[np.float64] | None:
    """Return probabilities where own rows differ from public ones by class shares alone, or not at all, else None.

    Then public rows are ``w_c = public share / own share`` times as dense as the own rows of class c, so that "other"
    has sum(w_c P(c | x)) for 1 of the classes: half of each row where shares are the same. They are where a model of
    the own rows gives public ones no other shares (at `_LEVEL`). Rows differ by more where models tell own rows,
    weighed so, from public ones that they did not learn: the classifier two-sample test of Lopez-Paz and Oquab (ICLR
    2017), by ranks. They count as different with one class or a rare one, of which public rows tell more than other
    classes do, with one that is far more frequent here or there, and where a model hardly tells the classes
    (coefficient of discrimination, Tjur 2009).
    """
    counts = np.bincount(y, minlength=fresh.num_classes)
    held, shares = counts[counts > 0], counts / len(y)
    if len(held) == 1 or held.min() < max(_FEW, _RARE * len(y)) or len(X_public) < _FOLDS:
        return None
    model = Classifier(_unweighted(fresh), num_classes=fresh.num_classes)
    folds = [_folds(len(rows), _FOLDS, rng) for rows in (X, X_public)]
    own_probs = np.empty((len(y), fresh.num_classes))
    for inside, outside in folds[0]:
        own_probs[outside] = model.fit(X[inside], y[inside]).predict_proba(X[outside])
    chance = (shares**2).sum()
    if (own_probs[np.arange(len(y)), y].mean() - chance) / (1 - chance) < _TOLD:
        return None
    probs = model.fit(X, y).predict_proba(X_public)
    weights, means = np.ones(fresh.num_classes), probs.mean(axis=0)
    errors = np.sqrt(shares * (1 - shares) / len(y))
    if (np.abs(means - shares) > norm.isf(_LEVEL / 2 / (len(held) - 1)) * errors).any():
        if len(held) < len(counts):
            return None
        weights = _public_shares(own_probs, y, means) / shares
        if max(weights.max(), 1 / weights.min()) > _MOST_APART:
            return None
    of_own, of_public = np.empty(len(y)), np.empty(len(X_public))
    for (own, own_out), (public, public_out) in zip(*folds, strict=True):
        side = np.zeros(len(own), dtype=np.int64)
        _fit_balanced(model, X[own], side, X_public[public], 1, rng, own_weights=weights[y[own]])
        of_own[own_out] = model.predict_proba(X[own_out])[:, 1]
        of_public[public_out] = model.predict_proba(X_public[public_out])[:, 1]
    if _chance_of_larger(of_public, of_own, weights[y]) < _LEVEL:
        return None
    against = 1 + probs @ (weights - 1)
    return np.hstack((probs, against[:, None])) / (1 + against)[:, None]


def _public_shares(
    own_probs: NDArray[np.float64], y: NDArray[np.int64], means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the class shares of public rows that give a model's ``means`` there (Lipton et al., ICML 2018, soft).

    ``own_probs`` are of own rows that it did not learn, of which each class is there.
    """
    told = np.stack([own_probs[y == c].mean(axis=0) for c in range(len(means))], axis=1)
    found = np.maximum(nnls(told, means)[0], 1e-6)
    return np.asarray(found / found.sum())


def _chance_of_larger(scores: NDArray[np.float64], of_own: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the p-value of scores being no larger than weighed own ones: the rank test, own rows counted as so many.

    Rows of unlike weights count as ``sum(w)^2 / sum(w^2)`` (Kish's effective size).
    """
    sides, together = np.repeat((1, 0), (len(scores), len(of_own))), np.concatenate((scores, of_own))
    auc = roc_auc_score(sides, together, sample_weight=np.concatenate((np.ones(len(scores)), weights)))
    size = weights.sum() ** 2 / (weights**2).sum()
    return float(norm.sf((auc - 0.5) / np.sqrt((1 / size + 1 / len(scores)) / 12)))


def widened(fresh: Classifier) -> Classifier | None:
    """Return an unfitted model of the same kind with one class more; None where its outputs are fixed."""
    count = fresh.num_classes + 1
    template = _unweighted(fresh)
    params = template.get_params() if callable(getattr(template, "get_params", None)) else {}
    named = {name: count for name in params if name == "num_classes" or name.endswith("__num_classes")}
    if named:
        template.set_params(**named)
    elif fresh.keeps_label_space:
        return None
    return Classifier(template, num_classes=count)


def _unweighted(fresh: Classifier) -> Any:
    """Return an unfitted estimator without weights of its classes: `fedkd_flwr.labels.ratios` divides by them."""
    estimator = fresh.fresh_estimator()
    params = estimator.get_params() if callable(getattr(estimator, "get_params", None)) else {}
    named = {name: None for name in params if name.rpartition("__")[2] in ("class_weight", "scale_pos_weight")}
    return estimator.set_params(**named) if named else estimator


def _refitted(
    wide: Classifier, X: NDArray[Any], y: NDArray[np.int64], X_public: NDArray[Any], rng: np.random.Generator
) -> NDArray[np.float64]:
    other = wide.num_classes - 1
    estimator = wide.template
    if type(estimator) in (RandomForestClassifier, ExtraTreesClassifier) and estimator.n_estimators >= _FEWEST_TREES:
        trees = max(2 * estimator.n_estimators, min(3 * estimator.n_estimators, _ENOUGH_TREES))
        bagged = Classifier(
            wide.fresh_estimator().set_params(bootstrap=True, n_estimators=trees), num_classes=wide.num_classes
        )
        _fit_balanced(bagged, X, y, X_public, other, rng)
        return _out_of_bag(bagged, len(X), X_public)
    probs = np.empty((len(X_public), wide.num_classes))
    for inside, outside in _folds(len(X_public), _FOLDS, rng):
        _fit_balanced(wide, X, y, X_public[inside], other, rng)
        probs[outside] = wide.predict_proba(X_public[outside])
    return probs


def _grove(tree: DecisionTreeClassifier) -> RandomForestClassifier:
    """Return a forest of trees like this one, each of rows drawn with replacement."""
    params, known = tree.get_params(), RandomForestClassifier().get_params()
    shared = {name: value for name, value in params.items() if name in known}
    return RandomForestClassifier(n_estimators=_GROVE, n_jobs=1, **shared)


def _out_of_bag(bagged: Classifier, num_own: int, X_public: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean answer of the trees that did not draw a row."""
    forest, classes = bagged.estimator, bagged.classes
    rows = np.ascontiguousarray(X_public, dtype=np.float32)
    sums, trees = np.zeros((len(rows), len(classes))), np.zeros(len(rows))
    for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.ones(num_own + len(rows), dtype=bool)
        out[drawn] = False
        out = out[num_own:]
        sums[out] += tree.predict_proba(rows[out], check_input=False)
        trees += out
    probs = np.zeros((len(rows), bagged.num_classes))
    probs[:, classes] = sums / np.maximum(trees, 1)[:, None]
    probs[trees == 0, -1] = 1.0  # no tree can speak of it
    return probs


def _of_two(
    fresh: Classifier, X: NDArray[Any], y: NDArray[np.int64], X_public: NDArray[Any], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Tell own rows from public ones with two classes, and the classes among themselves by a model of the own rows."""
    telling = Classifier(_unweighted(fresh), num_classes=fresh.num_classes)
    other, own = np.zeros(len(X_public)), np.zeros(len(X), dtype=np.int64)
    for inside, outside in _folds(len(X_public), _FOLDS, rng):
        _fit_balanced(telling, X, own, X_public[inside], 1, rng)
        two = telling.predict_proba(X_public[outside])[:, :2]
        other[outside] = two[:, 1] / np.maximum(two.sum(axis=1), 1e-12)
    probs = Classifier(_unweighted(fresh), num_classes=fresh.num_classes).fit(X, y).predict_proba(X_public)
    return np.hstack((probs * (1 - other[:, None]), other[:, None]))


def _continued(
    wide: Classifier,
    X: NDArray[Any],
    y: NDArray[np.int64],
    X_public: NDArray[Any],
    rng: np.random.Generator,
    steps: int | None,
    models: Sequence[Classifier],
) -> OpenSet:
    """Let nets go on for some steps, or as many as their ``fit`` would take."""
    other = wide.num_classes - 1
    size = getattr(wide.template, "batch_size", 64)
    if steps is None:
        steps = -(-getattr(wide.template, "epochs", 1) * len(X) * _NET_FOLDS // size)
    folds: Sequence[tuple[Any, Any]] = _folds(len(X_public), _NET_FOLDS, rng)
    if steps * (size // 2) <= _FEW_DRAWS * len(X_public):
        everything = slice(None)
        folds, steps = [(everything, everything)], int(_STEPS_OF_ONE_NET * steps)
    nets = list(models)
    if len(nets) != len(folds):
        nets = [Classifier(wide.fresh_estimator(), num_classes=wide.num_classes) for _ in folds]
    probs = np.empty((len(X_public), wide.num_classes))
    for net, (inside, outside) in zip(nets, folds, strict=True):
        labels = np.full(len(X_public), ABSTAIN, dtype=np.int64)
        labels[inside] = other
        net.update(X, y, X_public, labels, steps=max(steps // len(folds), 1))
        # half of many images is a large copy
        parts = [outside] if len(folds) == 1 else np.array_split(outside, -(-len(outside) // _ROWS_AT_ONCE))
        for rows in parts:
            probs[rows] = net.predict_proba(X_public[rows])
    return OpenSet(probs, nets)


def _folds(count: int, number: int, rng: np.random.Generator) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Return, for each fold, the rows to learn from and the rows to score; one row alone is scored as it is learnt."""
    order = rng.permutation(count)
    if count == 1:
        return [(order, order)]
    parts = np.array_split(order, min(number, count))
    return [(np.sort(np.setdiff1d(order, part)), np.sort(part)) for part in parts]


def _fit_balanced(
    model: Classifier,
    X: NDArray[Any],
    y: NDArray[np.int64],
    X_other: NDArray[Any],
    other: int,
    rng: np.random.Generator,
    *,
    own_weights: NDArray[np.float64] | None = None,
) -> None:
    """Fit on own and other rows of the same total weight: by weights, or by drawing rows again.

    ``own_weights``: of the own rows among themselves, where the estimator takes weights.
    """
    rows, labels = np.concatenate((X, X_other)), np.concatenate((y, np.full(len(X_other), other)))
    total = len(rows)
    if (name := _weight_parameter(model.template)) is not None:
        weights = np.repeat((total / (2 * len(X)), total / (2 * len(X_other))), (len(X), len(X_other)))
        if own_weights is not None:
            weights[: len(X)] *= own_weights / own_weights.mean()
        model.fit(rows, labels, **{name: weights})
        return
    # each side as often as the larger one: whole copies first, then a part of one
    size = max(len(X), len(X_other))
    drawn = [
        start + np.concatenate((np.tile(np.arange(count), size // count), rng.permutation(count)[: size % count]))
        for start, count in ((0, len(X)), (len(X), len(X_other)))
    ]
    taken = np.concatenate(drawn)
    model.fit(rows[taken], labels[taken])


def _weight_parameter(estimator: Any) -> str | None:
    """Return under which name ``fit`` takes weights of rows; None where it takes none."""
    if type(estimator) is Pipeline:
        last, final = estimator.steps[-1]
        return f"{last}__sample_weight" if has_fit_parameter(final, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None
