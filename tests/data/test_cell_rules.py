"""By which rule the texts of a column are numbers or dates, and what stays what it is."""

import numpy as np
import pandas as pd
import pytest
from data.conftest import DAYS, NUMBERS, N, found_of, german

from fedkd_flwr.data.cell_rules import FEW_TEXTS, Cells, ColumnLook
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.errors import DataError


@pytest.mark.parametrize(
    ("values", "reading"),
    [
        ([f"{v:.2f}" for v in NUMBERS], {}),
        ([f"{v:.2f}".replace(".", ",") for v in NUMBERS], {"decimal": ","}),
        (german(NUMBERS), {"decimal": ",", "thousands": "."}),
        ([f"{1_234_567 + 7 * i:,}".replace(",", ".") for i in range(N)], {"decimal": ",", "thousands": "."}),
        ([f"{v:,.2f}".replace(",", "'") for v in NUMBERS], {"thousands": "'"}),
        ([f"{v:,.1f}".replace(",", " ").replace(".", ",") for v in NUMBERS], {"decimal": ",", "thousands": " "}),
        ([f"{v:.1f} %" for v in NUMBERS], {"unit": "%"}),
        ([f"{v:.1f}mg/l".replace(".", ",") for v in NUMBERS], {"unit": "mg/l", "decimal": ","}),
        ([f"{v:.1f} mg".replace("-", "\u2212") for v in NUMBERS], {"unit": "mg"}),
        ([f"{d:%Y-%m-%d}" for d in DAYS], {"dates": "iso"}),
        ([f"{d:%Y-%m-%dT%H:%M:%S}" for d in DAYS], {"dates": "iso"}),
        (DAYS, {"dates": "iso"}),
        ([f"{d:%d.%m.%Y}" for d in DAYS], {"dates": "day-first"}),
        ([f"{d:%d/%m/%y %H:%M}" for d in DAYS], {"dates": "day-first"}),
        ([f"{d:%m/%d/%Y}" for d in DAYS], {"dates": "month-first"}),
        ([f"{i % 24:02d}:{i % 60:02d}" for i in range(N)], {"dates": "time"}),
        ([f"{i % 9} days {i % 24:02d}:00:00" for i in range(N)], {"dates": "duration"}),
        ([str(pd.Timedelta(hours=i - 50)) for i in range(N)], {"dates": "duration"}),
        ([f"{d.day} {d:%B %Y}" for d in DAYS], {"dates": "named"}),
        ([f"{d:%Y%m%d}" for d in DAYS], {"dates": "compact"}),
        ([int(f"{d:%Y%m%d}") for d in DAYS], {"dates": "compact"}),
    ],
)
def test_a_column_of_numbers_or_dates_is_found_and_said(values, reading):
    column, note = found_of([*values[:-1], None])
    assert column.kind == "numeric"
    assert column.reading == Reading(**reading)
    assert note.missing == 1
    if isinstance(values[0], str):
        assert bool(note.note) is bool(note.repaired) is bool(reading)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["+", "\u2212"] * (N // 2), "categorical"),
        ([str(i) if i < 10 else ("18-30", "31-50", "51-70")[i % 3] for i in range(N)], "categorical"),
        (["0", "1", "2", "3 or more, or unknown"] * (N // 4), "categorical"),
        ([f"{i % 5}.{i % 7}.{i % 3}" for i in range(N)], "categorical"),  # versions
        ([f"{20 + i % 40}{'mw'[i % 2]}" for i in range(N)], "categorical"),  # ages of men and women, in German
        ([f"May {i % 7}" for i in range(N)], "categorical"),
        ([f"{i % 30:03d}" for i in range(N)], "categorical"),  # codes
        ([str(100 + i % 40) if i % 2 else f"E{10 + i % 24}" for i in range(N)], "categorical"),
        ([f"{i % 30:02d}" if i % 2 else str(100 + i) for i in range(N)], "numeric"),  # of different lengths
        ([f"P{i:04d}" for i in range(N)], "left out"),
        ([f"{7 * i:05d}" for i in range(N)], "left out"),  # codes that name rows
        (["", "NA", "-"] * (N // 3), "left out"),
        ([f"the patient in bed {i} slept well" for i in range(N)], "text"),
        ([True, False] * (N // 2), "categorical"),
        ([1e300 * 1e9 if i == 5 else float(i) for i in range(N)], "refused"),
    ],
)
def test_what_looks_like_numbers_but_is_none_stays_what_it_is(values, kind):
    if kind == "refused":
        with pytest.raises(DataError, match="column 'x' must hold finite numbers, got inf in row 6"):
            found_of(values)
        return
    column, note = found_of(values)
    assert (column.kind if column else "left out") == kind
    assert column is not None or note.note


def test_numbers_of_eight_digits_that_are_no_dates_stay_numbers():
    counts = [str(20210000 + i) for i in range(N)], [20210301 + i for i in range(N)]
    for values in (*counts, ["20210301", "20210302"] * (N // 2)):
        column, _ = found_of(values)
        assert column.reading.dates == ""


def test_cells_are_named_with_their_first_row_counted_from_one_and_long_ones_are_cut():
    cells = Cells.of(pd.Series(["1", "-", None, "-", " 1", "x" * 50, "y"]))
    every = np.ones(len(cells.texts), dtype=bool)
    assert cells.number(every) == 6
    assert cells.shown(every, most=9) == f"'1' in row 1, '-' in row 2, {'x' * 40!r} in row 6, 'y' in row 7"
    assert cells.shown(every) == f"'1' in row 1, '-' in row 2, {'x' * 40!r} in row 6"
    assert cells.shown(~every) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "numbers"),
        ({"kind": "text"}, "text"),
        ({"kind": "categorical", "categories": ("a",)}, "1 category"),
        ({"reading": Reading(decimal=",", thousands=".")}, "numbers (decimal comma, thousands '.')"),
        ({"reading": Reading(unit="mg")}, "numbers (unit mg)"),
        ({"reading": Reading(dates="day-first")}, "days since 1970-01-01 (day-first)"),
    ],
)
def test_what_a_column_became_is_said_in_words(changes, words):
    assert ColumnLook(name="x", **changes).read_as == words


def test_words_are_read_as_empty_by_a_rule_unless_a_list_cannot_hold_them():
    assert ColumnLook(name="x").words_rule(["none", "?"]) == "x:none,x:?"
    for name, words in (("x", ["a,b"]), ("a,b", ["none"]), ("x", []), ("x", ["w"] * (FEW_TEXTS + 1))):
        assert ColumnLook(name=name).words_rule(words) == ""
