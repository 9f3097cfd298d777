"""Look at one column of a messy table: what it is, and by which rule its cells are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.data.columns import MISSING, canonical, column_name, counted, factorize, missing_texts, sorted_texts
from fedkd_flwr.data.reading import DATES, EMPTY_WORDS, LIMIT, PLAIN, Reading
from fedkd_flwr.errors import DataError, explain, printable

__all__ = ["NO_RULES", "ColumnLook", "Rules", "look_at_column", "one_decimal_sign"]

_MANY_CATEGORIES = 256
_MANY_MIXED = 50  # of which most are numbers
_FEW_ROWS = 30  # too few rows to tell an identifier from a category
_FEW_NUMBERS = 10  # a column with fewer different numbers may hold codes
_FEW_WORDS = 0.05  # greatest share of cells that are no number in a column of numbers
_FEW_TEXTS = 20  # more different words among numbers are not listed
_PROSE_WORDS = 5  # a text of at least so many words counts as prose
_SAMPLE = 2000
_LONG = 5  # different whole numbers, all longer than so many digits and equally long, may be identifiers
_FEW_DATES = 3  # fewer different numbers may be codes that look like dates by chance
_COMPACT = re.compile(r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")

_NAME_OF_ID = re.compile(
    r"(?i)(^|[\W_])(id|ids|nr|no|num|number|nummer|key|uuid|index|idx|row|zeile|unnamed)([\W_\d]|$)|nummer$|(?-i:[a-z](ID|Id|Nr|No)$)"
)
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


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the user says about a table; what is left empty is found by looking.

    Parameters
    ----------
    id_column : str
        A column that is no feature.
    drop, text : tuple of str
        Columns to leave out; columns of free text.
    decimal : {"", ".", ","}
        The sign before the decimals; the other one then stands between thousands.
    missing : tuple of str
        Further words for an empty cell, in every column.
    dates : {"", "day-first", "month-first"}
        How dates are read whose order is not clear.
    limits : {"", "number", "missing"}
        What ``<0.5`` is: the number 0.5, or an empty cell. Empty: the number, where such cells are found.
    header, encoding : str
        As for `fedkd_flwr.data.csv_table.csv_table`.
    """

    id_column: str = ""
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    decimal: str = ""
    missing: tuple[str, ...] = ()
    dates: str = ""
    limits: str = ""
    header: str = ""
    encoding: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id_column", column_name(self.id_column))
        for key in ("drop", "text"):
            object.__setattr__(self, key, tuple(map(column_name, getattr(self, key))))
        check_choice("decimal", self.decimal, ("", ".", ","), error=DataError)
        check_choice("dates", self.dates, ("", "day-first", "month-first"), error=DataError)
        check_choice("limits", self.limits, ("", "number", "missing"), error=DataError)

    def words(self) -> dict[str, str]:
        """Return the rules that are set, as they stand in a command: ``{"id-column": "id", "drop": "a,b"}``."""
        pairs = {
            "id-column": self.id_column,
            "drop": ",".join(self.drop),
            "text": ",".join(self.text),
            "decimal": self.decimal,
            "missing": ",".join(self.missing),
            "dates": self.dates,
            "limits": self.limits,
            "header": self.header,
            "encoding": self.encoding,
        }
        return {key: value for key, value in pairs.items() if value}


NO_RULES = Rules()


@dataclass(kw_only=True)
class ColumnLook:
    """One column while it is looked at."""

    name: str
    kind: str = "numeric"  # or categorical, text, left out
    reading: Reading = PLAIN
    categories: tuple[str, ...] = ()
    shapes: Counter[str] = field(default_factory=Counter)  # of its numbers
    looked: Callable[[str], ColumnLook] | None = None  # looks again, once the file's decimal sign is known
    repaired: int = 0
    missing: int = 0
    notes: list[str] = field(default_factory=list)
    example: str = ""  # the first cell that needs a rule
    identifies: bool = False
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
            return "hours since midnight" if rule.dates == "time" else f"days since 1970-01-01 ({rule.dates})"
        words = [f"unit {rule.unit}"] if rule.unit else []
        words += ["decimal comma"] if rule.decimal == "," else []
        words += [f"thousands {rule.thousands!r}"] if rule.thousands else []
        return f"numbers ({', '.join(words)})" if words else "numbers"


