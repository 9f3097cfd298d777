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

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.data.columns import MISSING, column_name, factorize
from fedkd_flwr.data.dates import ALONE, DATES, days_of_date, days_of_texts, text_of_days
from fedkd_flwr.errors import DataError, explain

__all__ = ["EMPTY_WORDS", "PLAIN", "Reading", "column_numbers", "ends_of_range", "readable_numbers"]

EMPTY_WORDS = frozenset(
    {"-", "--", "---", "\u2212", "–", "—", ".", "..", "...", "n.a.", "n. a.", "k.a.", "k. a."}
    | {"na", "n/a", "nan", "none", "null", "nil", "missing"}
)
"""Words, in lower case, that mean "no value" where a number or a date should stand; in other columns only if named."""

_END = r"[+\-\u2212]?(?!0\d)(?:\d|[.,]\d)[\d.,']*"  # 030-12 is a code
_RANGE = re.compile(
    rf"(?P<bracket>[\[(]\s*)?(?P<low>{_END})\s*(?(bracket),|(?:-|\u2013|\u2014|to|bis|\.\.))\s*"
    rf"(?P<high>{_END}(?(bracket)|(?:\s*[^\d\s\-].*)?))(?(bracket)\s*[\])])"
)
_BOUND = re.compile(
    r"(?:[<>]=?|[≤≥]|under |below |less than |up to |unter |bis |over |above |more than |at least |über |ab )"
    r"\s*(?P<end>[+\-\u2212]?[\d.,].*)",
    re.IGNORECASE,
)
_OR_MORE = re.compile(rf"(?P<end>{_END})\s*(?:\+|and over|and older|or more|or older|und mehr|und älter)(?P<unit>.*)")
_SPACES = re.compile(r"(?<=\d)[ \u00a0\u2009\u202f](?=\d)")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The rules of one column; by default a cell is a number with a decimal point, or empty.

    >>> Reading(decimal=",", ranges=True).parse(["1,5", "<0,5", "", "old"])
    (array([1.5, 0.5, nan, nan]), array([False, False, False,  True]))
    >>> Reading(dates="day-first").parse(["02.01.1970", "2.1.70 12:00"])[0]
    array([1. , 1.5])
    >>> Reading(ranges=True, unit="years").parse(["< 1 year", "2-3 years", "9 years", "10+ years"])[0]
    array([ 1. ,  2.5,  9. , 10. ])
    """

    decimal: str = "."  # or ","
    thousands: str = ""  # the sign between groups of three digits: , or . or ' or a space
    unit: str = ""  # may stand before or behind each number, as % or mg/l; it is left out: 12 % is 12
    dates: str = ""  # one of `DATES`; a zone is counted in UTC, and 2-digit years are 1969 to 2068
    ranges: bool = False  # a bound such as <0.5 or 80+ is its number, and 30-39 its middle
    # Further texts that mean "no value", of categories too. One that is a number, such as -999, means it in every
    # spelling (-999.0), and where a file holds it as a number.
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("decimal", self.decimal, (".", ","), error=DataError)
        check_choice("thousands", self.thousands, ("", ",", ".", "'", " "), error=DataError)
        check_choice("dates", self.dates, ("", *DATES), error=DataError)
        if self.thousands == self.decimal:
            raise DataError(explain("thousands", "differ from decimal", self.thousands))
        object.__setattr__(self, "missing", tuple(map(column_name, self.missing)))

    @property
    def of_numbers(self) -> bool:
        """Tell whether a rule is set that only numbers have."""
        return bool(self.rules.keys() - {"missing"})

    @property
    def rules(self) -> dict[str, Any]:
        """The rules that are set, by name."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) != one.default}

    def __str__(self) -> str:
        """Return the rules that are set, as a schema writes them: ``decimal=',', unit='mg/l'``."""
        return ", ".join(f"{name}={value!r}" for name, value in self.rules.items())

    def parse(self, values: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the numbers of a column, NaN for empty cells, and which cells are neither a number nor empty.

        The number of such a bad cell is NaN or an infinity.
        """
        array = values if isinstance(values, np.ndarray) else pd.Series(values).to_numpy()
        of_days = self.dates not in ("", *ALONE)
        if array.dtype.kind in "biuf" and not of_days:
            numbers = array.astype(np.float64)
            numbers[_among(array, self._named)] = np.nan
            return numbers, np.isinf(numbers)
        if array.dtype.kind == "M":
            days = np.where(np.isnat(array), np.nan, array.astype("datetime64[us]").astype(np.int64) / 86_400e6)
            days[_among(days, self._named)] = np.nan
            return np.where(of_days, days, np.nan), ~np.isnan(days) & (not of_days)
        if array.dtype.kind == "m":  # durations: days as dates are, hours as times are
            days = np.where(np.isnat(array), np.nan, array / np.timedelta64(1, "D"))
            return days * 24 if self.dates == "time" else days, ~np.isnan(days) & of_days
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
                plain[_among(plain, self._named)] = np.nan
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
            found = self._read(texts)
            bounds = [bool(ends_of_range(text)) for text in texts] if self._named and self.ranges else False
            empty = _among(found, self._named) & ~np.asarray(bounds)  # <5 is not its 5
            numbers[where], bad[where] = np.where(empty, np.nan, found), np.isnan(found)
        return numbers, bad | np.isinf(numbers)

    def _spelt(self, value: object) -> str | float:
        """Return a value that is no text: numbers as they are, dates in days, others as text."""
        if isinstance(value, Real | Decimal | np.bool_):  # as in an array of numbers, which has no empty cell
            number = float(value)
            if self.dates not in ("", *ALONE):  # 20210312 is a date, and no number of days
                return f"{number:.0f}" if number % 1 == 0 else str(number)
            return math.nan if number in self._named else number
        if isinstance(value, date) and self.dates not in ("", *ALONE):
            with suppress(ArithmeticError, ValueError, NotImplementedError):  # pandas' dates may be of the year 30,000
                return math.nan if (days := days_of_date(value)) in self._named else days
        if isinstance(value, bytes):
            return value.decode("utf-8", errors="replace").strip()
        return str(value).strip()

    def spell(self, numbers: NDArray[Any]) -> list[str]:
        """Return numbers, (n,), as texts that `parse` reads as the same; of dates the day or minute alone."""
        if self.dates:
            return [text_of_days(number, self.dates) for number in numbers.tolist()]
        return [str(number).replace(".", self.decimal) for number in numbers.tolist()]

    def is_empty(self, text: str) -> bool:
        """Tell whether a stripped text means "no value" where a number should stand."""
        if text in MISSING or column_name(text) in self.missing:
            return True
        return len(text) < 9 and not text[-1:].isdigit() and text.casefold() in EMPTY_WORDS  # most end in a digit

    @cached_property
    def _named(self) -> frozenset[float]:
        """The words of ``missing`` that are numbers or days, each meant in every spelling."""
        words = [word.strip() for word in self.missing if word.strip()]
        numbers = replace(self, ranges=False, missing=())._read(words) if words else np.zeros(0)
        return frozenset(numbers[~np.isnan(numbers)].tolist())

    def _read(self, texts: list[str]) -> NDArray[np.float64]:
        return days_of_texts(texts, self.dates) if self.dates else self._numbers(texts)

    def _numbers(self, texts: list[str]) -> NDArray[np.float64]:
        """Return texts as numbers, NaN where one is none: several times faster together than one by one."""
        if self.ranges and any(ends := [ends_of_range(text) for text in texts]):
            sides = zip(*(end or (text, text) for end, text in zip(ends, texts, strict=True)), strict=True)
            low, high = (replace(self, ranges=False)._numbers(list(side)) for side in sides)
            return np.where(low <= high, (low + high) / 2, np.nan)
        texts = [text.replace("\u2212", "-") for text in texts]  # the minus that is no hyphen
        if self.unit:
            texts = [text.removesuffix(self.unit).removeprefix(self.unit).strip() for text in texts]
            if self.unit[-1] == "s" and self.unit[:-1].isalpha():  # 1 year beside 2 years
                texts = [text.removesuffix(self.unit[:-1]).strip() for text in texts]
        if self.thousands:
            sign = re.escape(self.thousands)
            grouped = re.compile(rf"[+-]?\d{{1,3}}({sign}\d{{3}})+(?![\d{sign}]).*")
            plain = [_SPACES.sub(" ", text) for text in texts] if self.thousands == " " else texts
            texts = [text.replace(self.thousands, "") if grouped.fullmatch(text) else text for text in plain]
        if self.decimal == ",":
            texts = [text.replace(",", ".") if "." not in text else "no number" for text in texts]
        numbers = _floats(np.array(texts, dtype=object))
        return np.array([_number(text) for text in texts]) if numbers is None else numbers


PLAIN = Reading()
"""Numbers with a decimal point."""


def ends_of_range(text: str) -> tuple[str, str] | None:
    """Return the texts of the two ends of a range, or twice that of a bound, None if the text is neither.

    >>> [ends_of_range(text) for text in ("30-39 kg", "[30, 40)", "<0.5", "10+ years", "30")]
    [('30', '39 kg'), ('30', '40'), ('0.5', '0.5'), ('10 years', '10 years'), None]
    """
    if found := _RANGE.fullmatch(text):
        return found["low"], found["high"].strip()
    if found := _BOUND.fullmatch(text):
        return (found["end"],) * 2
    if found := _OR_MORE.fullmatch(text):
        return (f"{found['end']}{found['unit']}",) * 2
    return None


def column_numbers(values: Any, name: str, reading: Reading = PLAIN) -> NDArray[np.float64]:
    """Return a numeric column as float64, NaN where a value is missing; `DataError` names what is no number."""
    numbers, bad = reading.parse(values)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        value = np.asarray(values, dtype=object)[row]
        if np.isinf(numbers[row]):
            rule, way_out = "hold finite numbers", "Correct it or leave it empty."
        else:
            rule = f"hold {DATES[reading.dates]}" if reading.dates else "hold numbers"
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
