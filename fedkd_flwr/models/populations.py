"""For whom a model answers: for the class shares that it was taught with, its owner's, the federation's, or others."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.priors import class_shares, posteriors
from fedkd_flwr.labels.target import Target
from fedkd_flwr.labels.voting import ABSTAIN, Labels
from fedkd_flwr.metrics import Metrics, measure
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.estimators import ByValues

__all__ = ["POPULATIONS", "Answering", "learnt_shares", "weighs_classes"]

POPULATIONS = ("taught", "own", "common")
"""Whose class shares a model may carry: those of what it learnt from, its owner's rows, and the federation's."""


@dataclass(frozen=True)
class Answering:
    """A fitted model that answers for a population with these class shares, where it can; else as it was taught.

    It cannot where it does not carry the shares it was taught with, gives no probabilities, or knows one class only.
    ``shares``, (num_classes,) float64, are > 0 only for classes that the model carries a share of; None: as taught. Of
    a regressor that knows its owner's rows they are one number, 1 for rows like these, or 0. ``target`` says what
    classes stand for that have an order.
    """

    model: Classifier
    shares: NDArray[np.float64] | None
    target: Target | None = None

    @property
    def moves(self) -> bool:
        """Whether answers are other than the model's own."""
        return self.shares is not None and "taught" in self.model.shares and self.model.gives_probabilities

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class; rows, shapes and errors as `Classifier.predict_proba`."""
        model, shares = self.model, self.shares if self.moves else None
        if isinstance(model.estimator, ByValues) and shares is not None:
            model = copy(model)
            model.estimator = copy(model.estimator)
            model.estimator.home, shares = float(shares[0]), None
        probs = model.predict_proba(X)
        return probs if shares is None else posteriors(probs, taught=self.model.shares["taught"], shares=shares)

    def predict(self, X: NDArray[Any]) -> NDArray[np.int16]:
        """Return the label of each row; rows, shapes and errors as `Classifier.predict`."""
        return self.predict_proba(X).argmax(axis=1).astype(np.int16) if self.moves else self.model.predict(X)

    def metrics(self, X: NDArray[Any], y: NDArray[np.integer], numbers: NDArray[np.floating] | None = None) -> Metrics:
        """Return how good the answers are; ``numbers`` (n,) are those that classes are bins of."""
        target = self.target
        if not self.moves:
            found = self.model.metrics(X, y)
        else:
            probs = self.predict_proba(X)
            labels = probs.argmax(axis=1).astype(np.int16)
            found = measure(np.asarray(y), labels, probs, num_classes=self.model.num_classes)
        if target is None or (target.is_number and numbers is None):
            return found
        truth = np.array(target.values)[y] if numbers is None else numbers
        return replace(found, **target.figures(truth, target.numbers(self.predict_proba(X))))


def learnt_shares(
    model: Classifier,
    y: NDArray[np.integer[Any]],
    labels: Labels | None,
    probs: NDArray[np.floating] | None = None,
    *,
    known: Sequence[float] | None = (),
) -> dict[str, Any]:
    """Return the class shares of a model that learnt from own rows and labelled public rows, by `POPULATIONS`.

    Nothing where the model weighs its classes: its owner chose the population then. Nets learn as much from all own
    rows as from all public ones, others from each row alike. ``labels`` (num_public,), ``ABSTAIN`` where there is none,
    or ``probs``, are what the party knows of the federation's shares; without any it learnt from its own rows alone.
    ``known``: those shares, where its schema says them; None beside noise, which makes shares of labels even.
    """
    if getattr(model.estimator, "marked_", False):  # of a regressor: whether it answers for rows like its owner's
        return {name: np.array([float(name == "own")]) for name in POPULATIONS}
    if weighs_classes(model):
        return {}
    own = np.bincount(y, minlength=model.num_classes)
    if labels is None or not (labels != ABSTAIN).any():
        return {"taught": class_shares(own), "own": class_shares(own)}
    public: NDArray[Any] = np.bincount(labels[labels != ABSTAIN], minlength=model.num_classes)
    if probs is not None:
        public = probs[labels != ABSTAIN].sum(axis=0)
    weight = own.sum() / public.sum() if model.takes_steps else 1.0
    common = {} if known is None else {"common": np.array(known) if known else class_shares(public)}
    return {"taught": class_shares(own + weight * public), "own": class_shares(own), **common}


def weighs_classes(model: Classifier) -> bool:
    """Tell whether probabilities are of other class shares than the rows': of weighed classes, or made of numbers."""
    estimator = model.template
    if isinstance(estimator, ByValues):
        return True
    params = estimator.get_params() if callable(getattr(estimator, "get_params", None)) else {}
    weights = (params[name] for name in params if name.rpartition("__")[2] in ("class_weight", "scale_pos_weight"))
    return any(not (weight is None or (isinstance(weight, int | float) and weight == 1)) for weight in weights)