# ------------------------------------------------------------------------------------------------------- one column


def look_at_column(values: pd.Series[Any], name: str, rules: Rules) -> ColumnLook:
    """Look at one column: typed numbers first, because they need no rule."""
    kind = values.dtype.kind
    words = Reading(missing=rules.missing)
    if kind in "iuf":
        numbers, bad = words.parse(values)
        if bad.any():
            way_out = "Correct them or leave them empty."
            row = int(np.flatnonzero(bad)[0]) + 1
            raise DataError(
                explain(f"column {name!r}", "hold finite numbers", f"{numbers[row - 1]} in row {row}", way_out)
            )
        if _are_compact_dates(pd.unique(values[~np.isnan(numbers)])):
            seen = ColumnLook(name=name, reading=replace(words, dates="compact"))
            numbers, bad = seen.reading.parse(values)
            if not bad.any():
                seen.repaired = len(numbers) - int(np.isnan(numbers).sum())
                seen.notes.append(f"all cells look like {_shape_of('compact')}: read as {seen.read_as}")
                return _numeric(seen, numbers)
        return _numeric(ColumnLook(name=name, reading=words), numbers)
    if kind == "M":
        reading = replace(words, dates="iso")
        numbers, _ = reading.parse(values)
        return _numeric(ColumnLook(name=name, reading=reading), numbers)
    if kind == "m":
        seen = ColumnLook(name=name, reading=words, notes=["durations: read as days"])
        return _numeric(seen, words.parse(values)[0])
    return _look_at_texts(values, name, rules, rules.decimal)


def _shapes_of_numbers(texts: list[str], numbers: NDArray[np.float64]) -> Counter[str]:
    """Tell whether numbers that read well with a decimal point might be whole numbers with points for thousands."""
    if "." not in "".join(texts):
        return Counter({"whole": 1})
    thousandths = np.abs(numbers[np.isfinite(numbers)]) * 1000
    if not np.allclose(thousandths, np.round(thousandths), rtol=0, atol=1e-6):
        return Counter({"point": 1})
    return _shapes([text for text in texts if text not in MISSING])[0]


