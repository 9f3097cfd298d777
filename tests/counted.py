"""Counts of records by loops, beside which vectorised ones are held."""

import numpy as np


def tables(rows: np.ndarray, sizes: tuple[int, ...], classes: int) -> np.ndarray:
    """Count by loops: rows of (value of each column, class)."""
    found = np.zeros((sum(sizes), classes), dtype=np.int64)
    for *values, label in rows.tolist():
        at = 0
        for value, size in zip(values, sizes, strict=True):
            found[at + value, label] += 1
            at += size
    return found
