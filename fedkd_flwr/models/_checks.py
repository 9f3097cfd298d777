"""Checks of what goes into models and comes out: finite rows or texts, and labels inside the label space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, DataError, explain
from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.labels.voting import check_labels as check_label_array

__all__ = ["check_answers", "check_labels", "check_probabilities", "check_rows", "check_targets", "check_text_rows"]


def check_rows(
    name: str, X: NDArray[Any], num_features: int | None = None, *, allow_empty: bool = False
) -> NDArray[Any]:
    """Return dense, finite rows, integers as float64; else `DataError` names the columns that are not finite."""
    X = np.asarray(X)
    if X.ndim != 2:
        way_out = "Sparse rows: pass X.toarray()." if X.dtype == object else ""
        raise DataError(explain(name, "be a dense array of shape (rows, columns)", str(X.shape), way_out))
    if X.shape[0] == 0 and not allow_empty:
        raise DataError(explain(name, "hold at least one row", str(X.shape)), code=Code.NO_ROWS)
    if X.shape[1] == 0:
        raise DataError(explain(name, "have at least one column", str(X.shape)))
    if num_features is not None and X.shape[1] != num_features:
        raise DataError(explain(name, f"have {num_features} columns, as at the fit", X.shape[1]))
    if X.dtype.kind in "iub":
        X = X.astype(np.float64)
    if X.dtype not in (np.float32, np.float64):
        way_out = "Raw texts need a model that says takes_text = True." if X.dtype.kind in "OUT" else ""
        raise DataError(explain(name, "hold float32 or float64", f"dtype {X.dtype}", way_out))
    if not (finite := np.isfinite(X)).all():
        columns = np.flatnonzero(~finite.all(axis=0))
        seen = f"NaN or infinity in column(s) {', '.join(map(str, columns[:10]))}{', ...' * (len(columns) > 10)}"
        raise DataError(explain(name, "be finite", seen, "Impute missing values first."))
    return X


def check_text_rows(
    name: str, X: NDArray[Any], num_features: int | None = None, *, allow_empty: bool = False
) -> NDArray[np.object_]:
    """Return rows of one text each, (n, 1), objects of type str; else `DataError` names the first row without one."""
    X = np.asarray(X)
    if X.dtype.kind not in "OUT" or X.ndim != 2 or X.shape[1] != 1:
        rule, seen = "hold one text per row, shape (rows, 1)", f"{X.dtype} of shape {X.shape}"
        way_out = "Several text columns: join them, as public.as_read_by(model) does."
        raise DataError(explain(name, rule, seen, way_out))
    if len(X) == 0 and not allow_empty:
        raise DataError(explain(name, "hold at least one row", str(X.shape)), code=Code.NO_ROWS)
    texts: NDArray[np.object_] = X.astype(object)
    if wrong := [row for row, text in enumerate(texts[:, 0]) if not isinstance(text, str)]:
        seen = f"{type(texts[wrong[0], 0]).__name__} at row {wrong[0]} ({len(wrong)} such rows)"
        raise DataError(explain(name, "hold texts", seen, "A missing text is the empty text."))
    return texts


def check_labels(
    name: str, y: NDArray[Any], num_rows: int, num_classes: int, *, unlabelled: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return labels as int64, and the classes among them; `DataError` outside ``0..num_classes-1`` (or -1)."""
    y = np.asarray(y)
    if y.shape != (num_rows,):
        raise DataError(explain(name, f"have shape ({num_rows},), as many labels as rows", str(y.shape)))
    way_out = "Leave rows without a label out; add new classes to the schema."
    least = ABSTAIN if unlabelled else 0
    check_label_array(y, num_classes=num_classes, name=name, least=least, way_out=way_out)
    y = y.astype(np.int64, copy=False)
    return y, np.flatnonzero(np.bincount(y[y >= 0] if unlabelled else y, minlength=num_classes))