def _look_at_texts(values: pd.Series[Any], name: str, rules: Rules, decimal: str) -> ColumnLook:
    codes, distinct = factorize(values)
    texts = [str(value).strip() for value in distinct]
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    seen = ColumnLook(name=name, reading=Reading(missing=rules.missing))
    empty = seen.reading.calls_empty(texts)
    if not counts[~empty].sum():
        return _left_out(seen, "every cell is empty", len(values))
    numbers, unread = seen.reading.distinct(texts)
    if values.dtype.kind == "b":
        return _categorical(seen, texts, counts, len(values))
    nothing = ~empty & ~unread & np.isnan(numbers)  # a dash among numbers
    compact = _are_compact_dates([text for text, number in zip(texts, numbers, strict=True) if not np.isnan(number)])
    if not compact and not unread.any() and not np.isnan(numbers).all():
        if _are_codes([text for text, number in zip(texts, numbers, strict=True) if not np.isnan(number)]):
            what = f"whole numbers of equal length, some with a leading zero such as {_leading_zero(texts)!r}"
            seen.notes.append(f'{what}: read as categories (a schema with kind = "numeric" reads them as numbers)')
            return _categorical(seen, texts, counts, len(values))
        _say_what_is_empty(seen, codes, counts, texts, nothing)
        seen.reading, seen.shapes = replace(seen.reading, limits=rules.limits), _shapes_of_numbers(texts, numbers)
        if seen.shapes["point?"] or not seen.shapes["point"]:
            seen.looked = lambda sign: _look_at_texts(values, name, rules, sign)
        if decimal != "," or not seen.shapes["point?"] or seen.shapes["point"]:
            return _numeric(seen, np.append(numbers, np.nan)[codes])
    suspects = [text for text, bad in zip(texts, unread, strict=True) if bad] or [t for t in texts if t not in MISSING]
    reading = (
        Reading(dates="compact") if compact else _dates(suspects, seen, rules) or _number_rule(suspects, seen, decimal)
    )
    if seen.problem:
        return seen
    if reading is not None:
        reading = replace(reading, missing=rules.missing, limits="" if reading.dates else rules.limits)
        numbers, bad = reading.distinct(texts)
        if not reading.dates and not reading.limits and any(LIMIT.match(texts[i]) for i in np.flatnonzero(bad)):
            reading = replace(reading, limits="number")
            numbers, bad = reading.distinct(texts)
        limited = np.array([bool(LIMIT.match(text)) for text in texts]) & ~bad if reading.limits else np.zeros_like(bad)
        good = ~np.isnan(numbers) & ~bad & ~limited
        share = counts[bad].sum() / counts[good | bad | limited].sum() if (good | bad | limited).any() else 1.0
        many = len(np.unique(numbers[good])) >= _FEW_NUMBERS
        enough = many and 2 * counts[good].sum() >= counts[bad].sum()
        sure = not bad.any() and not limited.any()
        if good.any() and (sure or (enough and share <= _FEW_WORDS and bad.sum() <= 50)):
            words = [texts[i] for i in np.flatnonzero(bad)]
            seen.reading = replace(reading, missing=(*reading.missing, *words))
            _say_what_was_read(seen, codes, counts, texts, good, limited, bad)
            _say_what_is_empty(seen, codes, counts, texts, nothing)
            if not reading.dates:
                seen.shapes = _shapes([text for text, is_good in zip(texts, good, strict=True) if is_good])[0]
            found = np.append(numbers, np.nan)
            found[:-1][bad] = np.nan
            return _numeric(seen, found[codes])
        what = _shape_of(reading.dates) if reading.dates else "numbers"
        if good.any() and share < (0.5 if enough else _FEW_WORDS):
            _mixed(seen, codes, counts, texts, good | limited, bad, what)
        elif many and (share <= 1 - _FEW_WORDS or _are_words(texts, bad)):
            _mixed(seen, codes, counts, texts, good | limited, bad, what)
            seen.change = seen.change if _are_words(texts, bad) else {}  # codes are categories, however many
    return _categorical(seen, texts, counts, len(values))


def _numeric(seen: ColumnLook, numbers: NDArray[np.float64]) -> ColumnLook:
    """Finish a column of numbers: find whether it is empty, constant or an identifier."""
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return _left_out(seen, "every cell is empty", len(numbers))
    seen.missing = len(numbers) - len(known)
    low, high = float(known.min()), float(known.max())
    if low == high and len(known) > 1:
        seen.notes.append(f"constant: it says nothing ({_rule('drop', seen.name)})")
    if seen.reading.dates or seen.missing or len(known) < _FEW_ROWS or not (known % 1 == 0).all():
        return seen
    # from 2**53 on a float is not exactly its whole number: it shows neither how many differ, nor the ends
    own, exact = len(np.unique(known)), max(-low, high) < 2**53
    counter, named = high - low + 1 == len(known) == own and exact, bool(_NAME_OF_ID.search(seen.name))
    unnamed = seen.name.startswith(("column-", "Unnamed"))
    long = low >= 10**_LONG and len(f"{low:.0f}") == len(f"{high:.0f}")
    if not (counter or named or unnamed or long) or (exact and 10 * own < 9 * len(known)):
        return seen
    seen.identifies = named or unnamed
    what = f"each row has its own whole number, {low:.0f} to {high:.0f}"
    if not exact:
        what = "whole numbers of 16 digits or more, whose last ones are lost"
    elif own < len(known):
        what = f"{own:,} different whole numbers in {len(known):,} rows"
    if counter and seen.identifies:
        return _left_out(seen, f"{what}: it counts rows", 0)
    seen.notes.append(f"{what}: an identifier? It is read as numbers ({_rule('drop', seen.name)} leaves it out)")
    return seen


