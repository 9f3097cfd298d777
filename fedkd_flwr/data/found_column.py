"""One column of a messy table while it is looked at: its distinct texts, and what is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.cell_rules import NumberSigns
from fedkd_flwr.data.columns import counted, factorize
from fedkd_flwr.data.dates import in_words
from fedkd_flwr.data.reading import PLAIN, Reading
from fedkd_flwr.data.rules import mark

__all__ = ["EXCEL_DAYS", "FEW_TEXTS", "Cells", "ColumnLook", "Mask", "excel_day"]

EXCEL_DAYS = range(25_569, 55_154)
"""1970 to 2050, as Excel counts days."""

FEW_TEXTS = 20
"""More different words among numbers are not listed."""

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


@dataclass(kw_only=True)
class ColumnLook:
    """One column while it is looked at."""

    name: str
    kind: str = "numeric"  # or categorical, text, left out
    reading: Reading = PLAIN
    categories: tuple[str, ...] = ()
    shapes: Counter[str] = field(default_factory=NumberSigns)  # of its numbers
    looked: Callable[[str], ColumnLook] | None = None  # looks again, once the file's decimal sign is known
    repaired: int = 0
    missing: int = 0
    notes: list[str] = field(default_factory=list)
    example: str = ""  # the first cell that needs a rule
    identifies: bool = False
    droppable: bool = False  # a note says that the user may drop it
    asks: bool = False  # what does not fit its rule is no name, though nearly all cells may differ
    problem: str = ""
    choices: dict[str, dict[str, str]] = field(default_factory=dict)  # what a cell may mean -> rules that say so
    change: dict[str, str] = field(default_factory=dict)  # rules that solve the problem

    @property
    def read_as(self) -> str:
        """What the column became, in words."""
        if self.kind == "categorical":
            return f"{len(self.categories):,} categor{'y' if len(self.categories) == 1 else 'ies'}"
        if self.kind != "numeric":
            return self.kind
        rule = self.reading
        if rule.dates:
            becomes = in_words(rule.dates).rpartition(" as ")[2]
            return becomes if rule.dates == "time" else f"{becomes} ({rule.dates})"
        words = [f"unit {rule.unit}"] if rule.unit else []
        words += ["decimal comma"] if rule.decimal == "," else []
        words += [f"thousands {rule.thousands!r}"] if rule.thousands else []
        return f"numbers ({', '.join(words)})" if words else "numbers"

    def may_drop(self, why: str) -> None:
        """Note why a model may be better without this column."""
        self.droppable = True
        self.notes.append(f"{why} ({mark('drop', self.name)} leaves it out)")

    def say_empty(self, cells: Cells, which: Mask) -> None:
        """Note the known words for "no value" among numbers, such as a dash."""
        if which.any():
            self.notes.append(f"{counted(cells.number(which), 'cell')} read as empty: {cells.shown(which)}")

    def leave_out(self, why: str, missing: int) -> ColumnLook:
        """Leave the column out, and return it."""
        self.kind, self.missing, self.repaired, self.change, self.notes = "left out", missing, 0, {}, [why]
        return self

    def words_rule(self, words: list[str]) -> str:
        """Return the rule that reads some words of this column as empty; "" where a list cannot hold one of them."""
        usable = 0 < len(words) <= FEW_TEXTS and not any("," in word for word in (*words, self.name))
        return ",".join(f"{self.name}:{word}" for word in words) if usable else ""


def excel_day(number: int) -> str:
    """Return the day that a number means in Excel.

    >>> excel_day(44267)
    '2021-03-12'
    """
    return f"{date.fromordinal(date(1899, 12, 30).toordinal() + number)}"
