from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.data.dates import DATES
from fedkd_flwr.data.reading import PLAIN, Reading, column_numbers
from fedkd_flwr.data.row_values import row_values
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import DataError

GERMAN = Reading(decimal=",", thousands=".")


def test_column_numbers_name_the_column_and_value_they_cannot_read():
    with pytest.raises(DataError, match=r"column 'age' must hold numbers, got 'old' in row 2.*categorical"):
        column_numbers(["1", "old"], "age")


@pytest.mark.parametrize("value", ["inf", "-Infinity", np.inf])
def test_column_numbers_refuse_infinity(value):
    with pytest.raises(DataError, match=r"column 'age' must hold finite numbers, got '?-?(inf|Infinity)'? in row 2"):
        column_numbers(pd.Series([1, value], dtype=object), "age")


def test_text_numbers_are_parsed_to_the_nearest_double():
    text = "0.1234567890123456789"
    assert column_numbers([text], "x")[0] == float(text)


def _one(reading, value):
    numbers, bad = reading.parse(pd.Series([value], dtype=object))
    return "bad" if bad[0] else None if np.isnan(numbers[0]) else float(numbers[0])


@pytest.mark.parametrize(
    ("reading", "value", "number"),
    [
        (PLAIN, "1,5", "bad"),
        (PLAIN, "1,234", "bad"),
        (PLAIN, "1_000", "bad"),  # only Python calls it a number
        (PLAIN, " - ", None),
        (PLAIN, "N.A.", None),
        (PLAIN, "1e3", 1000.0),
        (PLAIN, "\u22121.5", -1.5),  # a minus that is no hyphen
        (PLAIN, "1e\u22123", 0.001),
        (PLAIN, "\u2212", None),
        (PLAIN, "\u2212\u22121", "bad"),
        (GERMAN, "\u22121.234,5", -1234.5),
        (Reading(unit="€", limits="number"), "<\u22121.5 €", -1.5),
        (PLAIN, True, 1.0),  # as in an array of them
        (PLAIN, Decimal("1.5"), 1.5),
        (GERMAN, "-1.234,5", -1234.5),
        (GERMAN, "1.234.567", 1234567.0),
        (GERMAN, "12.5", "bad"),
        (GERMAN, "1.2345", "bad"),
        (GERMAN, 12.5, 12.5),
        (Reading(decimal=","), "1.234", "bad"),
        (Reading(decimal=","), "1,2,3", "bad"),
        (Reading(thousands=","), "1,234,567.5", 1234567.5),
        (Reading(thousands=","), "12,34", "bad"),
        (Reading(thousands="'"), "1'234.5", 1234.5),
        (Reading(thousands=" ", decimal=","), "1\u202f234 567,5", 1234567.5),
        (Reading(unit="%"), "12.5 %", 12.5),
        (Reading(unit="€"), "€12", 12.0),
        (PLAIN, "<0.5", "bad"),
        (Reading(limits="number"), "< 0.5", 0.5),
        (Reading(limits="number", unit="mg/l"), "<=0.5 mg/l", 0.5),
        (Reading(limits="missing"), ">9", None),
        (Reading(limits="missing"), ">nine", "bad"),
        (Reading(limits="missing"), "30-39", None),
        (Reading(limits="number"), "30-39", "bad"),
        (Reading(limits="middle"), "30-39", 34.5),
        (Reading(limits="middle"), "39-30", "bad"),
        (Reading(limits="middle"), "030-39", "bad"),
        (Reading(limits="middle"), "-3", -3.0),
        (Reading(limits="middle"), "-5 - -3", -4.0),
        (Reading(limits="middle"), "< -3", -3.0),
        (Reading(limits="middle", unit="years"), "< 1 year", 0.5),
        (Reading(limits="middle", unit="years"), "2 months", "bad"),
        (Reading(missing=("old",)), "old", None),
        (Reading(dates="iso"), "1970-01-02", 1.0),
        (Reading(dates="iso"), "1970-01-02T12:00:00Z", 1.5),
        (Reading(dates="iso"), "1970-01-02 01:00+01:00", 1.0),
        (Reading(dates="iso"), "1970-01-02 01:00:00+01", 1.0),  # as PostgreSQL writes it
        (Reading(dates="iso"), "1970-01-02 01:30:00-0130", 1.125),
        (Reading(dates="iso"), "1970-01-02 01:00:00-01", 1 + 2 / 24),
        (Reading(dates="iso"), "1970-01-02 01:00:00+1", "bad"),
        (Reading(dates="iso"), "1970-02-30", "bad"),
        (Reading(dates="iso"), date(1969, 12, 31), -1.0),
        (Reading(dates="iso"), datetime(1970, 1, 1, 6, tzinfo=UTC), 0.25),
        (Reading(dates="iso"), datetime(1970, 1, 1, 6, tzinfo=timezone(timedelta(hours=6))), 0.0),
        (Reading(dates="iso"), "02.01.1970", "bad"),
        (Reading(dates="day-first"), "2.1.1970", 1.0),
        (Reading(dates="day-first"), "29.02.1900", "bad"),
        (Reading(dates="day-first"), "31.12.9999", 2932896.0),
        (Reading(dates="day-first"), "13/13/2020", "bad"),
        (Reading(dates="month-first"), "01/02/70 06:00 PM", 1.75),
        (Reading(dates="named"), "2 January 1970", 1.0),
        (Reading(dates="named"), "02-Jan-70", 1.0),
        (Reading(dates="named"), "Fri, 2 Jan 1970 12:00", 1.5),
        (Reading(dates="named"), "January 2nd, 1970", 1.0),
        (Reading(dates="named"), "2. Jänner 1970", 1.0),
        (Reading(dates="named"), "2. Ja\u0308nner 1970", 1.0),
        (Reading(dates="named"), "2 de enero de 1970", 1.0),
        (Reading(dates="named"), "2JAN1970", 1.0),
        (Reading(dates="named"), "31 Feb 1970", "bad"),
        (Reading(dates="named"), "2 Foo 1970", "bad"),
        (Reading(dates="named"), "January 1970", "bad"),
        (Reading(dates="compact"), "19700102", 1.0),
        (Reading(dates="compact"), 19700102, 1.0),
        (Reading(dates="compact"), 3, 3.0),  # days already
        (Reading(dates="compact"), "19700102.0", 1.0),
        (Reading(dates="compact"), "19700102T120000Z", 1.5),
        (Reading(dates="compact"), "19701302", "bad"),
        (Reading(dates="iso"), 20210312, "bad"),  # no 20 million days; in a CSV file it is no such date either
        (Reading(dates="day-first"), np.float64(20210312), "bad"),
        (Reading(dates="iso"), 3, 3.0),
        (Reading(dates="iso+day-first"), "1970-01-02", 1.0),
        (Reading(dates="iso+day-first"), "2.1.1970", 1.0),
        (Reading(dates="iso+day-first"), "13/25/1970", "bad"),
        (Reading(dates="month"), "02/1970", 31.0),
        (Reading(dates="month"), "13/1970", "bad"),
        (Reading(dates="duration"), "-1 days +12:00:00", -0.5),
        (Reading(dates="duration"), "1 fortnight", "bad"),
        (Reading(dates="time"), "13:45", 13.75),
        (Reading(dates="time"), "24:30", "bad"),
    ],
)
def test_a_cell_is_read_by_the_rule_of_its_column(reading, value, number):
    assert _one(reading, value) == number