def _categorical(seen: ColumnLook, texts: list[str], counts: NDArray[np.intp], num_rows: int) -> ColumnLook:
    """Finish a column of texts: categories, free text, or an identifier."""
    rows = Counter[str]()
    nothing = missing_texts(seen.reading.missing)
    for text, number in zip(texts, counts, strict=True):
        if (known := canonical(text)) is not None and known not in nothing:
            rows[known] += int(number)
    empty = EMPTY_WORDS - {"none", "nil", "missing"} - ({"-", "\u2212"} if "+" in rows else set())
    words = sorted(text for text in rows if len(text) < 9 and text.casefold() in empty)
    if words:
        seen.reading = replace(seen.reading, missing=(*seen.reading.missing, *words))
        seen.notes.append(f"{' and '.join(map(repr, words))} read as empty")
        rows = Counter({text: number for text, number in rows.items() if text not in words})
    distinct, known_rows = set(rows), sum(rows.values())
    seen.kind = "categorical"
    seen.categories = sorted_texts(np.array([*distinct, None], dtype=object))
    seen.missing = num_rows - known_rows
    if not rows:
        return _left_out(seen, "every cell is empty", num_rows)
    many, own = len(rows), 10 * len(rows) >= 9 * known_rows and known_rows >= _FEW_ROWS
    if 2 * many > known_rows and 2 * sum(len(text.split()) >= _PROSE_WORDS for text in distinct) > many:
        seen.kind = "text"
        return seen
    own = own or (many > _MANY_CATEGORIES and 2 * many > known_rows)
    if seen.change and (own or many > _MANY_MIXED):
        rule = "hold numbers or a limited number of categories"
        problem = explain(f"column {seen.name!r}", rule, f"{many:,} different texts")
        # not within `explain`, which would escape the marks of the rules that are spelt later (`_rule`)
        note = "\0".join(map(printable, seen.notes[-1].split("\0")))
        seen.problem = f"{problem.removesuffix('.')}: {note}."
        return seen
    seen.change = {}
    if own:
        seen.identifies = True
        what = f"{many:,} different texts in {known_rows:,} rows: an identifier or names"
        if "," not in seen.name:
            what += f" ({_rule('id-column', seen.name)} or {_rule('drop', seen.name)} says so)"
        return _left_out(seen, what, seen.missing)
    if many > _MANY_CATEGORIES:
        seen.notes.append(f"{many:,} categories: slow, and each says little ({_rule('drop', seen.name)} leaves it out)")
    alike = {text.casefold(): text for text in sorted(distinct)}
    if many <= _MANY_CATEGORIES and len(alike) < many:
        twins = next((text, alike[text.casefold()]) for text in sorted(distinct) if alike[text.casefold()] != text)
        seen.notes.append(f"{' and '.join(map(repr, twins))} are different categories, as they are spelt otherwise")
    if many == 1 and known_rows > 1:
        seen.notes.append(f"constant: it says nothing ({_rule('drop', seen.name)})")
    return seen


def _left_out(seen: ColumnLook, why: str, missing: int) -> ColumnLook:
    seen.kind, seen.missing, seen.repaired, seen.change = "left out", missing, 0, {}
    seen.notes = [why]
    return seen


# --------------------------------------------------------------------------------------------- how its cells are read


