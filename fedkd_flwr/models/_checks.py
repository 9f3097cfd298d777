"""What every model may rely on: dense finite rows, and labels inside the label space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, DataError, explain

__all__ = ["check_labels", "check_rows"]


def check_rows(
    name: str, X: NDArray[Any], num_features: int | None = None, *, allow_empty: bool = False
) -> NDArray[Any]:
    """Return dense finite rows: float32 and float64 as they are, integers as float64.

    Raises
    ------
    DataError
        If they have another shape or type, or a value is not finite (the message names the columns).
    """
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
        raise DataError(explain(name, "hold float32 or float64", f"dtype {X.dtype}"))
    with np.errstate(over="ignore", invalid="ignore"):
        # one sum instead of a mask as large as the rows; it may overflow, so only a mask can accuse
        suspicious = not np.isfinite(X.sum())
    if suspicious and not np.isfinite(X).all():
        columns = np.flatnonzero(~np.isfinite(X).all(axis=0))
        seen = f"NaN or infinity in column(s) {', '.join(map(str, columns[:10]))}{', ...' * (len(columns) > 10)}"
        raise DataError(explain(name, "be finite", seen, "Impute missing values first."))
    return X


def check_labels(
    name: str, y: NDArray[Any], num_rows: int, num_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels as int64, and the sorted classes among them.

    Raises
    ------
    DataError
        If they are not integers within ``0..num_classes-1``, one per row.
    """
    y = np.asarray(y)
    if y.shape != (num_rows,):
        raise DataError(explain(name, f"have shape ({num_rows},), as many labels as rows", str(y.shape)))
    if y.dtype.kind not in "iu":
        raise DataError(explain(name, "hold integers", f"dtype {y.dtype}"))
    if y.min() < 0 or y.max() >= num_classes:
        outside = np.flatnonzero((y < 0) | (y >= num_classes))
        raise DataError(
            explain(
                name,
                f"hold labels within 0..{num_classes - 1}",
                f"{y[outside[0]]} at row {outside[0]} ({len(outside)} such rows)",
                "Leave rows without a label out; add new classes to the schema.",
            ),
            code=Code.CLASS_OUTSIDE_SCHEMA,
        )
    y = y.astype(np.int64, copy=False)
    return y, np.flatnonzero(np.bincount(y, minlength=num_classes))
