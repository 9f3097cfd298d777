"""Try a rule on the texts of a column, and say which cells it reads, which are empty and which do not fit it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.data.cell_rules import NumberSigns
from fedkd_flwr.data.cells import Cells, Mask
from fedkd_flwr.data.found_column import EXCEL_DAYS, FEW_TEXTS, ColumnLook, excel_day
from fedkd_flwr.data.reading import LIMIT, PLAIN, Reading, in_words
from fedkd_flwr.data.rules import Rules, mark
from fedkd_flwr.data.written import ends_of_range

__all__ = ["read_by", "shape_of"]

_FEW_NUMBERS = 10  # a column with fewer different numbers may hold codes
_FEW_WORDS = 0.05  # greatest share of cells that are no number in a column of numbers


@dataclass
class TriedRule:
    """What a rule makes of the texts of a column."""

    cells: Cells
    reading: Reading

    def __post_init__(self) -> None:
        texts = self.cells.texts
        self.numbers, self.bad = self.reading.distinct(texts)
        bounds = [bool(LIMIT.match(text) or ends_of_range(text)) for text in texts]
        self.limited: Mask = np.array(bounds, dtype=bool) & ~self.bad & bool(self.reading.limits)
        self.good: Mask = ~np.isnan(self.numbers) & ~self.bad & ~self.limited
        known = self.good | self.bad | self.limited
        self.share = self.cells.number(self.bad) / max(self.cells.number(known), 1)  # of cells that are no number
        self.distinct = len(np.unique(self.numbers[self.good]))
        self.many = self.distinct >= _FEW_NUMBERS

    @property
    def reads(self) -> bool:
        """Whether the column is one of numbers by this rule: all cells are, or nearly all of many different ones."""
        ranges = self.limited.any() and not self.bad.any() and self.reading.limits != "number"
        if not self.limited.any() and not self.bad.any():
            return bool(self.good.any())
        number = self.cells.number
        beside = self.distinct >= 3 and 5 * number(self.good) >= number(self.good | self.limited)
        if ranges and (beside or int(self.limited.sum()) > FEW_TEXTS):
            return True
        enough = self.many and 2 * number(self.good) >= number(self.bad)
        return enough and self.share <= _FEW_WORDS and int(self.bad.sum()) <= 50


def read_by(seen: ColumnLook, cells: Cells, reading: Reading, rules: Rules) -> NDArray[np.float64] | None:
    """Read the cells of a column by a rule, and say so; return each row's number, None where too many do not fit it."""
    tried = TriedRule(cells, replace(reading, limits="" if reading.dates else rules.limits))
    if not reading.dates and not rules.limits and tried.bad.any():
        ways = [TriedRule(cells, replace(reading, limits=way)) for way in ("number", "middle")]
        with_limits = next((one for one in ways if one.limited.any() and one.reads), None)
        tried = with_limits or (ways[0] if ways[0].limited.any() else tried)
    if tried.reads:
        words = cells.chosen(tried.bad)
        seen.reading = replace(tried.reading, missing=(*reading.missing, *words))
        _say_what_was_read(seen, tried)
        if not reading.dates:
            seen.shapes = NumberSigns(cells.chosen(tried.good))
        return cells.rows(np.where(tried.bad, np.nan, tried.numbers))
    what = shape_of(reading.dates) if reading.dates else "numbers"
    enough = tried.many and 2 * cells.number(tried.good) >= cells.number(tried.bad)
    if tried.good.any() and tried.share < (0.5 if enough else _FEW_WORDS):
        _mixed(seen, tried, what)
    elif tried.many and (tried.share <= 1 - _FEW_WORDS or _are_words(cells, tried.bad)):
        _mixed(seen, tried, what)
        seen.change = seen.change if _are_words(cells, tried.bad) else {}  # codes are categories, however many
    return None


def _are_words(cells: Cells, bad: Mask) -> bool:
    """Tell whether what is no number are few words, such as "unknown", and not codes such as E11."""
    return bool(bad.sum() <= FEW_TEXTS) and not any(re.search(r"\d", text) for text in cells.chosen(bad))


def shape_of(dates: str) -> str:
    """Return what dates of a kind look like: ``dates (12.03.2021)``."""
    return in_words(dates).rpartition(" as ")[0]


def _say_what_was_read(seen: ColumnLook, tried: TriedRule) -> None:
    """Note which cells needed a rule, how many, and the first of them with its row."""
    cells, rule = tried.cells, replace(seen.reading, missing=(), limits="")
    _, plain_bad = PLAIN.distinct(cells.texts)
    total = cells.number(tried.good | tried.limited | tried.bad)
    needed = tried.good & (plain_bad | (rule.thousands == ".") | (rule.dates == "compact"))
    seen.repaired = cells.number(needed) + (cells.number(tried.limited) if seen.reading.limits != "missing" else 0)
    if needed.any():
        seen.example = cells.shown(needed, 1)
        percent = 100 * cells.number(needed) // total
        share = "all cells" if percent == 100 else f"{percent} %"
        if rule.dates:
            what = f"{share} look like {shape_of(rule.dates)}: read as {seen.read_as}"
        elif rule.decimal == ",":
            what = f"{share} look like decimal-comma numbers: read so ({mark('decimal', ',')})"
        elif rule.unit and not rule.thousands:
            what = f"{share} have the unit {rule.unit}: left out"
        else:
            what = f"{share} have the sign {rule.thousands!r} between thousands: read so"
        seen.notes.append(what if percent == 100 else f"{what}; first {seen.example}")
    if tried.limited.any():
        way = seen.reading.limits
        then = {"number": "as the limit itself", "middle": "as the middle of the range", "missing": "as empty"}[way]
        other = "number" if way == "missing" else "missing"
        done = f"read {then} ({mark('limits', way)}); {mark('limits', other)} does otherwise"
        seen.notes.append(f"{_cells(cells.number(tried.limited))} no number: {cells.shown(tried.limited)}: {done}")
    if tried.bad.any():
        rule_of_words = seen.words_rule(cells.chosen(tried.bad))
        said = f" ({mark('missing', rule_of_words)})" if rule_of_words else ""
        what = "date" if rule.dates else "number"
        shown = cells.shown(tried.bad)
        seen.notes.append(f"{_cells(cells.number(tried.bad))} no {what}: {shown}: read as empty{said}")


def _mixed(seen: ColumnLook, tried: TriedRule, what: str) -> None:
    """Note that a column holds numbers (or dates: ``what``) and words, and what would make it a column of numbers."""
    cells, good = tried.cells, tried.good | tried.limited
    percent = 100 * cells.number(good) // cells.number(good | tried.bad)
    seen.notes.append(f"{percent} % of the cells are {what}, others are not: {cells.shown(tried.bad)}")
    first = cells.chosen(tried.bad)[0]
    if tried.reading.dates and first.isdecimal() and int(first) in EXCEL_DAYS:
        seen.notes[-1] += f" ({first} is {excel_day(int(first))} as Excel counts days)"
    words = seen.words_rule(cells.chosen(tried.bad))
    seen.change = {"missing": words} if words else {"drop": seen.name}
    seen.asks = bool(words or tried.reading.dates)
    if words:
        seen.notes[-1] += f" ({mark('missing', words)} reads them as empty, and the column as {what})"


def _cells(number: int) -> str:
    return f"{number:,} cell{' is' if number == 1 else 's are'}"
