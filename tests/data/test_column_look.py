"""What a column's cells mean: numbers in words, numbers for no value, and names; each kind was met in a file."""

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.look import NO_RULES, Rules, look
from fedkd_flwr.errors import DataError

N = 300
RNG = np.random.default_rng(7)
AGES = RNG.integers(1, 99, N)
OUTCOME = ["ill", "well"] * (N // 2)


def _look(values, rules=NO_RULES, name="x", **others):
    table = pd.DataFrame({name: values, "other": RNG.integers(0, 9, N), **others, "y": OUTCOME})
    return look(table, label="y", rules=rules)


def _column(values, rules=NO_RULES, name="x"):
    """Return the column made of values, its note, and the numbers that they are read as."""
    found = _look(values, rules, name)
    column = next((one for one in found.columns if one.name == name), None)
    numbers = column.reading.parse(pd.Series(values))[0] if column is not None and column.kind == "numeric" else None
    return column, next(note for note in found.notes if note.name == name).note, numbers


def _years(i):
    return ("< 1 year", "10+ years", "1 year")[i] if i < 3 else f"{i - 1} years"


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        ([_years(i % 11) for i in range(N)], [(0.5, 10, 1)[i % 11] if i % 11 < 3 else i % 11 - 1 for i in range(N)]),
        ([f"{a}-{a + 9}" if i % 4 == 0 else str(a) for i, a in enumerate(AGES)], [4.5, 0, 0, 0]),
        ([f"{a} to {a + 3} kg" if i % 4 == 0 else f"{a} kg" for i, a in enumerate(AGES)], [1.5, 0, 0, 0]),
        ([f"[{a}, {a + 2})" if i % 4 == 0 else str(a) for i, a in enumerate(AGES)], [1, 0, 0, 0]),
        ([f"{min(a, 80)}{'+' if a >= 80 else ''}" for a in AGES], np.minimum(AGES, 80)),
        ([f"{min(a, 80)}{' and over' if a >= 80 else ''}" for a in AGES], np.minimum(AGES, 80)),
        (
            [
                f"{a / 2:.1f}-{a:.1f}".replace(".", ",") if i % 4 == 0 else f"{a:.1f}".replace(".", ",")
                for i, a in enumerate(AGES)
            ],
            None,
        ),
    ],
)
def test_ranges_and_bounds_among_numbers_are_read_as_their_middle_or_empty(texts, numbers):
    if numbers is None:
        numbers = [0.75 * a if i % 4 == 0 else a for i, a in enumerate(AGES)]
    elif len(numbers) == 4:
        numbers = AGES + np.tile(numbers, N // 4)
    column, note, read = _column(texts)
    assert column.reading.limits == "middle"
    np.testing.assert_allclose(read, numbers, atol=0.051)
    assert "read as the middle of the range (ranges-as=middle); ranges-as=missing does otherwise" in note
    column, note, read = _column(texts, Rules(ranges_as="missing"))
    odd = read != np.asarray(numbers, dtype=float)
    assert np.isnan(read[odd]).all()
    assert odd.sum() > 10
    assert "read as empty (ranges-as=missing)" in note


def test_more_other_words_than_fifty_do_not_hide_that_most_cells_are_numbers():
    texts = [f"about {a} ({i % 60})" if i % 4 == 0 else str(a) for i, a in enumerate(AGES)]
    with pytest.raises(DataError, match="75 % of the cells are numbers, others are not: 'about"):
        _look(texts)
    tickets = [f"A/5 {i * 7}" if i % 3 == 0 else str(100_000 + 31 * i) for i in range(N)]  # names, as texts that differ
    assert _column(tickets)[1].startswith("300 different texts in 300 rows: an identifier or names")


@pytest.mark.parametrize(
    "texts",
    [
        ["<18", "18-65", ">65"] * (N // 3),  # no plain number: groups
        [f"{i % 7}-{(3 * i) % 5}" for i in range(N)],  # scores, some of which fall
        ["0", "1", "2", "3 or more, or unknown"] * (N // 4),
        [f"{20 + i % 40}{'mw'[i % 2]}" for i in range(N)],  # ages of men and women, in German
        [f"{1 + i % 4}/{1 + i % 3}" for i in range(N)],  # few pairs: codes
    ],
)
def test_groups_scores_and_codes_stay_categories(texts):
    column, _, _ = _column(texts)
    assert column.kind == "categorical"


@pytest.mark.parametrize(
    ("write", "unit"),
    [
        (lambda h: f"{h // 24} days {h % 24:02d}:00:00", 24),
        (lambda h: f"{h}:00:00" if h % 2 else f"{h}:00", 24),
        (lambda h: f"P{h // 24}DT{h % 24}H", 24),
        (lambda h: f"{h // 24} d {h % 24} h", 24),
        (lambda h: str(pd.Timedelta(hours=h)), 24),
        (lambda h: f"{h} hours" if h % 2 else f"{h * 60} min", 24),
    ],
)
def test_durations_are_days_and_a_party_s_cells_are_read_alike(write, unit):
    hours = RNG.integers(25, 200, N) * (np.arange(N) % 3 - 1 if write(-2) == "-1 days +22:00:00" else 1)
    column, note, read = _column([write(int(h)) for h in hours])
    assert column.reading.dates == "duration"
    np.testing.assert_allclose(read, hours / unit)
    assert note == "all cells look like durations (1 day 02:30): read as days (duration)"
    typed, bad = column.reading.parse(pd.Series(pd.to_timedelta(hours, unit="h")))
    np.testing.assert_allclose(typed, read)
    assert not bad.any()


def test_numbers_of_one_unit_of_time_are_plain_numbers():
    column, _, read = _column([f"{a} min" for a in AGES])
    assert (column.reading.unit, column.reading.dates) == ("min", "")
    assert (read == AGES).all()


def test_months_are_days_in_each_form_and_days_of_excel_among_dates_are_asked_for():
    days = [pd.Timestamp("2001-01-31") + pd.Timedelta(days=20 * i) for i in range(N)]
    for form in ("%Y-%m", "%m/%Y", "%b-%Y", "%B %Y"):
        column, _, read = _column([f"{day:{form}}" for day in days])
        assert column.reading.dates == "month"
        assert read.tolist() == [(day.replace(day=1) - pd.Timestamp("1970-01-01")).days for day in days]
    mixed = [f"{day:%d/%m/%Y}" if i % 3 else str((day - pd.Timestamp("1899-12-30")).days) for i, day in enumerate(days)]
    with pytest.raises(
        DataError, match=r"66 % .* not: '36922' in row 1, .* \(36922 is 2001-01-31 as Excel counts days\)"
    ):
        _look(mixed)


def test_two_numbers_in_each_cell_are_said_and_left_out():
    column, note, _ = _column([f"{a + 60}/{a}" for a in AGES])
    assert column is None
    assert note.startswith("cells hold two numbers each: '")
    assert note.endswith("left out; as two columns they can be used")


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("-999", AGES),
        ("999", AGES),
        ("-9", AGES),
        ("-9", AGES % 4),
        ("9999", np.exp(AGES / 20)),
        ("-999.9", AGES / 7),
        ("99", AGES % 3),
        ("-1", AGES + 200),
    ],
)
def test_a_number_far_from_the_others_may_mean_no_value(word, values):
    holes = np.arange(N) % 20 == 0
    texts = np.where(holes, word, np.asarray(values).astype(str))
    _, note, _ = _column(list(texts))
    assert f"15 cells hold {word}, far from all others: missing=x:{word} reads them as empty" in note
    assert "far from" in _column(pd.Series(texts).astype(float))[1]
    _, note, read = _column(list(texts), Rules(missing=(f"x:{word}",)))
    assert "far from" not in note
    assert np.isnan(read[holes]).all()
    assert not np.isnan(read[~holes]).any()


def test_more_rows_of_minus_one_than_of_all_others_may_mean_no_value_and_two_such_numbers_are_both_said():
    """Days since the last call, -1 for never: they are not far from 0, but most rows hold them."""
    _, note, _ = _column(np.where(np.arange(N) % 3, -1, AGES))
    assert note.startswith("200 cells hold -1, the only number below 0: missing=x:-1 reads")
    _, note, _ = _column(np.where(np.arange(N) % 9 == 1, -99, np.where(np.arange(N) % 9 == 2, -999, AGES)))
    assert "hold -999, far from all others" in note
    assert "hold -99, far from all others" in note


@pytest.mark.parametrize("seed", range(2))
def test_ordinary_columns_get_no_such_note(seed):
    rng = np.random.default_rng(seed)
    columns = {
        "pareto": rng.pareto(1.0, 2000).round(1),
        "counts": rng.negative_binomial(0.3, 0.01, 2000),
        "incomes": (rng.lognormal(7, 2, 2000)).round(),
        "change": rng.poisson(2, 2000) - 1,
        "sign": rng.integers(-1, 2, 2000),
        "cold": rng.normal(5, 6, 2000).round(),
        "percent": np.minimum(rng.exponential(30, 2000).round(), 99),
        "label-like": rng.choice([-1, 1], 2000),
        "prices": rng.choice([1.99, 9.99, 19.99, 99.99], 2000),
    }
    found = look(pd.DataFrame({**columns, "y": ["a", "b"] * 1000}), label="y")
    assert [note.name for note in found.notes if "hold" in note.note] == []


def test_words_for_no_value_may_be_those_of_one_column():
    days = [f"{1 + i % 28}/{1 + i % 12}/2020" if i % 3 == 0 else "0" for i in range(N)]
    others = {"smoker": AGES % 2, "a:b": ["0", "1"] * (N // 2)}
    table = pd.DataFrame({"recovered": days, **others, "y": ["0", "1"] * (N // 2)})
    note = next(
        note for note in look(table, label="y", rules=Rules(date_order="day-first")).notes if note.name == "recovered"
    )
    assert "missing=recovered:0 reads them as empty" in note.note
    found = look(table, label="y", rules=Rules(date_order="day-first", missing=("recovered:0", "a:b:1", "y:9")))
    assert found.classes == ("0", "1")
    assert {note.name: note.missing for note in found.notes} == {
        "": 0,
        "recovered": 200,
        "smoker": 0,
        "a:b": 150,
        "y": 0,
    }
    assert found.notes[0].note == "missing: no cell of the table is 'y:9'"
    with pytest.raises(DataError, match=r"keep two classes or more, got 1 beside 150 rows with '0', which missing"):
        look(table, label="y", rules=Rules(missing=("0",)))
    three = table.assign(y=["0", "1", "2"] * (N // 3))
    note = look(three, label="y", rules=Rules(date_order="day-first", missing=("0",))).notes[-1].note
    assert "no label for 100 rows with '0', which missing calls empty; 100 rows without a label" in note


def test_the_next_command_drops_each_column_that_a_note_suspects_and_names_are_quoted():
    names = [f"{a}{b}son" for a in "abcdefghij" for b in "klmnopqrst"]
    others = {
        "RowNumber": np.arange(1, N + 1),
        "Surname": RNG.choice(names, N),
        "wuhan(0)_not_wuhan(1)": 1,
        "STDs:cervical warts": ["no"] * N,
        "ward": RNG.choice(["a", "b", "c"], N),
    }
    found = _look(AGES, **others)
    notes = {note.name: note.note for note in found.notes}
    assert notes["Surname"].endswith("categories in 300 rows: each says little (drop=Surname leaves it out)")
    assert "('drop=STDs:cervical warts' leaves it out)" in notes["STDs:cervical warts"]
    assert "('drop=wuhan(0)_not_wuhan(1)' leaves it out)" in notes["wuhan(0)_not_wuhan(1)"]
    words = "'Surname,wuhan(0)_not_wuhan(1),STDs:cervical warts'"
    assert found.command == f"fedkd server schema TABLE --id-column RowNumber --drop {words}"
    drop = ("Surname", "wuhan(0)_not_wuhan(1)", "STDs:cervical warts")
    again = _look(AGES, Rules(id_column="RowNumber", drop=drop), **others)
    assert again.command == ""
    assert [column.name for column in again.columns] == ["x", "other", "ward"]


def test_excel_s_days_are_said_where_the_name_speaks_of_a_day():
    _, note, _ = _column([None, *RNG.integers(43_900, 44_500, N - 1).astype(str)], name="admission_date")
    assert note.startswith("days as Excel counts them (4")
    assert "They are read as numbers" in note
    assert _column(RNG.integers(43_900, 44_500, N), name="salary")[1] == ""


def test_a_label_of_days_is_asked_for_and_a_rare_class_names_its_remedy():
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%Y%m%d"):
        days = [f"{pd.Timestamp('2021-01-01') + pd.Timedelta(days=i % 100):{form}}" for i in range(5 * N)]
        table = pd.DataFrame({"x": range(5 * N), "y": days})
        said = {"%Y%m%d": "be said what it is, got 100 different numbers"}.get(
            form, "hold classes, got 100 different days"
        )
        with pytest.raises(DataError, match=f"label column 'y' must {said} in 1,500 rows"):
            look(table, label="y")
    note = look(pd.DataFrame({"x": AGES, "y": ["rare", *OUTCOME[1:]]}), label="y").notes[-1].note
    assert "class_weight='balanced' in brackets, and compare runs with --by balanced-accuracy" in note
