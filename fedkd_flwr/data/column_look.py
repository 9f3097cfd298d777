"""Look at one column of a messy table: what it is, and by which rule its cells are read."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data import cell_rules
from fedkd_flwr.data.cell_rules import FEW_TEXTS, Cells, ColumnLook, Mask, NumberSigns
from fedkd_flwr.data.columns import MISSING, canonical, counted, missing_texts, sorted_texts
from fedkd_flwr.data.dates import DATES
from fedkd_flwr.data.reading import EMPTY_WORDS, PLAIN, Reading, ends_of_range
from fedkd_flwr.data.rules import Rules, spelt
from fedkd_flwr.errors import DataError, explain, printable

__all__ = ["look_at_column", "signs_of"]

_MANY_CATEGORIES = 256
_MANY_MIXED = 50  # of which most are numbers
_FEW_ROWS = 30  # too few rows to tell an identifier from a category
_FEW_EACH = 4  # rows of a category of which a model learns little, where there are many
_FEW_WORDS = 0.05  # greatest share of cells that are no number in a column of numbers
_FEW_NUMBERS = 10  # a column with fewer different numbers may hold codes
_PROSE_WORDS = 5  # a text of at least so many words counts as prose
_LONG = 5  # different whole numbers, all longer than so many digits and equally long, may be identifiers
_REPEATED = 3  # cells of one number that may stand for "no value"

_NAME_OF_ID = re.compile(
    r"(^|[\W_])(id|ids|nr|no|num|number|nummer|key|uuid|index|idx|row|zeile|unnamed)([\W_\d]|$)|nummer$"
)
_SENTINEL = re.compile(r"-1|-9+(\.9+)?|99+")


def signs_of(values: pd.Series[Any]) -> NumberSigns:
    """Return which signs the texts of a column have in their digits; none of a column that holds no texts."""
    texts = Cells.of(values).texts if values.dtype.kind not in "biufMm" else []
    return NumberSigns([text for text in texts if text not in MISSING])


def look_at_column(values: pd.Series[Any], name: str, rules: Rules, signs: NumberSigns, decimal: str) -> ColumnLook:
    """Look at one column: typed numbers first, because they need no rule.

    ``signs`` are those of the column, and ``decimal`` is the sign before decimals in the file; "" if it is open.
    """
    kind = values.dtype.kind
    seen = ColumnLook(name=name, reading=Reading(missing=rules.missing))
    if kind in "Mm":
        seen.reading = replace(seen.reading, dates="iso" if kind == "M" else "duration")
        seen.notes = [] if kind == "M" else ["durations: read as days"]
        return _numeric(seen, seen.reading.parse(values)[0])
    if kind not in "iuf":
        return _look_at_texts(seen, Cells.of(values), rules, signs, decimal, are_texts=kind != "b")
    numbers, bad = seen.reading.parse(values)
    if bad.any():
        row = int(np.flatnonzero(bad)[0]) + 1
        found = f"{numbers[row - 1]} in row {row}"
        raise DataError(explain(f"column {name!r}", "hold finite numbers", found, "Correct them or leave them empty."))
    if cell_rules.are_compact_dates(np.asarray(pd.unique(values[~np.isnan(numbers)]))):
        dates = replace(seen.reading, dates="compact")
        days, bad = dates.parse(values)
        if not bad.any():
            seen.reading, numbers = dates, days
            seen.repaired = len(numbers) - int(np.isnan(numbers).sum())
            seen.notes.append(f"all cells look like {_shape_of('compact')}: read as {seen.read_as}")
    return _numeric(seen, numbers)


def _look_at_texts(
    seen: ColumnLook, cells: Cells, rules: Rules, signs: NumberSigns, decimal: str, *, are_texts: bool
) -> ColumnLook:
    numbers, unread = seen.reading.distinct(cells.texts)
    words = MISSING.union(rules.missing)
    nothing = np.array([text.casefold() in EMPTY_WORDS and text not in words for text in cells.texts], dtype=bool)
    if not cells.number(unread | nothing | ~np.isnan(numbers)):
        return seen.leave_out("every cell is empty", len(cells.codes))
    plain = cells.chosen(~np.isnan(numbers))
    if not are_texts:
        return _categorical(seen, cells)
    compact, found = cell_rules.are_compact_dates(plain), None
    if compact:
        found = Reading(dates="compact")
    elif unread.any():
        found = cell_rules.date_rule(seen, cells.chosen(unread), rules)
        if seen.problem:
            return seen
    elif _are_codes(plain):
        what = f"whole numbers of equal length, some with a leading zero such as {_leading_zero(cells.texts)!r}"
        seen.notes.append(f'{what}: read as categories (a schema with kind = "numeric" reads them as numbers)')
        return _categorical(seen, cells)
    decimal = rules.decimal or signs.sign or decimal
    if signs["point"] and not unread.any():
        decimal = "."
    rule = replace(found or cell_rules.number_rule(signs, decimal), missing=rules.missing)
    if (read := _read_by(seen, cells, rule)) is None:
        return _categorical(seen, cells)
    if found is None and not decimal:
        _say_what_signs_may_mean(seen, cells, signs)
    if nothing.any():  # known words for "no value" among numbers, such as a dash
        seen.notes.append(f"{counted(cells.number(nothing), 'cell')} read as empty: {cells.shown(nothing)}")
    return _numeric(seen, read)


def _say_what_signs_may_mean(seen: ColumnLook, cells: Cells, signs: NumberSigns) -> None:
    """Ask what commas mean that all stand before three digits, and say how such points are read."""
    if signs["comma?"]:
        row = cells.shown(np.array(["," in text for text in cells.texts]), 1)
        rule, found = "hold numbers that can be read in one way", f"commas before three digits only ({row})"
        seen.problem = explain(f"column {seen.name!r}", rule, found)
        meanings = {"If 1,234 there means 1.234": ",", "If 1,234 means one thousand": "."}
        seen.choices = {meaning: {"decimal": sign} for meaning, sign in meanings.items()}
    elif signs["point?"]:
        other = spelt("decimal", ",")
        seen.notes.append(f"three decimals each: read with a decimal point ({other} reads them as thousands)")


def _numeric(seen: ColumnLook, numbers: NDArray[np.float64]) -> ColumnLook:
    """Finish a column of numbers: find whether it is empty, constant or an identifier, or has numbers for no value."""
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return seen.leave_out("every cell is empty", len(numbers))
    seen.missing = len(numbers) - len(known)
    low, high = float(known.min()), float(known.max())
    if low == high and len(known) > 1:
        seen.may_drop("constant: it says nothing")
    if seen.reading.dates:
        return seen
    _say_what_stands_for_nothing(seen, known)
    own = len(np.unique(known))
    if seen.missing or len(known) < _FEW_ROWS or (known % 1 != 0).any() or 10 * own < 9 * len(known):
        return seen
    counter, seen.identifies = high - low + 1 == len(known) == own, _is_named_as_id(seen.name)
    what = f"each row has its own whole number, {low:.0f} to {high:.0f}"
    if own < len(known):
        what = f"{own:,} different whole numbers in {len(known):,} rows"
    if counter and seen.identifies:
        return seen.leave_out(f"{what}: it counts rows", 0)
    if counter or seen.identifies or (low >= 10**_LONG and len(f"{low:.0f}") == len(f"{high:.0f}")):
        seen.may_drop(f"{what}: an identifier? It is read as numbers")
    return seen


def _is_named_as_id(name: str) -> bool:
    """Tell whether a column is called so, or has no name: ``patient_id``, ``RowNumber``, ``Unnamed: 0``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold()
    return name.startswith(("column-", "Unnamed")) or bool(_NAME_OF_ID.search(words))


