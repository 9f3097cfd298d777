"""The values of one raw column, the same for every file format.

A value may be text in a CSV file and a number in a Parquet file: ``"1"``, ``1`` and ``1.0`` are one class and one
category, as are ``true``, ``TRUE`` and the truth value itself, and an accented letter as one character or two. Values
are compared by their canonical text, so parties with different file formats agree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain

__all__ = ["MISSING", "canonical", "column_name", "column_texts", "counted", "factorize", "missing_texts"]
__all__ += ["missing_words", "require_distinct", "short_list", "sorted_texts"]

MISSING = frozenset({"", "?", "NA", "N/A", "n/a", "<NA>", "nan", "NaN", "NAN", "NULL", "null", "None"}) | frozenset(
    ["#N/A", "#NA", "#NV", "#DIV/0!", "#VALUE!", "#WERT!", "#REF!", "#BEZUG!", "#NUM!", "#ZAHL!", "#NAME?", "#NULL!"]
)
"""Texts that mean "no value" in every column: those that pandas reads as missing, Excel's errors, UCI's mark."""

# a text with a leading zero ("007") is an identifier, so it is not read as a number
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?")


def canonical(value: object) -> str | None:
    """Return the canonical text of one raw value, or None if it is missing.

    >>> [canonical(v) for v in (" >50K ", 1, 1.0, "1.0", "+1", "007", "?", float("nan"))]
    ['>50K', '1', '1', '1', '1', '007', None, None]
    >>> [canonical(v) for v in (True, "true", "FALSE")]  # Python, Arrow and spreadsheets write them differently
    ['True', 'True', 'False']
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    text = str(value).strip()
    if text in MISSING:
        return None
    text = column_name(text)
    if text.lower() in ("true", "false"):
        return text.capitalize()
    if _NUMBER.fullmatch(text):
        whole, _, fraction = text.lstrip("+").partition(".")
        fraction = fraction.rstrip("0")
        text = f"{whole}.{fraction}" if fraction else ("0" if whole == "-0" else whole)
    return text


def column_name(name: str) -> str:
    """Return a name, or another text, with each accented letter as one character (NFC); macOS may write two."""
    return name if name.isascii() else normalize("NFC", name)


def column_texts(values: Any, missing: Collection[str] = ()) -> NDArray[np.object_]:
    """Return the canonical texts of a column, None where a value is missing or one of the words ``missing``."""
    codes, uniques = factorize(values)
    words = missing_texts(missing)
    # code -1 (missing) indexes the additional last slot, which holds None
    texts = np.empty(len(uniques) + 1, dtype=object)
    texts[:-1] = [None if (text := canonical(value)) in words else text for value in uniques]
    return texts[codes]


def missing_texts(words: Collection[str]) -> frozenset[str]:
    """Return words for "no value" as a canonical text may have them: ``-999.0`` means ``-999`` too."""
    return frozenset({*words, *(text for word in words if (text := canonical(word)) is not None)})


def missing_words(values: Any) -> dict[str, int]:
    """Return the words of `MISSING` that a column holds, and in how many cells; not its empty ones and ``?``.

    >>> missing_words(pd.Series(["NA", "DE", "", " NA"]))
    {'NA': 2}
    """
    codes, distinct = factorize(values)
    counts: dict[str, int] = {}
    for value, number in zip(distinct, np.bincount(codes[codes >= 0], minlength=len(distinct)).tolist(), strict=True):
        if isinstance(value, str) and (word := value.strip()) in MISSING - {"", "?"}:
            counts[word] = counts.get(word, 0) + number
    return counts


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


def require_distinct(what: str, names: Sequence[str]) -> None:
    """Refuse names of columns or classes of which two are the same."""
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        seen = f"{short_list(repeated)} more than once"
        raise DataError(explain(what, "have distinct names", seen, "Rename them."))


def counted(number: int, what: str) -> str:
    """Return a number of things in words: ``1 row``, ``1,200 rows``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def factorize(values: Any) -> tuple[NDArray[np.intp], Any]:
    """Return the number of each value among the distinct ones, -1 where it is missing, and the distinct values.

    Where one has no hash, all are their texts.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "SU":
        values = values.astype(object)
    column = values if isinstance(values, np.ndarray) else pd.Series(values)
    try:
        codes, uniques = pd.factorize(column)
    except TypeError:  # a Parquet file may hold lists or tables in cells
        codes, uniques = pd.factorize(
            np.array([None if one is None else str(_listed(one)) for one in column], dtype=object)
        )
    return codes, uniques


def _listed(value: Any) -> Any:
    """Return a cell of lists and tables without NumPy's arrays, whose type and so whose text other rows decide."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [_listed(one) for one in value]
    return {key: _listed(one) for key, one in value.items()} if isinstance(value, dict) else value