@given(st.lists(st.floats(-1e9, 1e9).map(lambda number: round(number, 3)), min_size=1, max_size=5))
def test_a_number_is_the_same_in_every_spelling(numbers):
    comma = [f"{number:,.3f}".translate(str.maketrans(",.", ".,")) for number in numbers]
    known, bad = GERMAN.parse(comma)
    assert not bad.any()
    assert known.tolist() == numbers
    assert Reading(thousands=",").parse([f"{number:,.3f}" for number in numbers])[0].tolist() == numbers


@given(st.lists(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), min_size=1, max_size=5))
def test_a_date_is_the_same_in_every_spelling(moments):
    moments = [moment.replace(second=0, microsecond=0) for moment in moments]
    days = Reading(dates="iso").parse([f"{m.year:04d}-{m:%m-%d %H:%M}" for m in moments])[0]
    typed = Reading(dates="iso").parse(pd.Series(moments, dtype=object))[0]
    np.testing.assert_allclose(days, typed, rtol=0, atol=1e-9)
    assert (
        days.tolist()
        == Reading(dates="day-first").parse([f"{m:%d.%m.}{m.year:04d} {m:%H:%M}" for m in moments])[0].tolist()
    )
    assert (
        days.tolist()
        == Reading(dates="month-first").parse([f"{m:%m/%d/}{m.year:04d} {m:%I:%M %p}" for m in moments])[0].tolist()
    )