def _say_what_stands_for_nothing(seen: ColumnLook, known: NDArray[np.float64]) -> None:
    """Note -1 and numbers of nines that several cells hold, far from all others: they may mean "no value"."""
    values, counts = np.unique(known, return_counts=True)
    for at in (0, len(values) - 1) if len(values) > 2 else ():
        text, others = f"{values[at]:.10g}", np.delete(values, at)
        far = np.abs(others - values[at]).min() > others[-1] - others[0]
        below = values[at] < 0 <= others[0] and len(others) >= _FEW_NUMBERS and text != "-1"
        if counts[at] >= _REPEATED and _SENTINEL.fullmatch(text) and (far or below):
            rule = seen.words_rule([text]) if seen.reading.decimal == "." or "." not in text else ""
            hint = f": {spelt('missing', rule)} reads them as empty" if rule else ": do they mean no value?"
            seen.notes.append(f"{counted(int(counts[at]), 'cell')} hold {text}, far from all others{hint}")


def _categorical(seen: ColumnLook, cells: Cells) -> ColumnLook:
    """Finish a column of texts: categories, free text, or an identifier."""
    rows = Counter[str]()
    nothing = missing_texts(seen.reading.missing)
    for text, number in zip(cells.texts, cells.counts, strict=True):
        if (known := canonical(text)) is not None and known not in nothing:
            rows[known] += int(number)
    empty = EMPTY_WORDS - {"none", "nil", "missing"} - ({"-", "\u2212"} if "+" in rows else set())
    words = sorted(text for text in rows if len(text) < 9 and text.casefold() in empty)
    if words:
        seen.reading = replace(seen.reading, missing=(*seen.reading.missing, *words))
        seen.notes.append(f"{' and '.join(map(repr, words))} read as empty")
        rows = Counter({text: number for text, number in rows.items() if text not in words})
    num_rows, known_rows = len(cells.codes), sum(rows.values())
    seen.kind = "categorical"
    seen.categories = sorted_texts(np.array([*rows, None], dtype=object))
    seen.missing = num_rows - known_rows
    if not rows:
        return seen.leave_out("every cell is empty", num_rows)
    if 2 * len(rows) > known_rows and 2 * sum(len(text.split()) >= _PROSE_WORDS for text in rows) > len(rows):
        seen.kind = "text"
        return seen
    return _names_or_categories(seen, known_rows)


