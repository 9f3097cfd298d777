"""By which rule the texts of a column are numbers or dates, and what stays what it is."""

import pytest
from data.conftest import DAYS, NUMBERS, N, found_of, german

from fedkd_flwr.data.reading import Reading
from fedkd_flwr.errors import DataError


@pytest.mark.parametrize(
    ("values", "reading"),
    [
        ([f"{v:.2f}" for v in NUMBERS], {}),
        ([f"{v:.2f}".replace(".", ",") for v in NUMBERS], {"decimal": ","}),
        (german(NUMBERS), {"decimal": ",", "thousands": "."}),
        ([f"{v:,.2f}" for v in NUMBERS], {"thousands": ","}),
        ([f"{v:,.2f}".replace(",", "'") for v in NUMBERS], {"thousands": "'"}),
        ([f"{v:,.1f}".replace(",", " ").replace(".", ",") for v in NUMBERS], {"decimal": ",", "thousands": " "}),
        ([f"{v:.3E}".replace(".", ",") for v in NUMBERS], {"decimal": ","}),
        ([f"{v:.1f} %" for v in NUMBERS], {"unit": "%"}),
        ([f"{v:.1f}mg/l".replace(".", ",") for v in NUMBERS], {"unit": "mg/l", "decimal": ","}),
        ([f"{d:%Y-%m-%d}" for d in DAYS], {"dates": "iso"}),
        ([f"{d:%Y-%m-%dT%H:%M:%S}" for d in DAYS], {"dates": "iso"}),
        (DAYS, {"dates": "iso"}),
        ([d.date() for d in DAYS], {"dates": "iso"}),
        ([f"{d:%d.%m.%Y}" for d in DAYS], {"dates": "day-first"}),
        ([f"{d:%d/%m/%y %H:%M}" for d in DAYS], {"dates": "day-first"}),
        ([f"{d:%m/%d/%Y}" for d in DAYS], {"dates": "month-first"}),
        ([f"{i % 24:02d}:{i % 60:02d}" for i in range(N)], {"dates": "time"}),
        ([f"{d.day} {d:%B %Y}" for d in DAYS], {"dates": "named"}),
        ([f"{d:%d-%b-%y}" for d in DAYS], {"dates": "named"}),
        (
            [f"{d.day}. {['Januar', 'März', 'Mai', 'Oktober'][i % 4]} 2021" for i, d in enumerate(DAYS)],
            {"dates": "named"},
        ),
        ([f"{d:%Y%m%d}" for d in DAYS], {"dates": "compact"}),
        ([int(f"{d:%Y%m%d}") for d in DAYS], {"dates": "compact"}),
        ([f"{d:%Y%m%dT%H%M%S}" for d in DAYS], {"dates": "compact"}),
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
        (["+", "-"] * (N // 2), "categorical"),
        (["<18", "18-65", ">65"] * (N // 3), "categorical"),
        (["<0.5", ">0.5"] * (N // 2), "categorical"),
        (["1", "2", "3", "X"] * (N // 4), "categorical"),
        ([f"{i % 5}.{i % 7}.{i % 3}" for i in range(N)], "categorical"),  # versions
        (["10:5", "3:1"] * (N // 2), "categorical"),
        ([f"May {i % 7}" for i in range(N)], "categorical"),
        ([f"P{i:04d}" for i in range(N)], "left out"),
        ([f"{i:04d}x" for i in range(N)], "numeric"),
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
