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
from fedkd_flwr.data.cell_rules import EXCEL_DAYS, FEW_TEXTS, Cells, ColumnLook, Mask, excel_day
from fedkd_flwr.data.columns import MISSING, canonical, counted, missing_texts, sorted_texts
from fedkd_flwr.data.dates import in_words
from fedkd_flwr.data.reading import EMPTY_WORDS, LIMIT, PLAIN, Reading, ends_of_range
from fedkd_flwr.data.rules import Rules, mark
from fedkd_flwr.errors import DataError, explain, printable

__all__ = ["look_at_column"]

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
_NAME_OF_DATE = re.compile(r"(?i)date|datum|day|tag$|fecha|birth|geburt|admi|aufnahme|discharge|dob")
_PAIR = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*[/:x×|]\s*[+-]?\d+(?:[.,]\d+)?(?:\s*\D+)?")
_SENTINEL = re.compile(r"-1|-9+(\.9+)?|99+")


def look_at_column(values: pd.Series[Any], name: str, rules: Rules) -> ColumnLook:
    """Look at one column: typed numbers first, because they need no rule."""
    kind = values.dtype.kind
    seen = ColumnLook(name=name, reading=Reading(missing=rules.missing))
    if kind in "Mm":
        seen.reading = replace(seen.reading, dates="iso" if kind == "M" else "duration")
        seen.notes = [] if kind == "M" else ["durations: read as days"]
        return _numeric(seen, seen.reading.parse(values)[0])
    if kind not in "iuf":
        return _look_at_texts(values, name, rules, rules.decimal)
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


def _look_at_texts(values: pd.Series[Any], name: str, rules: Rules, decimal: str) -> ColumnLook:
    cells = Cells.of(values)
    seen = ColumnLook(name=name, reading=Reading(missing=rules.missing))
    numbers, unread = seen.reading.distinct(cells.texts)
    words = MISSING.union(rules.missing)
    nothing = np.array([text.casefold() in EMPTY_WORDS and text not in words for text in cells.texts], dtype=bool)
    if not cells.number(unread | nothing | ~np.isnan(numbers)):
        return seen.leave_out("every cell is empty", len(values))
    if values.dtype.kind == "b":
        return _categorical(seen, cells)
    plain = cells.chosen(~np.isnan(numbers))
    compact = cell_rules.are_compact_dates(plain)
    if not compact and not unread.any() and plain:
        if _are_codes(plain):
            what = f"whole numbers of equal length, some with a leading zero such as {_leading_zero(cells.texts)!r}"
            seen.notes.append(f'{what}: read as categories (a schema with kind = "numeric" reads them as numbers)')
            return _categorical(seen, cells)
        seen.say_empty(cells, nothing)
        seen.reading = replace(seen.reading, limits=rules.ranges_as)
        seen.shapes = cell_rules.signs_of_numbers(cells.texts, numbers)
        if seen.shapes["point?"] or not seen.shapes["point"]:
            seen.looked = lambda sign: _look_at_texts(values, name, rules, sign)
        if decimal != "," or not seen.shapes["point?"] or seen.shapes["point"]:
            return _numeric(seen, cells.rows(numbers))
    suspects = cells.chosen(unread) or [text for text in cells.texts if text not in MISSING]
    try:
        found = Reading(dates="compact") if compact else cell_rules.date_rule(suspects, name, rules)
    except cell_rules.Question as asked:
        seen.problem, seen.choices, seen.change = asked.problem, asked.choices, asked.change
        return seen
    rule = replace(found or cell_rules.number_rule(suspects, decimal), missing=rules.missing)
    if (read := _read_by(seen, cells, rule, rules)) is None:
        return _categorical(seen, cells)
    seen.say_empty(cells, nothing)
    return _numeric(seen, read)


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
    whole = bool((known % 1 == 0).all())
    if whole and EXCEL_DAYS[0] <= low < high <= EXCEL_DAYS[-1] and _NAME_OF_DATE.search(seen.name):
        day = f"{known[0]:.0f} is {excel_day(int(known[0]))}"
        seen.notes.append(f"days as Excel counts them ({day})? They are read as numbers")
    if seen.missing or len(known) < _FEW_ROWS or not whole:
        return seen
    # from 2**53 on a float is not exactly its whole number: it shows neither how many differ, nor the ends
    own, exact = len(np.unique(known)), max(-low, high) < 2**53
    counter, named = high - low + 1 == len(known) == own and exact, _is_named_as_id(seen.name)
    long = low >= 10**_LONG and len(f"{low:.0f}") == len(f"{high:.0f}")
    if not (counter or named or long) or (exact and 10 * own < 9 * len(known)):
        return seen
    seen.identifies = named
    what = f"each row has its own whole number, {low:.0f} to {high:.0f}"
    if not exact:
        what = "whole numbers of 16 digits or more, whose last ones are lost"
    elif own < len(known):
        what = f"{own:,} different whole numbers in {len(known):,} rows"
    if counter and seen.identifies:
        return seen.leave_out(f"{what}: it counts rows", 0)
    seen.may_drop(f"{what}: an identifier? It is read as numbers")
    return seen