def _are_compact_dates(values: Any) -> bool:
    """Tell whether numbers are dates such as 20210312: nearly all of them, within 1900 to 2099.

    Of all numbers with eight digits one in a thousand is such a date.
    """
    dates = sum(bool(_COMPACT.match(str(value))) for value in values[:_SAMPLE])
    if dates < _FEW_DATES or dates < (1 - _FEW_WORDS) * len(values[:_SAMPLE]):
        return False
    _, bad = Reading(dates="compact").parse(values)
    return int(bad.sum()) <= _FEW_WORDS * len(values)


def _are_codes(texts: list[str]) -> bool:
    """Tell whether numbers are codes such as 007: digits alone, all equally many, some with a leading zero."""
    equal = len({len(text) for text in texts}) == 1
    return equal and all(text.isdecimal() for text in texts) and bool(_leading_zero(texts))


def _leading_zero(texts: list[str]) -> str:
    """Return the first text with a zero before another digit, "" without one."""
    return next((text for text in texts if re.match(r"0\d", text)), "")


def _shape_of(dates: str) -> str:
    """Return what dates of a kind look like: ``dates (12.03.2021)``."""
    return DATES[dates].partition(" as ")[0]


def _dates(texts: list[str], seen: ColumnLook, rules: Rules) -> Reading | None:
    """Return the rule for dates or times that most texts fit; where day and month cannot be told apart, a problem."""
    sample = [text for text in texts[:_SAMPLE] if text.casefold() not in EMPTY_WORDS]
    if not sample:
        return None
    unread = {way: Reading(dates=way).distinct(sample)[1].sum() for way in DATES}
    way = min(unread, key=lambda way: unread[way])
    if 5 * unread[way] > len(sample):
        return None
    if way not in ("day-first", "month-first"):
        return Reading(dates=way)
    day, month = (Reading(dates=one).distinct(texts)[1].sum() for one in ("day-first", "month-first"))
    if all(re.match(r"\d{1,2}\.", text) for text in sample):  # with points, the day comes first everywhere
        return Reading(dates="day-first")
    if day != month:
        return Reading(dates="day-first" if day < month else "month-first")
    if rules.dates:
        return Reading(dates=rules.dates)
    first = next(text for text in texts if not Reading(dates="day-first").distinct([text])[1][0])
    seen.problem = explain(
        f"column {seen.name!r}", "hold dates that can be read in one way", f"{first!r} and no day above 12"
    )
    seen.choices = {
        f"If the day comes first in {first}": {"dates": "day-first"},
        "If the month comes first": {"dates": "month-first"},
    }
    return None


def _shapes(texts: list[str]) -> tuple[Counter[str], set[str], set[str]]:
    """Count what the signs in numbers say; return also their units, and the signs between their thousands."""
    shapes: Counter[str] = Counter()
    units, groups = set(), set()
    for text in texts:
        found = _CELL.fullmatch(text.replace("\u2212", "-"))
        if not found:
            shapes["none"] += 1
            continue
        units.add(found["before"] or found["behind"] or "")
        body = found["body"]
        if _SPACED.search(body):
            body = _SPACED.sub("", body)
            groups.add(" ")
        if re.match(r"[+-]?\d{1,3}('\d{3})+", body):
            body = body.replace("'", "")
            groups.add("'")
        shape = next((name for name, pattern in _SHAPES.items() if pattern.fullmatch(body)), "none")
        shapes[shape.rstrip("?") if found["exponent"] else shape] += 1  # before an exponent stand no thousands
    return shapes, units - {""}, groups


