"""How good a model is on labelled rows: figures as scikit-learn defines them, none without its number of rows.

`measure` computes them. `Metrics.shared` is what a party lets out of them, and `Metrics.opened` reads what it sent.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import ConfigError, DataError, explain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BINS", "MOST_CLASSES", "NAMES", "RARE", "SCORE_BINS", "Metrics", "check_names", "imbalanced", "measure"]

RARE = 1 / 3  # of an equal share: a class with less is rare
BINS = 15  # of equal width, for calibration, as in Guo et al.
SCORE_BINS = 50  # of equal width, for the probability of class 1 where there are two classes
MOST_CLASSES = 100  # of more classes no confusion matrix is kept

_BY_CLASS = ("precision", "recall", "f1")
_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_Positive = Annotated[float, Field(ge=0.0, le=1e300)]
_Finite = Annotated[float, Field(ge=-1e300, le=1e300)]
_Count = Annotated[int, Field(ge=0)]
_Some = Annotated[int, Field(ge=1, le=2**31)]
_Scored = tuple[Annotated[int, Field(ge=0, lt=SCORE_BINS)], _Count, _Count]


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Figures of one model on one set of labelled rows. None, or an empty list: not known, or not shared.

    Lists by class have the length C, with None for a class that is held back. A class without test rows has support 0,
    and the figures 0 that say nothing about it. `measure` says how each figure is defined.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    n: _Some  # test rows, 1 or more
    accuracy: _Share | None = None  # share of rows that are right
    baseline: _Share | None = None  # accuracy of always answering the commonest class
    balanced_accuracy: _Share | None = None  # mean recall of the classes that occur in these rows
    macro_f1: _Share | None = None  # mean F1 of the classes that occur in these rows or are predicted
    roc_auc: _Share | None = None  # of class 1; of more than two classes each against the others, their mean
    average_precision: _Share | None = None  # of class 1; of more than two classes each against the others, their mean
    log_loss: Annotated[float, Field(ge=0.0, le=50.0)] | None = None  # in nats, 0 or more
    brier: Annotated[float, Field(ge=0.0, le=2.0)] | None = None  # 0 to 1 with two classes, 0 to 2 with more
    calibration_error: _Share | None = None  # expected calibration error, 0 to 1
    rmse: _Positive | None = None  # of numbers and grades: root of the mean squared error, in their unit
    mae: _Positive | None = None  # their mean absolute error
    r2: Annotated[float, Field(ge=-1e300, le=1.0)] | None = None  # share of their variance that is explained
    precision: list[_Share | None] = field(default_factory=list)  # by class
    recall: list[_Share | None] = field(default_factory=list)  # by class
    f1: list[_Share | None] = field(default_factory=list)  # by class
    support: list[_Count | None] = field(default_factory=list)  # test rows of each class
    # rows are true classes, columns predicted ones; empty with more than `MOST_CLASSES` classes
    confusion: list[list[_Count] | None] = field(default_factory=list)
    # of two classes: (k, rows of class 0, rows of class 1) whose probability of class 1 is in [k/50, (k+1)/50)
    score_counts: list[_Scored] = field(default_factory=list)
    pairs: list[tuple[_Finite, _Finite, _Some]] = field(default_factory=list)  # (true, predicted, rows) on a grid
    no_probabilities: bool = False  # the model gives no finite probabilities, so that what needs them is not known

    def as_dict(self) -> dict[str, Any]:
        """Return what is known as plain JSON types."""
        # not by equality: 0.0 equals False, and the accuracy of a model that is never right is known
        known = vars(self).items()
        return {name: value for name, value in known if value is not None and value is not False and value != []}

    def shared(self, names: Collection[str], *, min_support: int = 0) -> Metrics | None:
        """Return only the figures that are named, some of `NAMES`, with their number of rows; None if there are none.

        A figure of a class with fewer than ``min_support`` test rows is held back. If the others and ``n`` would give
        the number of held-back rows away, because it is a single class or still fewer rows, the next rarest class is
        held back too. Where all classes are, so are ``baseline``, which counts the commonest class, ``score_counts``,
        and ROC AUC and average precision, which are class 1's own figures if there are two.

        >>> found = Metrics(n=30, accuracy=0.9, recall=[1.0, 0.8, 0.5], support=[16, 10, 4])
        >>> found.shared(["recall"], min_support=10).as_dict()
        {'n': 30, 'recall': [1.0, None, None], 'support': [16, None, None]}
        """
        chosen = {name.replace("-", "_") for name in names} - {"model"}
        held = self._held_back(min_support)
        if held and len(held) == len(self.support):
            chosen -= {"baseline", "roc_auc", "average_precision", "score_counts"}
        if chosen & {*_BY_CLASS, "confusion"}:
            chosen.add("support")
        kept: dict[str, Any] = {name: getattr(self, name) for name in chosen}
        for name in (*_BY_CLASS, "support", "confusion"):
            if name in kept:
                kept[name] = [None if c in held else value for c, value in enumerate(kept[name])]
        if "pairs" in kept:  # a pair of few rows would show single ones
            kept["pairs"] = [one for one in self.pairs if one[2] >= min_support]
        found = Metrics(n=self.n, **kept)
        return None if len(found.as_dict()) == 1 else dataclasses.replace(found, no_probabilities=self.no_probabilities)

    def _held_back(self, min_support: int) -> set[int]:
        order = sorted(range(len(self.support)), key=lambda c: (self.support[c] or 0, c))
        sizes = [self.support[c] or 0 for c in order]
        count = sum(size < min_support for size in sizes)
        while 0 < count < len(order) and (count == 1 or sum(sizes[:count]) < min_support):
            count += 1
        return set(order[:count])

    def to_bytes(self) -> bytes:
        """Return what is known as JSON text in UTF-8."""
        return json.dumps(self.as_dict(), separators=(",", ":"), allow_nan=False).encode()

    @classmethod
    def opened(cls, data: object, *, num_classes: int) -> Metrics | None:
        """Return what `to_bytes` wrote, or None if any of it has a wrong type, size or range.

        >>> Metrics.opened(b'{"n": 4, "accuracy": 0.5}', num_classes=2)  # doctest: +ELLIPSIS
        Metrics(n=4, accuracy=0.5, baseline=None, ...)
        >>> Metrics.opened(b'{"accuracy": 0.5}', num_classes=2) is Metrics.opened(b'{"n": 4, "f1": [2]}', num_classes=2)
        True
        """
        cells = 2500 + (num_classes**2 if num_classes <= MOST_CLASSES else 0)  # pairs are of a grid, 625 at most
        if not isinstance(data, bytes) or len(data) > 4096 + 128 * num_classes + 12 * cells:
            return None
        try:
            found = _reader().validate_json(data)
        except ValidationError:
            return None
        return found if _fits(found, num_classes) else None


@cache
def _reader() -> TypeAdapter[Metrics]:
    return TypeAdapter(Metrics)


def _fits(found: Metrics, num_classes: int) -> bool:
    """Tell whether figures from the wire fit each other, as those that `measure` returns do."""
    by_class = [values for values in (*(getattr(found, name) for name in _BY_CLASS), found.confusion) if values]
    held = [x is None for x in found.support]  # a class is held back in all lists, or in none
    counted, scored = sum(x or 0 for x in found.support), sum(a + b for _, a, b in found.score_counts)
    return (
        len(held) == (num_classes if by_class or held else 0)
        and all([x is None for x in values] == held for values in by_class)
        and (counted == found.n if held and not any(held) else counted <= found.n)
        and (not found.confusion or num_classes <= MOST_CLASSES)
        and all(row is None or (len(row) == num_classes and sum(row) <= found.n) for row in found.confusion)
        and scored in (0, found.n if num_classes == 2 else 0)
        and all(a + b for _, a, b in found.score_counts)
        and all(a[0] < b[0] for a, b in itertools.pairwise(found.score_counts))
        and all(rows <= found.n for *_, rows in found.pairs)
    )


NAMES = (
    *(
        one.name.replace("_", "-")
        for one in dataclasses.fields(Metrics)
        if one.name not in ("n", "support", "no_probabilities")
    ),
    "model",
)
"""What a node may name in ``share-metrics``; ``model`` stands for its model's name and size."""