def _is_named_as_id(name: str) -> bool:
    """Tell whether a column is called so, or has no name: ``patient_id``, ``RowNumber``, ``Unnamed: 0``."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold()
    return name.startswith(("column-", "Unnamed")) or bool(_NAME_OF_ID.search(words))


def _say_what_stands_for_nothing(seen: ColumnLook, known: NDArray[np.float64]) -> None:
    """Note -1 and numbers of nines that many cells hold, far from all others: they may mean "no value"."""
    values, counts = np.unique(known, return_counts=True)
    while len(values) > 2:
        for at in (0, len(values) - 1):
            text = f"{values[at]:.10g}"
            others, number = np.delete(values, at), int(counts[at])
            gap, span = np.abs(others - values[at]).min(), others[-1] - others[0]
            far = gap > span or (values[at] < 0 <= others[0] and len(others) >= _FEW_NUMBERS and text != "-1")
            often = text == "-1" and others[0] >= 0 and number > 3 * np.delete(counts, at).max()
            if number >= _REPEATED and _SENTINEL.fullmatch(text) and (far or (often and len(others) >= _FEW_NUMBERS)):
                rule = seen.words_rule([text]) if seen.reading.decimal == "." or "." not in text else ""
                hint = f": {mark('missing', rule)} reads them as empty" if rule else ": do they mean no value?"
                where = "far from all others" if far else "the only number below 0"
                seen.notes.append(f"{counted(number, 'cell')} hold {text}, {where}{hint}")
                values, counts = others, np.delete(counts, at)
                break
        else:
            return


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
    num_rows, distinct, known_rows = len(cells.codes), set(rows), sum(rows.values())
    seen.kind = "categorical"
    seen.categories = sorted_texts(np.array([*distinct, None], dtype=object))
    seen.missing = num_rows - known_rows
    if not rows:
        return seen.leave_out("every cell is empty", num_rows)
    many = len(rows)
    if 2 * many > known_rows and 2 * sum(len(text.split()) >= _PROSE_WORDS for text in distinct) > many:
        seen.kind = "text"
        return seen
    pairs = np.array([bool(_PAIR.fullmatch(text)) for text in cells.texts], dtype=bool)
    if many > FEW_TEXTS and 5 * cells.number(pairs) >= 4 * known_rows:
        what = f"cells hold two numbers each: {cells.shown(pairs, 1)}: left out; as two columns they can be used"
        return seen.leave_out(what, seen.missing)
    return _names_or_categories(seen, distinct, known_rows)


def _names_or_categories(seen: ColumnLook, distinct: set[str], known_rows: int) -> ColumnLook:
    """Leave out a column of names, ask where numbers would become categories, else note what its categories lack."""
    many = len(distinct)
    own = 10 * many >= 9 * known_rows and known_rows >= _FEW_ROWS
    own = own or (many > _MANY_CATEGORIES and 2 * many > known_rows)
    if seen.change and (seen.asks if own else many > _MANY_MIXED):
        rule = "hold numbers or a limited number of categories"
        problem = explain(f"column {seen.name!r}", rule, f"{many:,} different texts")
        # not within `explain`, which would escape the marks of the rules that are spelt later (`mark`)
        note = "\0".join(map(printable, seen.notes[-1].split("\0")))
        seen.problem = f"{problem.removesuffix('.')}: {note}."
        return seen
    seen.change = {}
    if own:
        seen.identifies = True
        what = f"{many:,} different texts in {known_rows:,} rows: an identifier or names"
        if "," not in seen.name:
            what += f" ({mark('id-column', seen.name)} or {mark('drop', seen.name)} says so)"
        return seen.leave_out(what, seen.missing)
    if many > _MANY_CATEGORIES:
        seen.may_drop(f"{many:,} categories: slow, and each says little")
    elif many > _MANY_MIXED and known_rows < _FEW_EACH * many:
        seen.may_drop(f"{many:,} categories in {known_rows:,} rows: each says little")
    alike = {text.casefold(): text for text in sorted(distinct)}
    if many <= _MANY_CATEGORIES and len(alike) < many:
        twins = next((text, alike[text.casefold()]) for text in sorted(distinct) if alike[text.casefold()] != text)
        seen.notes.append(f"{' and '.join(map(repr, twins))} are different categories, as they are spelt otherwise")
    if many == 1 and known_rows > 1:
        seen.may_drop("constant: it says nothing")
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


def _read_by(seen: ColumnLook, cells: Cells, reading: Reading, rules: Rules) -> NDArray[np.float64] | None:
    """Read the cells of a column by a rule, and say so; return each row's number, None where too many do not fit it."""
    tried = _TriedRule(cells, replace(reading, limits="" if reading.dates else rules.ranges_as))
    if not reading.dates and not rules.ranges_as and tried.bad.any():
        ways = [_TriedRule(cells, replace(reading, limits=way)) for way in ("number", "middle")]
        with_limits = next((one for one in ways if one.limited.any() and one.reads), None)
        tried = with_limits or (ways[0] if ways[0].limited.any() else tried)
    if tried.reads:
        words = cells.chosen(tried.bad)
        seen.reading = replace(tried.reading, missing=(*reading.missing, *words))
        _say_what_was_read(seen, tried)
        if not reading.dates:
            seen.shapes = cell_rules.NumberSigns(cells.chosen(tried.good))
        return cells.rows(np.where(tried.bad, np.nan, tried.numbers))
    what = _shape_of(reading.dates) if reading.dates else "numbers"
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


def _shape_of(dates: str) -> str:
    """Return what dates of a kind look like: ``dates (12.03.2021)``."""
    return in_words(dates).rpartition(" as ")[0]


def _say_what_was_read(seen: ColumnLook, tried: _TriedRule) -> None:
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
            what = f"{share} look like {_shape_of(rule.dates)}: read as {seen.read_as}"
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
        done = f"read {then} ({mark('ranges-as', way)}); {mark('ranges-as', other)} does otherwise"
        seen.notes.append(f"{_cells(cells.number(tried.limited))} no number: {cells.shown(tried.limited)}: {done}")
    if tried.bad.any():
        rule_of_words = seen.words_rule(cells.chosen(tried.bad))
        said = f" ({mark('missing', rule_of_words)})" if rule_of_words else ""
        what = "date" if rule.dates else "number"
        shown = cells.shown(tried.bad)
        seen.notes.append(f"{_cells(cells.number(tried.bad))} no {what}: {shown}: read as empty{said}")


def _mixed(seen: ColumnLook, tried: _TriedRule, what: str) -> None:
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