def _names_or_categories(seen: ColumnLook, known_rows: int) -> ColumnLook:
    """Leave out a column of names, ask where numbers would become categories, else note what its categories lack."""
    many = len(seen.categories)
    own = 10 * many >= 9 * known_rows and known_rows >= _FEW_ROWS
    own = own or (many > _MANY_CATEGORIES and 2 * many > known_rows)
    if seen.change and (seen.asks if own else many > _MANY_MIXED):
        rule = "hold numbers or a limited number of categories"
        problem = explain(f"column {seen.name!r}", rule, f"{many:,} different texts")
        seen.problem = f"{problem.removesuffix('.')}: {printable(seen.notes[-1])}."
        return seen
    seen.change = {}
    if own:
        seen.identifies = True
        what = f"{many:,} different texts in {known_rows:,} rows: an identifier, names, or dates in several forms"
        if "," not in seen.name:
            what += f" ({spelt('id-column', seen.name)} or {spelt('drop', seen.name)} says so)"
        return seen.leave_out(what, seen.missing)
    if many > _MANY_CATEGORIES or (many > _MANY_MIXED and known_rows < _FEW_EACH * many):
        seen.may_drop(f"{many:,} categories in {known_rows:,} rows: slow, or each says little")
    if many == 1 and known_rows > 1:
        seen.may_drop("constant: it says nothing")
    alike = {text.casefold(): text for text in seen.categories}
    if len(alike) < many:
        twins = next((text, alike[text.casefold()]) for text in seen.categories if alike[text.casefold()] != text)
        seen.notes.append(f"{' and '.join(map(repr, twins))} are different categories, as they are spelt otherwise")
    return seen


def _are_codes(texts: list[str]) -> bool:
    """Tell whether numbers are codes such as 007: digits alone, all equally many, some with a leading zero."""
    equal = len({len(text) for text in texts}) == 1
    return equal and all(text.isdecimal() for text in texts) and bool(_leading_zero(texts))


def _leading_zero(texts: list[str]) -> str:
    """Return the first text with a zero before another digit, "" without one."""
    return next((text for text in texts if re.match(r"0\d", text)), "")


@dataclass
class _TriedRule:
    """What a rule makes of the texts of a column."""

    cells: Cells
    reading: Reading

    def __post_init__(self) -> None:
        texts = self.cells.texts
        self.numbers, self.bad = self.reading.distinct(texts)
        ranges = [self.reading.ranges and bool(ends_of_range(text)) for text in texts]
        self.ranges: Mask = np.array(ranges, dtype=bool) & ~self.bad
        self.good: Mask = ~np.isnan(self.numbers) & ~self.bad & ~self.ranges
        self.known = self.cells.number(self.good | self.bad | self.ranges)
        self.share = self.cells.number(self.bad) / max(self.known, 1)  # of cells that are no number
        self.distinct = len(np.unique(self.numbers[self.good]))
        self.many = self.distinct >= _FEW_NUMBERS

    @property
    def reads(self) -> bool:
        """Whether the column is one of numbers by this rule: all cells are, or nearly all of several different ones."""
        if not self.bad.any() and not self.ranges.any():
            return bool(self.good.any())
        if 5 * self.cells.number(self.good) < self.known or self.share > _FEW_WORDS:
            return False
        return self.many if self.bad.any() else self.distinct >= 3