def imbalanced(counts: Iterable[int]) -> bool:
    """Tell whether the rarest class that occurs has less than `RARE` of an equal share of the rows.

    Where it has, accuracy praises who never finds that class, and balanced accuracy is compared and shown first.

    >>> imbalanced([9, 1, 0]), imbalanced([3, 1]), imbalanced([])
    (True, False, False)
    """
    occurring = [count for count in counts if count > 0]
    return bool(occurring) and min(occurring) * len(occurring) < RARE * sum(occurring)


def check_names(names: Collection[str]) -> frozenset[str]:
    """Return the names of metrics that may leave a party.

    Raises `ConfigError` if a name is unknown.
    """
    if isinstance(names, str | bool):  # a text is a collection too: of letters
        raise ConfigError(explain("share-metrics", "be a collection of names, no text", names, 'Give ["accuracy"].'))
    return frozenset(check_choice("share-metrics", name, NAMES) for name in names)


def measure(
    y: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]], probs: NDArray[Any] | None, *, num_classes: int
) -> Metrics:
    """Return the figures of a model's answers for labelled rows.

    ``y`` and ``labels``, (n,), are true and predicted classes, n is 1 or more. ``probs``, (n, num_classes), is None, or
    the probability of each class: where a value is negative or NaN, or a row does not sum to 1 to 0.001, what needs
    them is left out, and ``no_probabilities`` is True. Raises `DataError` if there are no rows, or the shapes differ.

    All but the calibration error equal scikit-learn's functions with ``zero_division=0`` (tests). Those check their
    arrays in each of many steps, which takes far longer than the figures, and every party measures several models.
    Where a class has no test row, the means of ROC AUC and average precision leave it out (scikit-learn's have no value
    then). The expected calibration error (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, equation
    3) has `BINS` bins ((k-1)/15, k/15] of confidence, which is the probability that a model gives to the class it
    predicts: the sum over bins of ``count / n * |share right - mean confidence|``.

    >>> import numpy as np
    >>> found = measure(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]), None, num_classes=2)
    >>> found.accuracy, found.baseline, found.balanced_accuracy, found.recall, found.confusion
    (0.75, 0.75, 0.5, [1.0, 0.0], [[3, 0], [1, 0]])
    """
    import numpy as np

    n = len(y)
    if not (n and y.shape == labels.shape == (n,) and (probs is None or probs.shape == (n, num_classes))):
        seen = f"y {y.shape}, labels {labels.shape}, probs {None if probs is None else probs.shape}"
        raise DataError(explain("test rows", f"be (n,), (n,) and (n, {num_classes}) with n >= 1", seen))
    cells = np.bincount(np.asarray(y, dtype=np.int64) * num_classes + labels, minlength=num_classes**2)
    confusion = cells.reshape(num_classes, num_classes)
    right, support, predicted = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
    # a class without such rows has no right ones either, so that its figure is 0
    precision, recall = right / np.maximum(predicted, 1), right / np.maximum(support, 1)
    f1 = 2 * right / np.maximum(predicted + support, 1)
    seen_classes = predicted + support > 0
    figures: dict[str, Any] = {"no_probabilities": True}
    # a comparison with NaN is false, so that such probabilities do not count either
    if probs is not None and (probs >= 0).all() and (np.abs(probs.sum(axis=1) - 1.0) <= 1e-3).all():
        figures = _from_probabilities(y, labels, np.asarray(probs, dtype=np.float64), support)
    return Metrics(
        n=n,
        accuracy=float(right.sum() / n),
        baseline=float(support.max() / n),
        balanced_accuracy=float(recall[support > 0].mean()),
        macro_f1=float(f1[seen_classes].mean()),
        precision=precision.tolist(),
        recall=recall.tolist(),
        f1=f1.tolist(),
        support=support.tolist(),
        confusion=[*confusion.tolist()] if num_classes <= MOST_CLASSES else [],
        **figures,
    )