def _number_rule(texts: list[str], seen: ColumnLook, decimal: str) -> Reading | None:
    """Return the rule by which texts are numbers, as far as the signs in them say; None if most are no numbers."""
    shapes, units, groups = _shapes(texts[:_SAMPLE])
    numbers = sum(shapes.values()) - shapes["none"]
    if len(texts) > _SAMPLE and not shapes["comma"] and (shapes["comma?"] or shapes["point?"]):
        shapes, units, groups = _shapes(texts)
        numbers = sum(shapes.values()) - shapes["none"]
    unit = units.pop() if len(units) == 1 else ""
    if not numbers:
        return Reading() if any(LIMIT.match(text) for text in texts) or len(texts) <= 50 else None
    seen.shapes = shapes
    if decimal == ",":
        thousands = "." if shapes["thousands-point"] or shapes["point?"] else ""
    elif decimal == ".":
        thousands = "," if shapes["thousands-comma"] or shapes["comma?"] else ""
    elif shapes["comma"] and not shapes["thousands-comma"]:
        decimal, thousands = ",", "." if shapes["thousands-point"] else ""
    elif shapes["thousands-point"] and not shapes["thousands-comma"] and not shapes["point"]:
        decimal, thousands = ",", "."
    elif shapes["thousands-comma"] and not shapes["comma"]:
        decimal, thousands = ".", ","
    else:
        decimal, thousands = ".", "," if shapes["comma?"] else ""
    if groups and not thousands:
        thousands = groups.pop()
    return Reading(decimal=decimal, thousands=thousands, unit=unit)


def one_decimal_sign(seen: list[ColumnLook], rules: Rules) -> list[ColumnLook]:
    """Read the columns whose commas or points may mean two things as the other columns of the file are read."""
    comma = any(one.kind == "numeric" and one.reading.decimal == "," for one in seen)
    point = any(one.kind == "numeric" and (one.shapes["point"] or one.shapes["thousands-comma"]) for one in seen)
    of_file = rules.decimal or ("," if comma else "." if point else "")
    done = []
    for one in seen:
        if one.kind != "numeric" or one.reading.dates or one.problem:
            done.append(one)
            continue
        shapes = one.shapes
        unclear = bool(shapes["comma?"]) and not (shapes["comma"] or shapes["thousands-comma"] or shapes["point"])
        if one.looked is not None and of_file == "," and shapes["point?"] and not shapes["point"]:
            one = one.looked(",")
        elif one.looked is not None and of_file == "," and not shapes["point"] and one.reading.decimal == ".":
            one.reading = replace(one.reading, decimal=",")  # whole numbers here; another silo may have decimals
        elif one.looked is not None and shapes["point?"] and not shapes["point"] and not rules.decimal:
            other = _rule("decimal", ",")
            one.notes.append(f"three decimals each: read with a decimal point ({other} reads them as thousands)")
        elif unclear and not of_file:
            rule = "hold numbers that can be read in one way"
            one.problem = explain(f"column {one.name!r}", rule, f"commas before three digits only ({one.example})")
            one.choices = {
                "If 1,234 there means 1.234": {"decimal": ","},
                "If 1,234 means one thousand": {"decimal": "."},
            }
        elif unclear and of_file == "," and one.reading.thousands == ",":
            one.reading = replace(one.reading, decimal=",", thousands="")
        done.append(one)
    return done


# --------------------------------------------------------------------------------------------------- what is said of it


