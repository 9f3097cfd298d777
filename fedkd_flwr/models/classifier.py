"""One interface to all models of a federation, whose label space is always 0..C-1.

Parties have different classes, and libraries treat absent classes differently: forests omit them from
`predict_proba`, XGBoost needs labels 0..k-1, most refuse a single class. `Classifier` hides these differences, and the
algorithms use models through it alone.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fedkd_flwr.checks import check_whole
from fedkd_flwr.errors import ConfigError, DataError, FedkdError, cause, explain, place_of
from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.metrics import Metrics, measure
from fedkd_flwr.models import _checks
from fedkd_flwr.models.soft_targets import fit_soft_estimator, soft_weights, takes_weights
from fedkd_flwr.models.training import SoftTraining

__all__ = ["Classifier", "classifiers"]

logger = logging.getLogger(__name__)

MAX_CLASSES = 2**15 - 1  # labels are int16
_KNOWN = frozenset(("fedkd_flwr", "imodels", "sklearn", "xgboost"))  # packages that never write into their rows


def classifiers(make: Callable[..., Any], num_classes: int) -> Callable[..., Classifier]:
    """Return a function that makes what ``make(seed=...)`` makes, a bare estimator wrapped as `Classifier`."""
    return partial(_made, make, num_classes)


def _made(make: Callable[..., Any], num_classes: int, *, seed: int) -> Classifier:
    made = make(seed=seed)
    return made if isinstance(made, Classifier) else Classifier(made, num_classes=num_classes)


class Classifier(SoftTraining):
    """A scikit-learn style estimator over the fixed label space ``0..num_classes-1``, of at least 2 classes.

    ``estimator`` is any object with scikit-learn's ``fit`` and ``predict``, perhaps ``predict_proba``; every fit starts
    from a clone of it. Four attributes more are used if it has them (docs/reference/models.md):
    ``keeps_label_space``, ``update_steps``, ``fit_soft`` and ``takes_text``. With torch nets of the zoo the methods of
    `fedkd_flwr.models.training.SoftTraining` work too. ``origin`` says how a user's factory made the estimator: the
    arguments of `fedkd_flwr.models.zoo.make_model`. Such an estimator gets copies of rows and labels, so that writing
    into them changes nothing but the copies.

    A party without class 1 answers with the federation's labels and probabilities:

    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = Classifier(DecisionTreeClassifier(), num_classes=3)
    >>> rows = np.array([[0.0], [1.0]], dtype=np.float32)
    >>> model.fit(rows, np.array([0, 2])).predict_proba(rows).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """

    def __init__(self, estimator: Any, *, num_classes: int, origin: Mapping[str, Any] | None = None) -> None:
        self.num_classes = check_whole("num_classes", num_classes, 2, MAX_CLASSES)
        methods = (getattr(estimator, name, None) for name in ("fit", "predict"))
        if isinstance(estimator, type) or not all(map(callable, methods)):
            rule, seen = "be an object with fit(X, y) and predict(X)", f"an object of {type(estimator).__name__}"
            way_out = "Pass an instance of any scikit-learn compatible classifier."
            raise ConfigError(explain("estimator", rule, seen, way_out))
        if any(base.__module__.partition(".")[0] == "skorch" for base in type(estimator).__mro__):
            rule, way_out = "be a torch module, not a skorch net", "Give the module: it is trained in every algorithm."
            raise ConfigError(explain("model", rule, type(estimator).__name__, way_out))
        self.template = estimator  # what every fit starts from a clone of; do not change it
        self.origin = origin
        # what a run names by import string may write into the rows it gets, which are other parties' too
        self._lends_copies = origin is not None and not {one.partition(".")[0] for one in self.type_names} <= _KNOWN
        self.estimator: Any = None  # the fitted one; None before the first fit, and while the classifier is constant
        self._classes: NDArray[np.int64] | None = None  # the classes of the last fit
        self.num_features: int | None = None  # columns of the last fit
        self.shares: dict[str, NDArray[np.float64]] = {}  # of classes, by `fedkd_flwr.models.populations.POPULATIONS`
        self.scaled: dict[str, Any] = {}  # where probabilities did not sum to 1, and in how many rows

    @property
    def takes_text(self) -> bool:
        """Whether rows are raw texts of shape (num_rows, 1) instead of numbers, as the estimator says."""
        return bool(getattr(self.template, "takes_text", False))

    @property
    def is_fitted(self) -> bool:
        """Whether `predict` can answer."""
        return self._classes is not None

    @property
    def is_constant(self) -> bool:
        """Whether the rows of the last fit held one class, which is then predicted for every row."""
        return self.is_fitted and self.estimator is None

    @property
    def continues(self) -> bool:
        """Whether `update` continues from the present state instead of refitting."""
        return self.takes_steps or callable(getattr(self.template, "partial_fit", None))

    @property
    def takes_steps(self) -> bool:
        """Whether `update` takes a number of minibatch steps, as nets do."""
        return callable(getattr(self.template, "update_steps", None))

    @property
    def keeps_label_space(self) -> bool:
        """Whether the estimator's outputs stand for labels ``0..num_classes-1``, also for absent ones."""
        # what takes steps may meet a class later that its first rows lack
        return self.takes_steps or bool(getattr(self.template, "keeps_label_space", False))

    @property
    def classes(self) -> NDArray[np.int64]:
        """The classes of the last fit: those that the estimator's outputs stand for. Raise FedkdError before one."""
        if self._classes is None:
            raise FedkdError(explain("A classifier", "be fitted before it predicts", "one that never was"))
        return self._classes

    def fresh_estimator(self) -> Any:
        """Return an unfitted estimator of the same kind, to change its parameters."""
        return _fresh(self.template)

    @property
    def type_names(self) -> tuple[str, ...]:
        """Names of the types that the unfitted estimator consists of; a file of this model may hold them."""
        parts = [self.template]
        # torch nets of a user's own are rebuilt by their factory: reading runs its code
        if getattr(self.template, "is_own", False):
            return (str(self.template.net),)
        if callable(getattr(self.template, "get_params", None)):
            parts += [part for part in self.template.get_params(deep=True).values() if hasattr(part, "fit")]
        return tuple(sorted({f"{type(part).__module__}.{type(part).__qualname__}" for part in parts}))

    def fit(self, X: NDArray[Any], y: NDArray[Any], **weights: NDArray[np.floating]) -> Self:
        """Learn from rows and their labels; everything learnt before is forgotten.

        ``X``, (num_rows, num_features) float32 or float64, holds finite values; trees and nets use float32 in C order
        without a copy. ``y``, (num_rows,) of any integer type, holds labels within ``0..num_classes-1``; if all are the
        same, the classifier becomes constant and the estimator is not called. ``weights`` are those of the rows,
        (num_rows,), under the name by which the estimator's ``fit`` takes them, such as ``sample_weight``.

        Raises `DataError` if there are no rows, a value is not finite, or a label is outside the label space.
        """
        X = self._check_rows("X", X)
        y, present = _checks.check_labels("y", y, len(X), self.num_classes)
        self._learn(X, y, present, **weights)
        return self

    def fit_soft(self, X: NDArray[Any], targets: NDArray[Any]) -> Self:
        """Learn from rows and a score of each class in each row; everything learnt before is forgotten.

        Predicting class c in row i gains ``targets[i, c]``, and the expected gain is maximised (or the estimator's
        substitute for it): only differences within a row matter, and rows with larger differences matter more.
        `fedkd_flwr.models.soft_targets` says how each kind of estimator does this. An estimator whose ``fit`` takes no
        ``sample_weight`` learns the label of the largest target. If all weight is on one class, the classifier becomes
        constant. ``targets``, (num_rows, num_classes) of float or integer, are finite scores in the same unit in all
        rows, which may be negative; else, or if no row prefers a class, it is a `DataError`.

        >>> from sklearn.tree import DecisionTreeClassifier
        >>> model = Classifier(DecisionTreeClassifier(), num_classes=2)
        >>> rows = np.array([[0.0], [1.0]], dtype=np.float32)
        >>> model.fit_soft(rows, np.array([[2.0, 1.0], [0.0, 1.0]])).predict_proba(rows).round(2).tolist()
        [[0.67, 0.33], [0.33, 0.67]]
        """
        X = self._check_rows("X", X)
        targets = _checks.check_targets("targets", targets, len(X), self.num_classes, probabilities=False)
        weights = soft_weights(targets)
        if not takes_weights(self.template) or bool((weights.max(axis=1) == 1).all()):
            y = weights.argmax(axis=1)
            self._learn(X, y, np.flatnonzero(np.bincount(y, minlength=self.num_classes)))
            return self
        estimator = _fresh(self.template)
        present = np.flatnonzero(weights.any(axis=0))
        classes = np.arange(self.num_classes) if self.keeps_label_space else present
        fit_soft_estimator(estimator, self._lent(X), weights[:, classes])
        self.estimator, self._classes, self.num_features = estimator, classes, X.shape[1]
        return self

    def update(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        X_public: NDArray[Any] | None = None,
        y_public: NDArray[Any] | None = None,
        *,
        steps: int | None = None,
    ) -> Self:
        """Learn from own rows and pseudo-labelled public rows, as FedCT does in each round; rows and errors as `fit`.

        Torch nets take ``steps`` minibatch steps (by default one pass over all rows) from their present state and keep
        the optimiser's; half of each batch are own rows, half public rows. Estimators with ``partial_fit`` take one
        pass over both together, but are refitted where there was no fit yet or a class is new, because scikit-learn
        fixes the classes at the first fit. All others are refitted on both together. Of public rows those whose label
        is -1 are not learnt from.
        """
        X = self._check_rows("X", X, self.num_features)
        y, present = _checks.check_labels("y", y, len(X), self.num_classes)
        if (X_public is None) != (y_public is None):
            missing = "X_public" if X_public is None else "y_public"
            raise DataError(explain(missing, "be given together with its counterpart", None))
        if steps is not None:
            check_whole("steps", steps, 1)
        if X_public is not None and y_public is not None and (np.asarray(y_public) != ABSTAIN).any():
            X_public = self._check_rows("X_public", X_public, X.shape[1])
            if not getattr(self.template, "leaves_unlabelled_out", False):  # those that do need no copy of the others
                labelled = np.asarray(y_public) != ABSTAIN
                if len(labelled) == len(X_public) and not labelled.all():
                    X_public, y_public = X_public[labelled], y_public[labelled]
            y_public, present_public = _checks.check_labels(
                "y_public", y_public, len(X_public), self.num_classes, unlabelled=True
            )
            present = np.union1d(present, present_public)
        else:
            X_public = y_public = None

        if self.takes_steps and (self.estimator is not None or len(present) > 1):
            if self.estimator is None:
                self.estimator, self._classes = _fresh(self.template), np.arange(self.num_classes)
            if X_public is None or y_public is None:
                X_public, y_public = X[:0], y[:0]
            self.estimator.update_steps(*map(self._lent, (X, y, X_public, y_public)), steps)
            self.num_features = X.shape[1]
            return self
        if X_public is not None and y_public is not None:
            X, y = np.concatenate((X, X_public)), np.concatenate((y, y_public))
        knows_all = self._classes is not None and bool(np.isin(present, self._classes).all())
        if self.estimator is not None and self.continues and knows_all:
            self.estimator.partial_fit(self._lent(X), self._lent(self._encode(y)))
        else:
            self._learn(X, y, present)
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[np.int16]:
        """Return the label of each row, int16 of shape (num_rows,), for rows as in `fit`.

        Raises `FedkdError` before the first fit, `DataError` if rows are not finite or have other columns, or the
        estimator's labels are not its classes.
        """
        classes = self.classes
        X = self._check_rows("X", X, self.num_features, allow_empty=True)
        if self.estimator is None or len(X) == 0:
            return np.full(len(X), classes[0], dtype=np.int16)
        source = place_of(self.estimator.predict)
        codes = _checks.check_answers(self.estimator.predict(self._lent(X)), len(X), len(classes), source=source)
        labels: NDArray[np.int16] = classes.astype(np.int16)[codes]
        return labels

    def accuracy(self, X: NDArray[Any], y: NDArray[np.integer]) -> float:
        """Return the share of rows whose predicted label is ``y``; needs at least one row. Raises as `predict`."""
        return float((self.predict(X) == y).mean())

    @property
    def gives_probabilities(self) -> bool:
        """Whether `predict_proba` holds more than the predicted label."""
        return callable(getattr(self.estimator, "predict_proba", None))

    def metrics(self, X: NDArray[Any], y: NDArray[np.integer]) -> Metrics:
        """Return how good the model is on labelled rows, as `fedkd_flwr.metrics.measure`. Raises as `predict`.

        A model without probabilities has none of the figures that need them; this includes one that is constant, or
        whose ``predict_proba`` fails.
        """
        labels, probs = self.predict(X), None
        if self.gives_probabilities:
            try:
                probs = self.predict_proba(X)
            except Exception as error:  # its labels can be measured all the same
                logger.warning("no metrics of probabilities: %s", error)
        return measure(np.asarray(y), labels, probs, num_classes=self.num_classes)

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class for each row, float64 of shape (num_rows, num_classes).

        Classes that were absent at the last fit have probability 0. Without ``predict_proba`` the predicted label has
        probability 1. Takes rows and raises as `predict`.
        """
        classes = self.classes
        X = self._check_rows("X", X, self.num_features, allow_empty=True)
        probs = np.zeros((len(X), self.num_classes))
        if len(X) == 0:
            return probs
        if self.estimator is None or not callable(getattr(self.estimator, "predict_proba", None)):
            probs[np.arange(len(X)), self.predict(X)] = 1.0
            return probs
        source = place_of(self.estimator.predict_proba)
        known = self.estimator.predict_proba(self._lent(X))
        probs[:, classes], uneven = _checks.check_probabilities(known, len(X), len(classes), source=source)
        if uneven and not self.scaled:
            self.scaled = {"where": source, "uneven": uneven, "rows": len(X)}
            words = "%s: %d of %d rows of probabilities do not sum to 1. They are divided by their sum."
            logger.warning(words, *self.scaled.values())
        return probs

    def _learn(
        self, X: NDArray[Any], y: NDArray[np.int64], present: NDArray[np.int64], **weights: NDArray[np.floating]
    ) -> None:
        estimator = None
        classes = present
        if len(present) > 1:
            estimator = _fresh(self.template)
            if self.keeps_label_space:
                classes = np.arange(self.num_classes)
            estimator.fit(self._lent(X), self._lent(self._encode(y, classes)), **weights)
        # set only now, so that a fit that raises leaves the classifier unchanged
        self.estimator, self._classes, self.num_features = estimator, classes, X.shape[1]

    def _lent(self, array: Any) -> Any:
        """Return what the estimator sees of an array."""
        return np.array(array) if self._lends_copies else array

    @property
    def _check_rows(self) -> Callable[..., NDArray[Any]]:
        return _checks.check_text_rows if self.takes_text else _checks.check_rows

    def _encode(self, y: NDArray[np.int64], classes: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return labels as positions among the known classes, because XGBoost >= 2 needs labels 0..k-1."""
        classes = self.classes if classes is None else classes
        if classes[-1] == len(classes) - 1:
            return y
        codes = np.zeros(self.num_classes, dtype=np.int64)
        codes[classes] = np.arange(len(classes))
        return codes[y]


def _fresh(template: Any) -> Any:
    try:
        return clone(template)
    except (TypeError, RuntimeError):  # no get_params, or a constructor that changes its arguments
        pass
    try:
        return copy.deepcopy(template)
    except Exception as error:  # a user's object may hold anything
        rule = "be copied for each fit (copy.deepcopy)"
        way_out = "Make in fit what cannot be copied, such as a lock or an open file, not in __init__."
        name = place_of(type(template).__init__)
        raise ConfigError(explain(f"What {name} makes", rule, cause(error), way_out)) from error
