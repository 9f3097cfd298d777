"""The values of one raw column, the same for every file format.

A value may be text in a CSV file and a number in a Parquet file: ``"1"``, ``1`` and ``1.0`` are one class and one
category. Values are compared by their canonical text, so parties with different file formats agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain

__all__ = ["MISSING", "canonical", "column_numbers", "column_texts", "readable_numbers", "short_list", "sorted_texts"]

MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "<NA>", "nan", "NaN", "NAN", "NULL", "null"})
"""Texts that mean "no value": those that pandas reads as missing, and UCI's question mark."""

# a text with a leading zero ("007") is an identifier, so it is not read as a number
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?")


def canonical(value: object) -> str | None:
    """Return the canonical text of one raw value, or None if it is missing.

    >>> [canonical(v) for v in (" >50K ", 1, 1.0, "1.0", "+1", "007", "?", float("nan"))]
    ['>50K', '1', '1', '1', '1', '007', None, None]
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    text = str(value).strip()
    if text in MISSING:
        return None
    if not isinstance(value, bool) and _NUMBER.fullmatch(text):
        whole, _, fraction = text.lstrip("+").partition(".")
        fraction = fraction.rstrip("0")
        text = f"{whole}.{fraction}" if fraction else ("0" if whole == "-0" else whole)
    return text


def column_texts(values: Any) -> NDArray[np.object_]:
    """Return the canonical texts of a column, with None for missing values.

    Parameters
    ----------
    values : array-like of shape (n,)
        Raw values of any type.

    Returns
    -------
    ndarray of shape (n,), object
    """
    codes, uniques = _factorize(values)
    # code -1 (missing) indexes the additional last slot, which holds None
    texts = np.empty(len(uniques) + 1, dtype=object)
    texts[:-1] = [canonical(value) for value in uniques]
    return texts[codes]


def column_numbers(values: Any, name: str) -> NDArray[np.float64]:
    """Return a numeric column as float64, with NaN for missing values.

    Parameters
    ----------
    values : array-like of shape (n,)
        Numbers, or texts that spell numbers with a decimal point.
    name : str
        The column's name, for the message.

    Raises
    ------
    DataError
        If a text is not a number, or a number is infinite.
    """
    array = values if isinstance(values, np.ndarray) else pd.Series(values).to_numpy()
    numbers: NDArray[np.float64] | None
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
    else:
        numbers = _plain_numbers(values)
        if numbers is None:
            codes, uniques = _factorize(values)
            parsed = np.full(len(uniques) + 1, np.nan)
            parsed[:-1] = [_number(value, name) for value in uniques]
            numbers = parsed[codes]
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        way_out = "Correct it or leave it empty."
        raise DataError(explain(f"column {name!r}", "hold finite numbers", f"{numbers[row]} in row {row}", way_out))
    return numbers


def readable_numbers(values: Any, *, pixels: bool = False) -> NDArray[np.bool_]:
    """Tell of each value whether `column_numbers` reads it; for ``pixels`` only whole numbers within 0 to 255."""
    codes, uniques = _factorize(values)
    numbers = np.full(len(uniques) + 1, np.nan)
    for i, value in enumerate(uniques):
        try:
            numbers[i] = _number(value, "")
        except DataError:
            numbers[i] = np.inf
    known = (numbers >= 0) & (numbers <= 255) & (numbers % 1 == 0) if pixels else ~np.isinf(numbers)
    result: NDArray[np.bool_] = known[codes]
    return result


def sorted_texts(texts: NDArray[np.object_]) -> tuple[str, ...]:
    """Return the distinct texts of a column, without missing ones; in numeric order if all are numbers.

    >>> sorted_texts(np.array(["10", "9", None, "9"], dtype=object))
    ('9', '10')
    """
    distinct = {text for text in texts if text is not None}
    if all(_NUMBER.fullmatch(text) for text in distinct):
        return tuple(sorted(distinct, key=float))
    return tuple(sorted(distinct))


def short_list(names: Sequence[object], limit: int = 12) -> str:
    """Return names for a message, the first ``limit`` of them.

    >>> short_list(["a", "b", "c"], limit=2)
    'a, b, ... (3 in all)'
    """
    shown = ", ".join(str(name) for name in names[:limit])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > limit else shown


def _factorize(values: Any) -> tuple[NDArray[np.intp], Any]:
    if isinstance(values, np.ndarray) and values.dtype.kind in "SU":
        values = values.astype(object)
    codes, uniques = pd.factorize(values if isinstance(values, np.ndarray) else pd.Series(values))
    return codes, uniques


def _plain_numbers(values: Any) -> NDArray[np.float64] | None:
    """Return texts as numbers, or None if one of them is not; several times faster than one by one."""
    try:
        texts = pd.Series(values).to_numpy(dtype=object)
        return None if any("_" in text for text in texts) else texts.astype(np.float64)
    except (TypeError, ValueError):
        return None


def _number(value: object, name: str) -> float:
    text = "" if value is None else str(value).strip()
    if text in MISSING:
        return np.nan
    try:
        # float() rounds correctly, but also reads 1_000, which is not a number in a table
        return float(text if "_" not in text else "no number")
    except ValueError:
        rule = "hold numbers (the schema calls it numeric)"
        way_out = "Use a decimal point, leave missing ones empty, or call the column categorical in the schema."
        raise DataError(explain(f"column {name!r}", rule, text, way_out)) from None
