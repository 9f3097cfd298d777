from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.data.reading import PLAIN, Reading, column_numbers
from fedkd_flwr.data.schema import Column
from fedkd_flwr.errors import DataError

GERMAN = Reading(decimal=",", thousands=".")


@pytest.mark.parametrize("value", ["inf", "-Infinity", np.inf])
def test_column_numbers_refuse_infinity(value):
    with pytest.raises(DataError, match=r"column 'age' must hold finite numbers, got '?-?(inf|Infinity)'? in row 2"):
        column_numbers(pd.Series([1, value], dtype=object), "age")


@pytest.mark.parametrize(
    ("reading", "value", "number"),
    [
        (PLAIN, "1,5", "bad"),
        (PLAIN, "1_000", "bad"),  # only Python calls it a number
        (PLAIN, " - ", None),
        (PLAIN, "1e3", 1000.0),
        (PLAIN, "\u22121.5", -1.5),  # a minus that is no hyphen
        (PLAIN, "\u2212", None),
        (GERMAN, "\u22121.234,5", -1234.5),
        (Reading(unit="€", ranges=True), "<\u22121.5 €", -1.5),
        (PLAIN, True, 1.0),  # as in an array of them
        (PLAIN, Decimal("1.5"), 1.5),
        (GERMAN, "-1.234,5", -1234.5),
        (GERMAN, "12.5", "bad"),
        (GERMAN, 12.5, 12.5),
        (Reading(decimal=","), "1.234", "bad"),
        (Reading(thousands=","), "1,234,567.5", 1234567.5),
        (Reading(thousands=","), "12,34", "bad"),
        (Reading(thousands="'"), "1'234.5", 1234.5),
        (Reading(thousands=" ", decimal=","), "1\u202f234 567,5", 1234567.5),
        (Reading(unit="%"), "12.5 %", 12.5),
        (PLAIN, "<0.5", "bad"),
        (Reading(ranges=True), ">nine", "bad"),
        (Reading(ranges=True), "< 0.5", 0.5),
        (Reading(ranges=True, unit="mg/l"), "<=0.5 mg/l", 0.5),
        (Reading(ranges=True), "30-39", 34.5),
        (Reading(ranges=True), "39-30", "bad"),
        (Reading(ranges=True), "030-39", "bad"),
        (Reading(ranges=True), "-5 - -3", -4.0),
        (Reading(ranges=True, unit="years"), "< 1 year", 1.0),
        (Reading(ranges=True, unit="years"), "2 months", "bad"),
        (Reading(missing=("old",)), "old", None),
    ],
)
def test_a_cell_is_read_by_the_rule_of_its_column(reading, value, number):
    numbers, bad = reading.parse(pd.Series([value], dtype=object))
    assert ("bad" if bad[0] else None if np.isnan(numbers[0]) else float(numbers[0])) == number


@settings(max_examples=30)
@given(st.lists(st.floats(-1e9, 1e9).map(lambda number: round(number, 3)), min_size=1, max_size=5))
def test_a_number_is_the_same_in_every_spelling(numbers):
    comma = [f"{number:,.3f}".translate(str.maketrans(",.", ".,")) for number in numbers]
    known, bad = GERMAN.parse(comma)
    assert not bad.any()
    assert known.tolist() == numbers
    assert Reading(thousands=",").parse([f"{number:,.3f}" for number in numbers])[0].tolist() == numbers


@settings(max_examples=15)
@given(st.lists(st.text(max_size=12) | st.from_regex(r"[<>]?[0-9.,']{1,9}%?", fullmatch=True), min_size=2, max_size=8))
def test_what_stands_in_one_cell_changes_no_other(texts):
    for reading in (PLAIN, GERMAN, Reading(unit="%", ranges=True), Reading(dates="day-first"), Reading(thousands=" ")):
        numbers, bad = reading.parse(texts)
        alone = [reading.parse([text]) for text in texts]
        np.testing.assert_array_equal(numbers, [number[0] for number, _ in alone])
        np.testing.assert_array_equal(bad, [is_bad[0] for _, is_bad in alone])


def test_rules_that_contradict_each_other_are_refused():
    with pytest.raises(DataError, match="thousands must differ from decimal, got ','"):
        Reading(decimal=",", thousands=",")
    with pytest.raises(DataError, match="dates must be one of"):
        Reading(dates="dd.mm.yyyy")
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
    said = r"column 'age' must hold numbers, got 'x' in row 2.*Correct or empty such cells; .* \(now: decimal '\.'\)"
    with pytest.raises(DataError, match=f"{said}, or call it categorical"):
        column_numbers(["1", "x"], "age")


CODED = Reading(missing=("-999",))


@pytest.mark.parametrize(
    ("reading", "values", "numbers"),
    [
        (CODED, np.array([1.5, -999.0]), [1.5, None]),
        (CODED, pd.Series([1, -999, None], dtype=object), [1.0, None, None]),
        (CODED, ["1.5", "-999", "-999.0", "-999.00 "], [1.5, None, None, None]),
        (CODED, ["-9999", "-999.5"], [-9999.0, -999.5]),
        (Reading(missing=("-999.9",)), np.array([1, -999.9], dtype=np.float32), [1.0, None]),
        (Reading(missing=("-999,5",), decimal=","), ["-999,50", "-1,5"], [None, -1.5]),
        (Reading(missing=("5",), ranges=True), ["<5", "5.0"], [5.0, None]),
        (Reading(missing=("<5",), ranges=True), ["<5", "5.0", "< 5"], [None, 5.0, 5.0]),
        (Reading(missing=("01.01.1900",), dates="day-first"), ["1.1.1900", "02.01.1970"], [None, 1.0]),
        (Reading(missing=("1900-01-01",), dates="iso"), np.array(["1900-01-01", "1970-01-02"], "M8[D]"), [None, 1.0]),
        (Reading(missing=("1900-01-01",), dates="iso"), pd.Series([date(1900, 1, 1)], dtype=object), [None]),
        (Reading(missing=("0",), dates="iso"), ["1970-01-01", "0"], [0.0, None]),
        (Reading(missing=("99999999",), dates="compact"), np.array([19700102, 99999999]), [1.0, None]),
        (Reading(missing=("fru\u0308her",)), ["fr\u00fcher", "1"], [None, 1.0]),
    ],
)
def test_a_word_for_no_value_that_is_a_number_means_it_in_every_spelling_and_type(reading, values, numbers):
    read, bad = reading.parse(values)
    assert [None if np.isnan(number) else number for number in read] == numbers
    assert not bad.any()


def test_numbers_are_spelt_with_the_decimal_sign_that_is_read():
    numbers = np.array([1234.5, -0.25, 1e-7, 3.0])
    reading = Reading(decimal=",", thousands=".", unit="kg")
    assert (reading.parse(np.array(reading.spell(numbers), dtype=object))[0] == numbers).all()