def _read_by(seen: ColumnLook, cells: Cells, reading: Reading) -> NDArray[np.float64] | None:
    """Read the cells of a column by a rule, and say so; return each row's number, None where too many do not fit it."""
    tried = _TriedRule(cells, reading)
    if tried.bad.any() and not reading.dates:
        with_ranges = _TriedRule(cells, replace(reading, ranges=True))
        tried = with_ranges if with_ranges.ranges.any() else tried
    if tried.reads:
        words = cells.chosen(tried.bad)
        seen.reading = replace(tried.reading, missing=(*reading.missing, *words))
        _say_what_was_read(seen, tried)
        return cells.rows(np.where(tried.bad, np.nan, tried.numbers))
    if tried.good.any() and (tried.many or tried.share < _FEW_WORDS):
        _mixed(seen, tried, _shape_of(reading.dates) if reading.dates else "numbers")
    return None


def _shape_of(dates: str) -> str:
    """Return what dates of a kind look like: ``dates (12.03.2021)``."""
    return DATES[dates].rpartition(" as ")[0]


def _say_what_was_read(seen: ColumnLook, tried: _TriedRule) -> None:
    """Note which cells needed a rule, how many, and the first of them with its row."""
    cells, rule = tried.cells, seen.reading
    _, plain_bad = PLAIN.distinct(cells.texts)
    needed = tried.good & (plain_bad | (rule.thousands == ".") | (rule.dates == "compact"))
    seen.repaired = cells.number(needed | tried.ranges)
    if needed.any():
        percent = 100 * cells.number(needed) // tried.known
        share = "all cells" if percent == 100 else f"{percent} %"
        if rule.dates:
            what = f"{share} look like {_shape_of(rule.dates)}: read as {seen.read_as}"
        elif rule.decimal == ",":
            what = f"{share} look like decimal-comma numbers: read so ({spelt('decimal', ',')})"
        elif rule.unit and not rule.thousands:
            what = f"{share} have the unit {rule.unit}: left out"
        else:
            what = f"{share} have the sign {rule.thousands!r} between thousands: read so"
        seen.notes.append(what if percent == 100 else f"{what}; first {cells.shown(needed, 1)}")
    if tried.ranges.any():
        shown = cells.shown(tried.ranges)
        done = "a bound is read as its number, and a range as its middle"
        seen.notes.append(f"{_cells(cells.number(tried.ranges))} no number: {shown}: {done}")
    if tried.bad.any():
        rule_of_words = seen.words_rule(cells.chosen(tried.bad))
        said = f" ({spelt('missing', rule_of_words)})" if rule_of_words else ""
        what = "date" if rule.dates else "number"
        shown = cells.shown(tried.bad)
        seen.notes.append(f"{_cells(cells.number(tried.bad))} no {what}: {shown}: read as empty{said}")


def _mixed(seen: ColumnLook, tried: _TriedRule, what: str) -> None:
    """Note that a column holds numbers (or dates: ``what``) and words, and what would make it a column of numbers."""
    cells, others = tried.cells, tried.cells.chosen(tried.bad)
    percent = 100 * cells.number(tried.good | tried.ranges) // tried.known
    seen.notes.append(f"{percent} % of the cells are {what}, others are not: {cells.shown(tried.bad)}")
    rule = seen.words_rule(others)
    seen.asks = bool(rule or tried.reading.dates)
    if rule:
        seen.notes[-1] += f" ({spelt('missing', rule)} reads them as empty, and the column as {what})"
    are_words = len(others) <= FEW_TEXTS and not any(re.search(r"\d", text) for text in others)
    if are_words or tried.share < 0.5:  # else codes such as E11, which are categories, however many
        seen.change = {"missing": rule} if rule else {"drop": seen.name}


def _cells(number: int) -> str:
    return f"{number:,} cell{' is' if number == 1 else 's are'}"
