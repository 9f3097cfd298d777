"""How the cells of one column are read: decimal commas, units, dates, detection limits, words for "no value".

A schema states these rules for each column, so every silo reads its own raw file in the same way. A rule looks at one
cell at a time: what one row holds never decides how another row is read. Numbers that a file holds as numbers (Parquet,
NPZ) are taken as they are, and the same number has the same value in every spelling.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.data.columns import MISSING, factorize
from fedkd_flwr.data.dates import ALONE, DATES, days_of_date, days_of_texts, in_words, text_of_days
from fedkd_flwr.errors import DataError, explain

__all__ = ["EMPTY_WORDS", "LIMIT", "PLAIN", "Reading", "column_numbers", "ends_of_range", "readable_numbers"]

EMPTY_WORDS = frozenset(
    {"-", "--", "---", "\u2212", "–", "—", ".", "..", "...", "n.a.", "n. a.", "k.a.", "k. a."}
    | {"na", "n/a", "nan", "none", "null", "nil", "missing"}
)
"""Words, in lower case, that mean "no value" where a number or a date should stand; in other columns only if named."""

LIMIT = re.compile(r"([<>]=?|[≤≥])\s*(?=[+\-\u2212]?[\d.,])")
"""The start of a value below or above a limit: ``<0.5``."""

_DIGITS_OF_DATE = 10_000_000  # numbers from here on are dates such as 20210312, in a column of other dates none
_END = r"[+\-\u2212]?(?!0\d)(?:\d|[.,]\d)[\d.,']*"  # 030-12 is a code
_RANGE = re.compile(
    rf"(?P<bracket>[\[(]\s*)?(?P<low>{_END})\s*(?(bracket),|(?:-|\u2013|\u2014|to|bis|\.\.))\s*"
    rf"(?P<high>{_END}(?(bracket)|(?:\s*[^\d\s\-].*)?))(?(bracket)\s*[\])])"
)
_BELOW = re.compile(
    r"(?:<=?|≤|under |below |less than |up to |unter |bis )\s*(?P<end>[+\-\u2212]?[\d.,].*)", re.IGNORECASE
)
_ABOVE = re.compile(
    r"(?:>=?|≥|over |above |more than |at least |über |ab )\s*(?P<end>[+\-\u2212]?[\d.,].*)", re.IGNORECASE
)
_OR_MORE = re.compile(rf"(?P<end>{_END})\s*(?:\+|and over|and older|or more|or older|und mehr|und älter)(?P<unit>.*)")
_SPACES = re.compile(r"(?<=\d)[ \u00a0\u2009\u202f](?=\d)")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The rules of one column; by default a cell is a number with a decimal point, or empty.

    >>> Reading(decimal=",", limits="number").parse(["1,5", "<0,5", "", "old"])
    (array([1.5, 0.5, nan, nan]), array([False, False, False,  True]))
    >>> Reading(dates="day-first").parse(["02.01.1970", "2.1.70 12:00"])[0]
    array([1. , 1.5])
    >>> Reading(limits="middle", unit="years").parse(["< 1 year", "2-3 years", "9 years", "10+ years"])[0]
    array([ 0.5,  2.5,  9. , 10. ])
    """

    decimal: str = "."  # or ","
    thousands: str = ""  # the sign between groups of three digits: , or . or ' or a space
    unit: str = ""  # may stand before or behind each number, as % or mg/l; it is left out: 12 % is 12
    # One of `DATES`, or several, as in iso+day-first. A zone is counted in UTC, and 2-digit years are 1969 to 2068.
    dates: str = ""
    # What <0.5 is: "" no number, "number" 0.5, "middle" of 0 and it, or "missing": an empty cell. With the last two
    # 30-39 and 80+ are read as well: as 34.5 and 80, or as empty cells.
    limits: str = ""
    # Further texts that mean "no value", of categories too. One that is a number, such as -999, means it in every
    # spelling (-999.0), and where a file holds it as a number.
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("decimal", self.decimal, (".", ","), error=DataError)
        check_choice("thousands", self.thousands, ("", ",", ".", "'", " "), error=DataError)
        for way in (ways := self.dates.split("+") if self.dates else ()):
            check_choice("dates", way, tuple(DATES), error=DataError)
        if len(ways) > 1 and (len({*ways} - {*ALONE}) < len(ways) or {"day-first", "month-first"} <= {*ways}):
            raise DataError(explain("dates", "name ways of which one cell fits no two", self.dates))
        check_choice("limits", self.limits, ("", "number", "middle", "missing"), error=DataError)
        if self.thousands == self.decimal:
            raise DataError(explain("thousands", "differ from decimal", self.thousands))

    @property
    def of_numbers(self) -> bool:
        """Tell whether a rule is set that only numbers have."""
        return any(getattr(self, one.name) != one.default for one in fields(self) if one.name != "missing")

    @property
    def words(self) -> str:
        """How a cell is written and what it becomes, for people; "" where no rule is set.

        >>> Reading(dates="day-first").words
        'dates (12.03.2021), the day first, as days since 1970-01-01'
        >>> Reading(decimal=",", unit="mg/l", limits="number").words
        'decimal comma; with or without the unit mg/l; a limit such as <0.5 is its number'
        """
        shape, _, becomes = in_words(self.dates).partition(" as ") if self.dates else ("",) * 3
        first = f", the {self.dates.partition('-')[0]} first" if self.dates.endswith("-first") else ""
        thousands = {" ": "space", "'": "apostrophe", ".": "point", ",": "comma"}.get(self.thousands, "")
        limit = {"number": "its number", "middle": "half of it", "missing": "no value"}.get(self.limits, "")
        found = [
            f"{shape}{first}, as {becomes}" if shape else "",
            "decimal comma" if self.decimal == "," else "",
            f"{thousands} between thousands" if thousands else "",
            f"with or without the unit {self.unit}" if self.unit else "",
            f"a limit such as <0.5 is {limit}" if limit else "",
            f"no value: {', '.join(self.missing)}" if self.missing else "",
        ]
        return "; ".join(filter(None, found))

    def parse(self, values: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the numbers of a column, NaN for empty cells, and which cells are neither a number nor empty.

        The number of such a bad cell is NaN or an infinity.
        """
        array = values if isinstance(values, np.ndarray) else pd.Series(values).to_numpy()
        if array.dtype.kind in "biuf":
            numbers = array.astype(np.float64)
            numbers[_among(array, self._named[0])] = np.nan
            if self.dates not in ("", *ALONE) and (dates := np.isfinite(numbers) & (numbers >= _DIGITS_OF_DATE)).any():
                bad = np.isinf(numbers)
                numbers[dates], bad[dates] = self.distinct([str(int(number)) for number in numbers[dates]])
                return numbers, bad
            return numbers, np.isinf(numbers)
        if array.dtype.kind == "M":
            days = array.astype("datetime64[us]").astype(np.int64) / 86_400e6
            empty = np.isnat(array)
            fits = self.dates not in ("", *ALONE)
            empty |= _among(days, self._named[1])
            return np.where(empty | (not fits), np.nan, days), ~empty & (not fits)
        if array.dtype.kind == "m":  # durations: days as dates are, hours as times are
            days = np.where(np.isnat(array), np.nan, array / np.timedelta64(1, "D"))
            fits = self.dates in ("", *ALONE)
            return days * 24 if self.dates == "time" else days, ~np.isnan(days) & (not fits)
        codes, distinct = factorize(values)
        numbers, bad = np.full(len(distinct) + 1, np.nan), np.zeros(len(distinct) + 1, dtype=bool)
        numbers[:-1], bad[:-1] = self.distinct(np.asarray(distinct, dtype=object).tolist())
        return numbers[codes], bad[codes]

    def distinct(self, values: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return what `parse` does for each of a list of values."""
        if not self.of_numbers and all(type(value) is str for value in values):
            array = np.array(values, dtype=object)
            plain = _floats(np.where(array == "", "nan", array))  # several times quicker
            # float() also reads -nan, which is no word for an empty cell
            if plain is not None and all(self.is_empty(text.strip()) for text in array[np.isnan(plain)]):
                plain[_among(plain, self._named[1])] = np.nan
                return plain, np.isinf(plain)
        numbers, bad = np.full(len(values), np.nan), np.zeros(len(values), dtype=bool)
        texts: list[str] = []
        where: list[int] = []
        for i, value in enumerate(values):
            text = value.strip() if isinstance(value, str) else self._spelt(value)
            if isinstance(text, float):
                numbers[i] = text
            elif not self.is_empty(text):
                texts.append(text)
                where.append(i)
        if texts:
            found = self._dates(texts) if self.dates else self._numbers(texts)
            named = self._are_named(texts, found)
            numbers[where], bad[where] = np.where(named, np.nan, found), np.isnan(found) & ~named
            if self.limits == "missing":
                below = [i for i, text in zip(where, texts, strict=True) if self._is_bound(text)]
                numbers[below] = np.where(bad[below], np.inf, np.nan)
        return numbers, bad | np.isinf(numbers)

    def _spelt(self, value: object) -> str | float:
        """Return a value that is no text: numbers as they are, dates in the form that is looked for, others as text."""
        if isinstance(value, Real | Decimal | np.bool_):  # as in an array of numbers, which has no empty cell
            number = float(value)
            if number in self._named[0]:
                return math.nan
            of_date = self.dates not in ("", *ALONE) and math.isfinite(number) and number >= _DIGITS_OF_DATE
            return str(int(number)) if of_date else number
        if isinstance(value, date) and self.dates not in ("", *ALONE):
            with suppress(ArithmeticError, ValueError, NotImplementedError):  # pandas' dates may be of the year 30,000
                return math.nan if (days := days_of_date(value)) in self._named[1] else days
        if isinstance(value, bytes):
            return value.decode("utf-8", errors="replace").strip()
        return str(value).strip()

    def spell(self, numbers: NDArray[Any]) -> list[str]:
        """Return numbers, (n,), as texts that `parse` reads as the same; of dates the day or minute alone."""
        if self.dates:
            return [text_of_days(number, self.dates.split("+")[0]) for number in numbers.tolist()]
        return [str(number).replace(".", self.decimal) for number in numbers.tolist()]

    def is_empty(self, text: str) -> bool:
        """Tell whether a stripped text means "no value" where a number should stand."""
        if text in MISSING or text in self.missing:
            return True
        return len(text) < 9 and not text[-1:].isdigit() and text.casefold() in EMPTY_WORDS  # most end in a digit

    @cached_property
    def _named(self) -> tuple[frozenset[float], frozenset[float]]:
        """The words of ``missing`` that are numbers: as a cell holds a number, and as a cell spells it (or a date)."""
        words = [word.strip() for word in self.missing if word.strip() and not self._is_bound(word.strip())]
        if not words:
            return frozenset(), frozenset()
        numbers = Reading()._numbers(words) if self.dates else self._numbers(words)
        spelt = self._dates(words) if self.dates else numbers
        return frozenset(numbers[~np.isnan(numbers)].tolist()), frozenset(spelt[~np.isnan(spelt)].tolist())

    def _are_named(self, texts: list[str], found: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which texts, read as ``found``, a word of ``missing`` means in another spelling; <5 is not its 5."""
        if not self.missing:
            return np.zeros(len(texts), dtype=bool)
        words = {normalize("NFC", word) for word in self.missing}
        named = np.array([not text.isascii() and normalize("NFC", text) in words for text in texts])
        numbers, spelt = self._named
        if numbers or spelt:
            same = _among(found, spelt)
            if self.dates:
                same |= _among(Reading()._numbers(texts), numbers)
            named |= same & [not self._is_bound(text) for text in texts]
        return named

    def _is_bound(self, text: str) -> bool:
        """Tell whether a text is no exact number but a limit, or where these are read a range."""
        return bool(LIMIT.match(text) or (self.limits in ("middle", "missing") and ends_of_range(text)))

    def _numbers(self, texts: list[str]) -> NDArray[np.float64]:
        """Return texts as numbers, NaN where one is none: several times faster together than one by one."""
        if self.limits in ("middle", "missing") and any(ends := [ends_of_range(text) for text in texts]):
            sides = zip(*(end or (text, text) for end, text in zip(ends, texts, strict=True)), strict=True)
            low, high = (replace(self, limits="")._numbers(list(side)) for side in sides)
            return np.where(low <= high, (low + high) / 2, np.nan)
        if self.limits:
            texts = [LIMIT.sub("", text, count=1) if text[0] in "<>≤≥" else text for text in texts]
        texts = [text.replace("\u2212", "-") for text in texts]  # the minus that is no hyphen
        if self.unit:
            texts = [text.removesuffix(self.unit).removeprefix(self.unit).strip() for text in texts]
            if self.unit[-1] == "s" and self.unit[:-1].isalpha():  # 1 year beside 2 years
                texts = [text.removesuffix(self.unit[:-1]).strip() for text in texts]
        if self.thousands == " ":
            grouped = re.compile(r"[+-]?\d{1,3}( \d{3})+(?!\d).*")
            plain = [_SPACES.sub(" ", text) for text in texts]
            texts = [text.replace(" ", "") if grouped.fullmatch(text) else text for text in plain]
        elif self.thousands:
            sign = re.escape(self.thousands)
            grouped = re.compile(rf"[+-]?\d{{1,3}}({sign}\d{{3}})+(?![\d{sign}]).*")
            texts = [
                text.replace(self.thousands, "") if self.thousands in text and grouped.fullmatch(text) else text
                for text in texts
            ]
        if self.decimal == ",":
            texts = [text.replace(",", ".") if "." not in text else "no number" for text in texts]
        numbers = _floats(np.array(texts, dtype=object))
        return np.array([_number(text) for text in texts]) if numbers is None else numbers

    def _dates(self, texts: list[str]) -> NDArray[np.float64]:
        each = [days_of_texts(texts, way) for way in self.dates.split("+")]
        return np.asarray(np.fmax.reduce(each), dtype=np.float64)  # no cell is read in two ways


PLAIN = Reading()
"""Numbers with a decimal point."""


def ends_of_range(text: str) -> tuple[str, str] | None:
    """Return the texts of the two ends of a range or bound, None if the text is neither.

    What has no lower end begins at 0 unless it is negative, and what has no upper end stays at its bound.

    >>> [ends_of_range(text) for text in ("30-39 kg", "[30, 40)", "<0.5", "10+ years", "30")]
    [('30', '39 kg'), ('30', '40'), ('0', '0.5'), ('10 years', '10 years'), None]
    """
    if found := _RANGE.fullmatch(text):
        return found["low"], found["high"].strip()
    if found := _BELOW.fullmatch(text):
        return ("0" if found["end"][0] not in "-\u2212" else found["end"]), found["end"]
    if found := _ABOVE.fullmatch(text):
        return found["end"], found["end"]
    if found := _OR_MORE.fullmatch(text):
        return (f"{found['end']}{found['unit']}",) * 2
    return None


def column_numbers(values: Any, name: str, reading: Reading = PLAIN) -> NDArray[np.float64]:
    """Return a numeric column as float64, NaN where a value is missing; `DataError` names what is no number."""
    numbers, bad = reading.parse(values)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        value = np.asarray(values, dtype=object)[row]
        if np.isinf(numbers[row]) and reading.limits != "missing":
            rule, way_out = "hold finite numbers", "Correct it or leave it empty."
        else:
            rule = f"hold {in_words(reading.dates)}" if reading.dates else "hold numbers"
            now = f"dates {reading.dates}" if reading.dates else f"decimal {reading.decimal!r}"
            way_out = "Write dates as in training, or empty" if reading.dates else "Correct or empty"
            way_out += " such cells; or let fedkd server schema PUBLIC_FILE write how this column is to be read"
            way_out += f" (now: {now}), or call it categorical in the schema."
        more = f" (and {bad.sum() - 1} more)" if bad.sum() > 1 else ""
        raise DataError(explain(f"column {name!r}", rule, f"{value!r} in row {row + 1}{more}", way_out))
    return numbers


def readable_numbers(values: Any, reading: Reading = PLAIN, *, pixels: bool = False) -> NDArray[np.bool_]:
    """Tell of each value whether `column_numbers` reads it; for ``pixels`` only whole numbers within 0 to 255."""
    numbers, bad = reading.parse(values)
    if pixels:
        bad |= ~((numbers >= 0) & (numbers <= 255) & (numbers % 1 == 0))
    return ~bad


def _among(array: NDArray[Any], numbers: frozenset[float]) -> NDArray[np.bool_]:
    """Tell which values are one of some numbers, at the precision of the array."""
    wanted = np.array(sorted(numbers), dtype=np.float64)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            wanted = wanted.astype(array.dtype)
    return np.isin(array, wanted) if len(wanted) else np.zeros(array.shape, dtype=bool)


def _floats(texts: NDArray[np.object_]) -> NDArray[np.float64] | None:
    """Return texts as numbers, or None if one is none."""
    if "_" in "".join(texts):  # float() also reads 1_000, which is not a number in a table
        return None
    try:
        return texts.astype(np.float64)
    except ValueError:
        return None


def _number(text: str) -> float:
    try:
        return float(text if "_" not in text else "no number")
    except ValueError:
        return np.nan
