"""The cells of one column of a messy table, and the rule by which its texts are numbers, dates or durations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import factorize
from fedkd_flwr.data.dates import ALONE, DATES
from fedkd_flwr.data.reading import EMPTY_WORDS, PLAIN, Reading
from fedkd_flwr.data.rules import Rules, spelt
from fedkd_flwr.errors import explain

__all__ = ["FEW_TEXTS", "Cells", "ColumnLook", "Mask", "NumberSigns", "are_compact_dates", "date_rule", "number_rule"]

_SAMPLE = 2000
_FEW_WORDS = 0.05
_FEW_DATES = 3  # fewer different numbers may be codes that look like dates by chance
_COMPACT = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_SPACED = re.compile(r"(?<=\d)[ \u00a0\u2009\u202f](?=\d{3}(?!\d))")
_CELL = re.compile(
    r"(?:(?:[<>]=?|[≤≥])\s*)?(?P<before>[$€£¥])?\s*(?P<body>[+-]?(?:\d[\d.,' \u00a0\u2009\u202f]*\d|\d|[.,]\d+))"
    r"(?P<exponent>[eE][+-]?\d+)?\s*(?P<behind>[%‰°$€£¥µμ]?[A-Za-z/%²³µμ°]*)"
)
_SHAPES = {  # what the signs in the digits of a number say; the first that fits
    "whole": re.compile(r"[+-]?\d+"),
    "thousands-comma": re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+|[+-]?\d{1,3}(,\d{3}){2,}"),
    "thousands-point": re.compile(r"[+-]?\d{1,3}(\.\d{3})+,\d+|[+-]?\d{1,3}(\.\d{3}){2,}"),
    "comma?": re.compile(r"[+-]?[1-9]\d{0,2},\d{3}"),
    "point?": re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}"),
    "comma": re.compile(r"[+-]?\d*,\d*"),
    "point": re.compile(r"[+-]?\d*\.\d*"),
}


def are_compact_dates(values: Sequence[Any] | NDArray[Any]) -> bool:
    """Tell whether numbers are dates such as 20210312: nearly all of them, within 1900 to 2099.

    Of all numbers with eight digits one in a thousand is such a date.
    """
    dates = sum(bool(_COMPACT.match(str(value))) for value in values[:_SAMPLE])
    if dates < _FEW_DATES or dates < (1 - _FEW_WORDS) * len(values[:_SAMPLE]):
        return False
    _, bad = Reading(dates="compact").parse(values)
    return int(bad.sum()) <= _FEW_WORDS * len(values)


class NumberSigns(Counter[str]):
    """How many texts have which signs in their digits, by the names of `_SHAPES`; what is no number is "none"."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        super().__init__()
        self.units: set[str] = set()
        self.groups: set[str] = set()  # the signs between thousands, other than points and commas
        for text in texts[:_SAMPLE]:
            self._add(text)
        for text in texts[_SAMPLE:] if (self["comma?"] or self["point?"]) and not self.sign else ():
            self._add(text)  # one cell may say what all others mean

    def _add(self, text: str) -> None:
        found = _CELL.fullmatch(text.replace("\u2212", "-"))
        if not found:
            self["none"] += 1
            return
        if unit := found["before"] or found["behind"]:
            self.units.add(unit)
        body = found["body"]
        if _SPACED.search(body):
            body = _SPACED.sub("", body)
            self.groups.add(" ")
        if re.match(r"[+-]?\d{1,3}('\d{3})+", body):
            body = body.replace("'", "")
            self.groups.add("'")
        shape = next((name for name, pattern in _SHAPES.items() if pattern.fullmatch(body)), "none")
        self[shape.rstrip("?") if found["exponent"] else shape] += 1  # before an exponent stand no thousands

    @property
    def unit(self) -> str:
        """The unit of all numbers, in the plural where both forms are there; "" if they have several or none."""
        units = {unit for unit in self.units if f"{unit}s" not in self.units or not unit.isalpha()}
        return next(iter(units)) if len(units) == 1 else ""

    @property
    def sign(self) -> str:
        """The sign before decimals, as far as these numbers tell; "" if they do not."""
        if self["comma"] and not self["thousands-comma"]:
            return ","
        if self["thousands-comma"] or self["point"]:
            return "."
        return "," if self["thousands-point"] else ""

    @property
    def are_numbers(self) -> bool:
        """Whether at least half of the texts look like numbers."""
        return self["none"] <= self.total() / 2


