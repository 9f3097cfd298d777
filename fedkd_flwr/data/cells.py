"""The cells of one column of texts: each distinct text once, with how many cells and which rows hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import factorize

__all__ = ["Cells", "Mask"]

Mask = NDArray[np.bool_]
"""Which of the distinct texts are meant."""


@dataclass(frozen=True)
class Cells:
    """The distinct texts of a column, how many cells hold each, and the position of each row's text (-1: empty)."""

    texts: list[str]
    counts: NDArray[np.intp]
    codes: NDArray[np.intp]

    @classmethod
    def of(cls, values: pd.Series[Any]) -> Cells:
        """Return the cells of a column."""
        codes, distinct = factorize(values)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
        return cls([str(value).strip() for value in distinct], counts, codes)

    def chosen(self, which: Mask) -> list[str]:
        """Return some of the texts."""
        return [self.texts[i] for i in np.flatnonzero(which)]

    def number(self, which: Mask) -> int:
        """Return how many cells hold one of some texts."""
        return int(self.counts[which].sum())

    def rows(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each row the number of its text, NaN where it has none."""
        return np.append(numbers, np.nan)[self.codes]

    def shown(self, which: Mask, most: int = 3) -> str:
        """Name the first cells of some texts, with their rows, which count from 1 below the header."""
        rows = np.flatnonzero(np.append(which, False)[self.codes])
        first: dict[str, int] = {}
        for row in rows[:1000]:
            first.setdefault(self.texts[self.codes[row]], int(row) + 1)
            if len(first) == most:
                break
        return ", ".join(f"{text[:40]!r} in row {row}" for text, row in first.items())
