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


YEARS = {"< 1 year": 1, "10+ years": 10, "1 year": 1, **{f"{i} years": i for i in range(2, 10)}}


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (list(np.resize([*YEARS], N)), np.resize([*YEARS.values()], N)),
        ([f"{a} to {a + 3} kg" if i % 4 == 0 else f"{a} kg" for i, a in enumerate(AGES)], [1.5, 0, 0, 0]),
        ([f"[{a}, {a + 2})" if i % 4 == 0 else str(a) for i, a in enumerate(AGES)], [1, 0, 0, 0]),
        ([f"{min(a, 80)}{' and over' if a >= 80 else ''}" for a in AGES], np.minimum(AGES, 80)),
        ([f"{a},2-{a},4" if i % 4 == 0 else f"{a},3" for i, a in enumerate(AGES)], [0.3] * 4),
    ],
)
def test_ranges_and_bounds_among_numbers_are_read_as_their_middle_or_number(texts, numbers):
    numbers = AGES + np.tile(numbers, N // 4) if len(numbers) == 4 else numbers
    column, note, read = _column(texts)
    assert column.reading.ranges
    np.testing.assert_allclose(read, numbers)
    assert "a bound is read as its number, and a range as its middle" in note


def test_few_cells_that_are_no_number_are_named_with_their_rows():
    texts = [f"{a / 10:.1f}".replace(".", ",") for a in AGES]
    texts[6], texts[9], texts[11] = "<0,5", "clotted", "k.A."
    found = _look(texts)
    (column, _), note = found.columns, found.notes[0]
    assert (column.reading.ranges, column.reading.missing) == (True, ("clotted",))
    assert "1 cell is no number: '<0,5' in row 7: a bound is" in note.note
    assert "1 cell is no number: 'clotted' in row 10: read as empty (missing=x:clotted)" in note.note
    assert "1 cell read as empty: 'k.A.' in row 12" in note.note
    assert (note.repaired, note.missing) == (N - 2, 2)


@pytest.mark.parametrize("share", [0.25, 0.9])
def test_words_in_many_cells_of_a_column_of_numbers_are_said_and_many_numbers_are_an_error(share):
    """Such a column became categories without a word: each number its own."""
    where = RNG.permutation(N) < N * share
    words = RNG.choice(["unknown", "not taken"], N)
    column, note, _ = _column(np.where(where, words, (AGES % 12).astype(str)))
    assert column.kind == "categorical"
    assert note.startswith(f"{round(100 * (1 - share))} % of the cells are numbers, others are not: ")
    assert "reads them as empty, and the column as numbers" in note
    many = np.where(where, words, [f"{number:.3f}" for number in RNG.normal(0, 50, N)])
    if share == 0.25:
        with pytest.raises(DataError, match=r"^column 'x' must hold numbers or .*\nNext: .* --missing .*$") as error:
            _look(many)
        # the marks around a rule, until a command spells it, are no part of what is said
        assert all(line.isprintable() and "x00" not in line for line in str(error.value).splitlines())


def test_other_texts_that_all_differ_do_not_hide_that_most_cells_are_numbers_but_names_are_names():
    texts = [f"about {a} ({i % 60})" if i % 4 == 0 else str(a) for i, a in enumerate(AGES)]
    with pytest.raises(DataError, match="75 % of the cells are numbers, others are not: 'about"):
        _look(texts)
    tickets = [f"A/5 {i * 7}" if i % 3 == 0 else str(100_000 + 31 * i) for i in range(N)]
    assert _column(tickets)[1].startswith("300 different texts in 300 rows: an identifier, names")


@pytest.mark.parametrize(
    ("word", "values"),
    [("-999", AGES), ("999", AGES), ("-9", AGES), ("-999.9", AGES / 7), ("99", AGES % 3), ("-1", AGES + 200)],
)
def test_a_number_far_from_the_others_may_mean_no_value(word, values):
    holes = np.arange(N) % 20 == 0
    texts = np.where(holes, word, np.asarray(values).astype(str))
    _, note, _ = _column(list(texts))
    assert f"15 cells hold {word}, far from all others: missing=x:{word} reads them as empty" in note
    assert "far from" in _column(pd.Series(texts).astype(float))[1]
    _, note, read = _column(list(texts), Rules(missing=(f"x:{word}",)))
    assert "far from" not in note
    assert (np.isnan(read) == holes).all()


def test_ordinary_columns_get_no_such_note():
    rng = np.random.default_rng(1)
    columns = {
        "pareto": rng.pareto(1.0, 2000).round(1),
        "counts": rng.negative_binomial(0.3, 0.01, 2000),
        "incomes": (rng.lognormal(7, 2, 2000)).round(),
        "change": rng.poisson(2, 2000) - 1,
        "sign": rng.integers(-1, 2, 2000),
        "cold": rng.normal(5, 6, 2000).round(),
        "percent": np.minimum(rng.exponential(30, 2000).round(), 99),
        "label-like": rng.choice([-1, 1], 2000),
    }
    found = look(pd.DataFrame({**columns, "y": ["a", "b"] * 1000}), label="y")
    assert [note.name for note in found.notes if "hold" in note.note] == []


def test_words_for_no_value_may_be_those_of_one_column():
    days = [f"{1 + i % 28}/{1 + i % 12}/2020" if i % 3 == 0 else "0" for i in range(N)]
    table = pd.DataFrame({"recovered": days, "a:b": ["0", "1"] * (N // 2), "y": ["0", "1"] * (N // 2)})
    notes = look(table, label="y", rules=Rules(date_order="day-first")).notes
    assert "missing=recovered:0 reads them as empty" in notes[0].note
    found = look(table, label="y", rules=Rules(date_order="day-first", missing=("recovered:0", "a:b:1", "y:9")))
    assert found.classes == ("0", "1")
    assert {note.name: note.missing for note in found.notes} == {"recovered": 200, "a:b": 150, "y": 0}
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
        "empty": [""] * N,
    }
    found = _look(AGES, **others)
    notes = {note.name: note.note for note in found.notes}
    assert notes["Surname"].endswith("slow, or each says little (drop=Surname leaves it out)")
    assert "('drop=STDs:cervical warts' leaves it out)" in notes["STDs:cervical warts"]
    words = "'Surname,wuhan(0)_not_wuhan(1),STDs:cervical warts,empty'"
    assert found.command == f"fedkd server schema TABLE --id-column RowNumber --drop {words}"
    drop = ("Surname", "wuhan(0)_not_wuhan(1)", "STDs:cervical warts", "empty")
    again = _look(AGES, Rules(id_column="RowNumber", drop=drop), **others)
    assert again.command == ""
    assert [column.name for column in again.columns] == ["x", "other"]


@pytest.mark.parametrize("kind", [str, int])
def test_a_number_that_nearly_each_row_has_of_its_own_is_suspected_by_its_name_length_or_by_counting(kind):
    twice = [kind(100_000 + 7 * max(i, 1)) for i in range(N)]  # one patient came twice
    found = _look(twice, name="patient_id")
    assert found.notes[0].note.startswith("299 different whole numbers in 300 rows: an identifier?")
    assert found.command.endswith("--id-column patient_id")
    for numbers in (RNG.permutation(N), RNG.choice(9 * 10**9, N, replace=False) + 10**9):
        column, note, _ = _column([kind(number) for number in numbers])
        assert column.kind == "numeric"  # a count of rows by another name may be a feature
        assert "an identifier? It is read as numbers (drop=x leaves it out)" in note
    assert _column([kind(i % 3) for i in range(N)], name="patient_id")[1] == ""
