"""Dates, times and durations: every form that is read, and what is none."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.data.dates import DATES
from fedkd_flwr.data.reading import PLAIN, Reading


@pytest.mark.parametrize(
    ("dates", "value", "number"),
    [
        ("iso", "1970-01-02", 1.0),
        ("iso", "1970-01-02T12:00:00Z", 1.5),
        ("iso", "1970-01-02 01:00+01:00", 1.0),
        ("iso", "1970-01-02 01:00:00+01", 1.0),  # as PostgreSQL writes it
        ("iso", "1970-01-02 01:00:00+1", "bad"),
        ("iso", "1970-02-30", "bad"),
        ("iso", "1970-02", 31.0),
        ("iso", 3, "bad"),
        ("iso", date(1969, 12, 31), -1.0),
        ("iso", datetime(1970, 1, 1, 6, tzinfo=timezone(timedelta(hours=6))), 0.0),
        ("day-first", "2.1.1970", 1.0),
        ("day-first", "29.02.1900", "bad"),
        ("day-first", "13/13/2020", "bad"),
        ("month-first", "01/02/70 06:00 PM", 1.75),
        ("named", "2 January 1970", 1.0),
        ("named", "Fri, 2 Jan 1970 12:00", 1.5),
        ("named", "January 2nd, 1970", 1.0),
        ("named", "2. Jänner 1970", 1.0),
        ("named", "2 de enero de 1970", 1.0),
        ("named", "31 Feb 1970", "bad"),
        ("named", "January 1970", "bad"),
        ("compact", 19700102, 1.0),
        ("compact", "19700102T120000Z", 1.5),
        ("compact", "19701302", "bad"),
        ("iso", 20210312, "bad"),  # no 20 million days; in a CSV file it is no such date either
        ("duration", "-1 days +12:00:00", -0.5),
        ("duration", "1 day 12:00", 1.5),
        ("duration", "1 fortnight", "bad"),
        ("time", "13:45", 13.75),
        ("time", "24:30", "bad"),
        ("iso", np.array([3, 20210312]), "bad"),
    ],
)
def test_a_cell_is_read_in_the_ways_of_its_column(dates, value, number):
    values = value if isinstance(value, np.ndarray) else pd.Series([value], dtype=object)
    numbers, bad = Reading(dates=dates).parse(values)
    assert ("bad" if bad[-1] else float(numbers[-1])) == number


@settings(max_examples=30)
@given(st.lists(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), min_size=1, max_size=5))
def test_a_date_is_the_same_in_every_spelling(moments):
    moments = [moment.replace(second=0, microsecond=0) for moment in moments]
    days = Reading(dates="iso").parse([f"{m.year:04d}-{m:%m-%d %H:%M}" for m in moments])[0]
    typed = Reading(dates="iso").parse(pd.Series(moments, dtype=object))[0]
    np.testing.assert_allclose(days, typed, rtol=0, atol=1e-9)
    for dates, spelt in (("day-first", "%d.%m.{y} %H:%M"), ("month-first", "%m/%d/{y} %I:%M %p")):
        texts = [m.strftime(spelt.format(y=f"{m.year:04d}")) for m in moments]
        assert days.tolist() == Reading(dates=dates).parse(texts)[0].tolist()


@pytest.mark.parametrize("dates", [*DATES])
def test_what_is_spelt_is_read_as_the_same_day_or_minute(dates):
    numbers = np.array([0.0, 0.25, 0.99]) if dates == "time" else np.array([18.0, 366.0, 19_803.75])
    reading = Reading(dates=dates)
    found, bad = reading.parse(np.array(reading.spell(numbers), dtype=object))
    assert not bad.any()
    assert (np.abs(found - numbers) < {"time": 1 / 60, "duration": 1 / 1440}.get(dates, 1)).all()


def test_durations_are_days_and_hours_where_the_column_holds_times():
    durations = np.array([36, "NaT"], dtype="m8[h]")
    for reading, number in ((PLAIN, 1.5), (Reading(dates="time"), 36.0)):
        numbers, bad = reading.parse(durations)
        assert numbers[0] == number
        assert np.isnan(numbers[1])
        assert not bad.any()
    assert Reading(dates="iso").parse(durations)[1].tolist() == [True, False]


def test_a_date_beyond_those_that_python_knows_is_no_date_and_harms_no_other():
    """pandas reads such dates from Parquet; an error here would tell a server of one row of a private file."""
    far = pd.Series(np.array([0, 2**60], dtype="datetime64[us]")).dt.tz_localize("UTC")
    numbers, bad = Reading(dates="iso").parse(far)
    assert (numbers[0], bad.tolist()) == (0.0, [False, True])
