"""What mechanisms check: their fields, and the counts they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_number, check_whole
from fedkd_flwr.errors import DataError, explain

__all__ = ["MOST_CLASSES", "check_reports", "check_votes", "set_number", "set_whole"]

MOST_CLASSES = 2**15 - 1
"""Labels are int16."""

_MOST_VOTES = 2**40


def set_number(owner: object, name: str, **rule: Any) -> None:
    """Check a field of a frozen mechanism as `check_number` does, and keep it as a float."""
    object.__setattr__(owner, name, check_number(name, getattr(owner, name), **rule))


def set_whole(owner: object, name: str, least: int, most: int | None = None) -> None:
    """Check a field of a frozen mechanism as `check_whole` does, and keep it as an int."""
    object.__setattr__(owner, name, check_whole(name, getattr(owner, name), least, most))


def _check_table(name: str, table: NDArray[Any], most: int) -> NDArray[np.int64]:
    """Return (rows, classes) whole numbers within ``0..most`` as int64."""
    array = np.asarray(table)
    if array.ndim != 2 or not array.shape[1] >= 2:
        raise DataError(explain(name, "have shape (rows, classes) with classes >= 2", f"shape {array.shape}"))
    if array.dtype.kind not in "iu":
        raise DataError(explain(name, "be integers", f"dtype {array.dtype}", "Give counts of votes, not shares."))
    if array.size and not (array.min() >= 0 and array.max() <= most):
        wrong = int(array.min()) if array.min() < 0 else int(array.max())
        raise DataError(explain(name, f"lie within 0..{most}", wrong))
    return array.astype(np.int64, copy=False)


def check_votes(counts: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return vote counts (rows, classes) as int64."""
    array = _check_table("counts", counts, _MOST_VOTES)
    if not array.shape[1] <= MOST_CLASSES:
        raise DataError(explain("counts", f"have at most {MOST_CLASSES} classes", array.shape[1]))
    return array


def check_reports(name: str, counts: NDArray[np.integer[Any]], num_classes: int, num_reports: int) -> NDArray[np.int64]:
    """Return counts of reports as int64, one column per class, each within ``0..num_reports``."""
    array = _check_table(name, counts, check_whole("num_reports", num_reports, error=DataError))
    if array.shape[1] != num_classes:
        raise DataError(explain(name, f"have {num_classes} columns, one per class", f"shape {array.shape}"))
    return array