def check_targets(
    name: str, targets: NDArray[Any], num_rows: int, num_classes: int, *, probabilities: bool
) -> NDArray[np.floating]:
    """Return a finite number per row and class; ``probabilities`` are >= 0 and sum to 1 within 0.001."""
    targets = np.asarray(targets)
    if targets.shape != (num_rows, num_classes):
        raise DataError(explain(name, f"have shape {(num_rows, num_classes)}, rows by classes", str(targets.shape)))
    if targets.dtype.kind in "iub":
        targets = targets.astype(np.float64)
    if targets.dtype not in (np.float32, np.float64):
        raise DataError(explain(name, "hold float32 or float64", f"dtype {targets.dtype}"))
    rules = [("be finite", np.isfinite(targets).all(axis=1))]
    if probabilities:
        with np.errstate(invalid="ignore", over="ignore"):
            sums = np.abs(targets.sum(axis=1, dtype=np.float64) - 1) <= 1e-3
        rules += [("be >= 0", (targets >= 0).all(axis=1)), ("sum to 1 in each row", sums)]
    for rule, holds in rules:
        if not holds.all():
            row = int(np.flatnonzero(~holds)[0])
            seen = (
                f"{targets[row, :10].tolist()}{' ...' * (num_classes > 10)} at row {row} ({(~holds).sum()} such rows)"
            )
            way_out = "Are they logits? Use the loss l1-logits." if probabilities and rule != "be finite" else ""
            raise DataError(explain(name, rule, seen, way_out))
    return targets


def check_answers(answers: Any, num_rows: int, num_codes: int, *, source: str = "") -> NDArray[np.integer]:
    """Return an estimator's labels, whole numbers within ``0..num_codes-1``; an error names their ``source``."""
    name, way_out = "The estimator's labels", source and f"{source} returned them."
    codes = np.asarray(answers)
    if codes.shape != (num_rows,):
        message = explain(name, f"have shape ({num_rows},)", codes.shape, way_out)
        raise DataError(message, code=Code.WRONG_MODEL_OUTPUT)
    fits = np.zeros(num_rows, dtype=bool)
    if codes.dtype.kind in "iuf":
        fits = (codes >= 0) & (codes < num_codes) & (codes == np.rint(codes))
    if not fits.all():
        row = int(fits.argmin())
        seen = f"{codes[row]!s:.80} at row {row} ({int((~fits).sum())} such rows)"
        message = explain(name, f"be integers within 0..{num_codes - 1}", seen, way_out)
        raise DataError(message, code=Code.WRONG_MODEL_OUTPUT)
    return codes.astype(np.int64, copy=False)


def check_probabilities(
    answers: Any, num_rows: int, num_codes: int, *, source: str = ""
) -> tuple[NDArray[np.floating], int]:
    """Return an estimator's probabilities, and of how many rows they did not sum to 1: these are divided by their sum.

    scikit-learn's naive Bayes answers [1, 1] where two classes are equally likely and both far away. Raise DataError
    unless each row has finite numbers >= 0, of which one is greater.
    """
    name, way_out = "The estimator's probabilities", source and f"{source} returned them."
    try:
        found = check_targets(name, np.asarray(answers), num_rows, num_codes, probabilities=False)
    except DataError as error:
        raise DataError(f"{error} {way_out}".strip(), code=Code.WRONG_MODEL_OUTPUT) from None
    with np.errstate(over="ignore"):
        sums = found.sum(axis=1, keepdims=True, dtype=np.float64)
    wrong = (found < 0).any(axis=1) | ~((sums > 0) & np.isfinite(sums))[:, 0]
    if wrong.any():
        row = int(wrong.argmax())
        seen = f"{found[row, :10].tolist()}{' ...' * (num_codes > 10)} at row {row} ({int(wrong.sum())} such rows)"
        message = explain(name, "be >= 0, and not all 0 in a row", seen, way_out)
        raise DataError(message, code=Code.WRONG_MODEL_OUTPUT)
    uneven = np.abs(sums - 1) > 1e-3
    return (np.where(uneven, found / sums, found), int(uneven.sum())) if uneven.any() else (found, 0)