def _say_what_was_read(
    seen: ColumnLook,
    codes: NDArray[np.intp],
    counts: NDArray[np.intp],
    texts: list[str],
    good: NDArray[np.bool_],
    limited: NDArray[np.bool_],
    bad: NDArray[np.bool_],
) -> None:
    """Note which cells needed a rule, how many, and the first of them with its row."""
    rule = replace(seen.reading, missing=(), limits="")
    _, plain_bad = PLAIN.distinct(texts)
    total = counts[good | limited | bad].sum()
    needed = good & (plain_bad | (rule.thousands == ".") | (rule.dates == "compact"))
    seen.repaired = int(counts[needed].sum() + (counts[limited].sum() if seen.reading.limits == "number" else 0))
    if needed.any():
        seen.example = _shown(codes, texts, needed, 1)
        percent = int(100 * counts[needed].sum() // total)
        share = "all cells" if percent == 100 else f"{percent} %"
        if rule.dates:
            what = f"{share} look like {_shape_of(rule.dates)}: read as {seen.read_as}"
        elif rule.decimal == ",":
            what = f"{share} look like decimal-comma numbers: read so ({_rule('decimal', ',')})"
        elif rule.unit and not rule.thousands:
            what = f"{share} have the unit {rule.unit}: left out"
        else:
            what = f"{share} have the sign {rule.thousands!r} between thousands: read so"
        seen.notes.append(what if percent == 100 else f"{what}; first {seen.example}")
    if limited.any():
        number = int(counts[limited].sum())
        then = "as the limit itself" if seen.reading.limits == "number" else "as empty"
        other = "missing" if seen.reading.limits == "number" else "number"
        done = f"read {then} ({_rule('limits', seen.reading.limits)}); {_rule('limits', other)} does otherwise"
        seen.notes.append(f"{_cells(number)} no number: {_shown(codes, texts, limited)}: {done}")
    if bad.any():
        words = [texts[i] for i in np.flatnonzero(bad)]
        number = int(counts[bad].sum())
        said = "" if any("," in word for word in words) else f" ({_rule('missing', ','.join(words))})"
        what = "date" if rule.dates else "number"
        seen.notes.append(f"{_cells(number)} no {what}: {_shown(codes, texts, bad)}: read as empty{said}")


def _say_what_is_empty(
    seen: ColumnLook, codes: NDArray[np.intp], counts: NDArray[np.intp], texts: list[str], nothing: NDArray[np.bool_]
) -> None:
    """Note the known words for "no value" among numbers, such as a dash."""
    if nothing.any():
        number = int(counts[nothing].sum())
        seen.notes.append(f"{counted(number, 'cell')} read as empty: {_shown(codes, texts, nothing)}")


def _mixed(
    seen: ColumnLook,
    codes: NDArray[np.intp],
    counts: NDArray[np.intp],
    texts: list[str],
    good: NDArray[np.bool_],
    bad: NDArray[np.bool_],
    what: str,
) -> None:
    """Note that a column holds numbers (or dates: ``what``) and words, and what would make it a column of numbers."""
    words = [texts[i] for i in np.flatnonzero(bad)]
    percent = int(100 * counts[good].sum() // counts[good | bad].sum())
    seen.notes.append(f"{percent} % of the cells are {what}, others are not: {_shown(codes, texts, bad)}")
    usable = len(words) <= _FEW_TEXTS and not any("," in word for word in words)
    seen.change = {"missing": ",".join(words)} if usable else {"drop": seen.name}
    if usable:
        seen.notes[-1] += f" ({_rule('missing', ','.join(words))} reads them as empty, and the column as {what})"


def _are_words(texts: list[str], bad: NDArray[np.bool_]) -> bool:
    """Tell whether what is no number are few words, such as "unknown", and not codes such as E11."""
    return bool(bad.sum() <= _FEW_TEXTS) and not any(re.search(r"\d", texts[i]) for i in np.flatnonzero(bad))


def _shown(codes: NDArray[np.intp], texts: list[str], which: NDArray[np.bool_], most: int = 3) -> str:
    """Name the first cells of distinct texts, with their rows, which count from 1 below the header."""
    chosen = np.append(which, False)[codes]
    rows = np.flatnonzero(chosen)
    shown: dict[str, int] = {}
    for row in rows[:1000]:
        shown.setdefault(texts[codes[row]], int(row) + 1)
        if len(shown) == most:
            break
    return ", ".join(f"{text[:40]!r} in row {row}" for text, row in shown.items())


def _rule(key: str, value: str) -> str:
    """Return a rule as a note holds it until it is known how commands spell it (`_spelt`)."""
    return f"\0{key}={value}\0".replace("\n", " ")


def _cells(number: int) -> str:
    return f"{number:,} cell{' is' if number == 1 else 's are'}"