@given(st.lists(st.text(max_size=12) | st.from_regex(r"[<>]?[0-9.,']{1,9}%?", fullmatch=True), min_size=2, max_size=8))
def test_what_stands_in_one_cell_changes_no_other(texts):
    for reading in (
        PLAIN,
        GERMAN,
        Reading(unit="%", limits="number"),
        Reading(dates="day-first"),
        Reading(thousands=" "),
    ):
        numbers, bad = reading.parse(texts)
        alone = [reading.parse([text]) for text in texts]
        np.testing.assert_array_equal(numbers, [number[0] for number, _ in alone])
        np.testing.assert_array_equal(bad, [is_bad[0] for _, is_bad in alone])


def test_a_row_is_the_same_row_in_another_spelling():
    plain = Schema(columns=(Column(name="a", kind="numeric"), Column(name="d", kind="numeric")), classes=("0", "1"))
    readings = {"a": Reading(decimal=","), "d": Reading(dates="day-first")}
    spelt = Schema(
        columns=tuple(Column(name=name, kind="numeric", reading=rule) for name, rule in readings.items()),
        classes=("0", "1"),
    )
    first = row_values(pd.DataFrame({"a": ["1.50"], "d": ["18322"], "label": ["1"]}), plain)
    second = row_values(pd.DataFrame({"d": ["01.03.2020"], "label": [1], "a": ["1,5"]}), spelt)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_date_beyond_those_that_python_knows_is_no_date_and_harms_no_other():
    """pandas reads such dates from Parquet; an error here would tell a server of one row of a private file."""
    far = pd.Series(np.array([0, 2**60], dtype="datetime64[us]")).dt.tz_localize("UTC")
    numbers, bad = Reading(dates="iso").parse(far)
    assert (numbers[0], bad.tolist()) == (0.0, [False, True])


def test_rules_that_contradict_each_other_are_refused():
    with pytest.raises(DataError, match="thousands must differ from decimal, got ','"):
        Reading(decimal=",", thousands=",")
    with pytest.raises(DataError, match="dates must be one of"):
        Reading(dates="dd.mm.yyyy")
    for both in ("day-first+month-first", "iso+time", "iso+iso"):
        with pytest.raises(DataError, match=r"dates must name ways of which one cell fits no two, got"):
            Reading(dates=both)
    with pytest.raises(DataError, match=r"column 'a' of kind categorical must have no rule for numbers"):
        Column(name="a", kind="categorical", reading=Reading(decimal=","))


def test_where_dates_cannot_be_read_the_way_out_is_about_dates_and_not_about_decimals():
    with pytest.raises(DataError) as caught:
        column_numbers(["12.03.2021", "2021-03-12"], "admission", Reading(dates="day-first"))
    text = str(caught.value)
    assert "column 'admission' must hold dates (12.03.2021) as days since 1970-01-01, got '2021-03-12' in row 2" in text
    assert "Write dates as in training, or empty such cells" in text
    assert "(now: dates day-first)" in text
    assert "decimal" not in text
    with pytest.raises(DataError, match=r"Correct or empty such cells; .* \(now: decimal '\.'\)"):
        column_numbers(["1", "x"], "age")