def number_rule(signs: NumberSigns, decimal: str) -> Reading:
    """Return the rule by which texts with these signs are numbers; ``decimal`` is the sign of the file, "" if open."""
    decimal = decimal or "."
    thousands = min(signs.groups, default="")
    if decimal == "," and not signs["point"] and (signs["thousands-point"] or signs["point?"]):
        thousands = "."
    elif decimal == "." and not signs["comma"] and (signs["thousands-comma"] or signs["comma?"]):
        thousands = ","
    return Reading(decimal=decimal, thousands=thousands, unit=signs.unit)


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
    repaired: int = 0
    missing: int = 0
    notes: list[str] = field(default_factory=list)
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
            becomes = DATES[rule.dates].rpartition(" as ")[2]
            return becomes if rule.dates in ALONE else f"{becomes} ({rule.dates})"
        words = [f"unit {rule.unit}"] if rule.unit else []
        words += ["decimal comma"] if rule.decimal == "," else []
        words += [f"thousands {rule.thousands!r}"] if rule.thousands else []
        return f"numbers ({', '.join(words)})" if words else "numbers"

    def may_drop(self, why: str) -> None:
        """Note why a model may be better without this column."""
        self.droppable = True
        self.notes.append(f"{why} ({spelt('drop', self.name)} leaves it out)")

    def leave_out(self, why: str, missing: int) -> ColumnLook:
        """Leave the column out, and return it."""
        self.kind, self.missing, self.repaired, self.change, self.notes = "left out", missing, 0, {}, [why]
        return self

    def words_rule(self, words: list[str]) -> str:
        """Return the rule that reads some words of this column as empty; "" where a list cannot hold one of them."""
        usable = 0 < len(words) <= FEW_TEXTS and not any("," in word for word in (*words, self.name))
        return ",".join(f"{self.name}:{word}" for word in words) if usable else ""


def date_rule(seen: ColumnLook, texts: list[str], rules: Rules) -> Reading | None:
    """Return the rule for dates, times or durations that most texts fit, None if there is none.

    If day and month cannot be told apart, that is the column's ``problem``.
    """
    sample = [text for text in texts[:_SAMPLE] if text.casefold() not in EMPTY_WORDS]
    if not sample:
        return None
    unread = {way: Reading(dates=way).distinct(sample)[1] for way in DATES}
    best = min(unread, key=lambda way: int(unread[way].sum()))
    if 5 * unread[best].sum() > len(sample):
        return None
    if best not in ("day-first", "month-first"):
        return Reading(dates=best)
    dates = [text for text, bad in zip(sample, unread[best], strict=True) if not bad]
    if all(re.match(r"\d{1,2}\.", text) for text in dates):  # with points, the day comes first everywhere
        return Reading(dates="day-first")
    day, month = (Reading(dates=one).distinct(texts)[1].sum() for one in ("day-first", "month-first"))
    if day != month:
        return Reading(dates="day-first" if day < month else "month-first")
    if rules.date_order:
        return Reading(dates=rules.date_order)
    rule, found = "hold dates that can be read in one way", f"{dates[0]!r} and no day above 12"
    seen.problem = explain(f"column {seen.name!r}", rule, found)
    first = {f"If the day comes first in {dates[0]}": {"date-order": "day-first"}}
    seen.choices = first | {"If the month comes first": {"date-order": "month-first"}}
    return None