def _from_probabilities(
    y: NDArray[Any], labels: NDArray[Any], probs: NDArray[np.float64], support: NDArray[Any]
) -> dict[str, Any]:
    import numpy as np

    n, num_classes = probs.shape
    figures: dict[str, Any] = {}
    classes = [1] if num_classes == 2 else range(num_classes)
    ranked = [_ranking(y == c, probs[:, c]) for c in classes if 0 < support[c] < n]
    if ranked:
        figures["roc_auc"], figures["average_precision"] = map(float, np.mean(ranked, axis=0))
    # written out: scikit-learn's log_loss warns where float32 probabilities do not sum to 1 in float64, and its
    # brier_score_loss knows more than two classes from 1.7 on only
    eps = np.finfo(np.float64).eps
    figures["log_loss"] = float(-np.log(np.clip(probs[np.arange(n), y], eps, 1.0 - eps)).mean())
    wrong = (probs - (y[:, None] == np.arange(num_classes))) ** 2
    figures["brier"] = float((wrong[:, 1] if num_classes == 2 else wrong.sum(axis=1)).mean())

    confidence, right = probs[np.arange(n), labels], y == labels
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    count = np.bincount(bins)
    held = np.flatnonzero(count)
    sure = np.bincount(bins, confidence)[held] / count[held]
    share = np.bincount(bins, right)[held] / count[held]
    figures["calibration_error"] = float((count[held] / n) @ np.abs(share - sure))
    if num_classes == 2:
        at = np.clip(np.floor(probs[:, 1] * SCORE_BINS + 1e-9).astype(int), 0, SCORE_BINS - 1)
        counts = np.stack([np.bincount(at[y == c], minlength=SCORE_BINS) for c in (0, 1)], axis=1)
        figures["score_counts"] = [(k, int(a), int(b)) for k, (a, b) in enumerate(counts) if a or b]
    return figures


def _ranking(hit: NDArray[np.bool_], score: NDArray[np.float64]) -> tuple[float, float]:
    """Return ROC AUC and average precision of one class against the others."""
    import numpy as np

    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.diff(score[order], append=-1.0))  # the last row of each score
    hits = np.cumsum(hit[order])[ends]
    recall, others = np.append(0.0, hits / hits[-1]), np.append(0, ends + 1 - hits)
    gained = np.diff(recall)
    area = np.diff(others) @ (recall[1:] + recall[:-1]) / (2.0 * others[-1])
    return float(area), float(gained @ (hits / (ends + 1)))