CODED = Reading(missing=("-999",))


@pytest.mark.parametrize(
    ("reading", "values", "numbers"),
    [
        (CODED, np.array([1.5, -999.0]), [1.5, None]),
        (CODED, np.array([1, -999]), [1.0, None]),
        (CODED, pd.Series([1, -999, None], dtype=object), [1.0, None, None]),
        (CODED, ["1.5", "-999", "-999.0", "-999.00 "], [1.5, None, None, None]),
        (CODED, ["-9999", "-999.5"], [-9999.0, -999.5]),
        (Reading(missing=("-999.9",)), np.array([1, -999.9], dtype=np.float32), [1.0, None]),
        (Reading(missing=("-999,5",), decimal=","), ["-999,50", "-1,5"], [None, -1.5]),
        (Reading(missing=("-999,5",), decimal=","), np.array([-999.5]), [None]),
        (Reading(missing=("5",), limits="number"), ["<5", "5.0"], [5.0, None]),
        (Reading(missing=("<5",), limits="number"), ["<5", "5.0", "< 5"], [None, 5.0, 5.0]),
        (Reading(missing=("01.01.1900",), dates="day-first"), ["1.1.1900", "02.01.1970"], [None, 1.0]),
        (Reading(missing=("1900-01-01",), dates="iso"), np.array(["1900-01-01", "1970-01-02"], "M8[D]"), [None, 1.0]),
        (Reading(missing=("1900-01-01",), dates="iso"), pd.Series([date(1900, 1, 1)], dtype=object), [None]),
        (Reading(missing=("0",), dates="iso"), ["1970-01-01", "0.0"], [0.0, None]),
        (Reading(missing=("-999",), dates="compact"), np.array([19700102, -999]), [1.0, None]),
        (Reading(missing=("99999999",), dates="compact"), np.array([19700102, 99999999]), [1.0, None]),
        (Reading(missing=("fru\u0308her",)), ["fr\u00fcher", "1"], [None, 1.0]),
    ],
)
def test_a_word_for_no_value_that_is_a_number_means_it_in_every_spelling_and_type(reading, values, numbers):
    read, bad = reading.parse(values)
    assert [None if np.isnan(number) else number for number in read] == numbers
    assert not bad.any()


def test_durations_are_days_and_hours_where_the_column_holds_times():
    durations = np.array([36, "NaT"], dtype="m8[h]")
    for reading, number in ((PLAIN, 1.5), (Reading(dates="time"), 36.0)):
        numbers, bad = reading.parse(durations)
        assert numbers[0] == number
        assert np.isnan(numbers[1])
        assert not bad.any()
    assert Reading(dates="iso").parse(durations)[1].tolist() == [True, False]


def test_numbers_of_eight_digits_among_typed_days_are_bad_cells():
    numbers, bad = Reading(dates="iso").parse(np.array([3, 20210312]))
    assert (numbers[0], bad.tolist()) == (3.0, [False, True])


@pytest.mark.parametrize("dates", [*DATES, "iso+day-first"])
def test_what_is_spelt_is_read_as_the_same_day_or_minute(dates):
    numbers = np.array([0.0, 0.25, 0.99]) if dates == "time" else np.array([18.0, 366.0, 19_803.75])
    reading = Reading(dates=dates)
    found, bad = reading.parse(np.array(reading.spell(numbers), dtype=object))
    assert not bad.any()
    assert (np.abs(found - numbers) < {"month": 31, "time": 1 / 60, "duration": 1 / 1440}.get(dates, 1)).all()


def test_numbers_are_spelt_with_the_decimal_sign_that_is_read():
    numbers = np.array([1234.5, -0.25, 1e-7, 3.0])
    reading = Reading(decimal=",", thousands=".", unit="kg")
    assert (reading.parse(np.array(reading.spell(numbers), dtype=object))[0] == numbers).all()
