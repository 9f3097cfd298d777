import shlex

import numpy as np
import pandas as pd
import pytest
from data.conftest import DAYS, NUMBERS, N, found_of, german, table_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.look import Rules, look, note_lines
from fedkd_flwr.data.preprocessor import Preprocessor
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.write_schema import look_at_file
from fedkd_flwr.errors import DataError


def test_few_cells_that_are_no_number_are_named_with_their_rows():
    values = [f"{v:.1f}".replace(".", ",") for v in NUMBERS]
    values[6], values[9], values[11] = "<0,5", "clotted", "k.A."
    column, note = found_of(values)
    assert column.reading.limits == "number"
    assert column.reading.missing == ("clotted",)
    assert "1 cell is no number: '<0,5' in row 7: read as the limit itself (ranges-as=number)" in note.note
    assert "1 cell is no number: 'clotted' in row 10: read as empty (missing=x:clotted)" in note.note
    assert "1 cell read as empty: 'k.A.' in row 12" in note.note
    assert (note.repaired, note.missing) == (118, 2)
    emptied = found_of(values, ranges_as="missing")
    assert emptied[0].reading.limits == "missing"
    assert emptied[1].missing == 3


@pytest.mark.parametrize("share", [0.25, 0.7, 0.9])
def test_words_in_most_cells_of_a_column_of_numbers_are_said_and_many_numbers_are_an_error(share):
    """Such a column became categories without a word: each number its own."""
    rng = np.random.default_rng(0)
    where = rng.permutation(600) < 600 * share

    def found(numbers):
        values = pd.Series(np.where(where, rng.choice(["unknown", "not taken"], 600), numbers))
        return look(pd.DataFrame({"x": values, "y": ["no", "yes"] * 300}), label="y")

    few = found([str(number) for number in rng.integers(0, 12, 600)])
    note = next(note for note in few.notes if note.name == "x").note
    assert few.columns[0].kind == "categorical"
    assert note.startswith(f"{round(100 * (1 - share))} % of the cells are numbers, others are not: ")
    assert "reads them as empty, and the column as numbers" in note
    with pytest.raises(
        DataError, match=r"^column 'x' must hold numbers or .*\nNext: .* --missing '?[a-z,: ]+'?$"
    ) as error:
        found([f"{number:.2f}" for number in rng.normal(0, 50, 600)])
    # the marks around a rule, until a command spells it, are no part of what is said
    assert all(line.isprintable() and "x00" not in line for line in str(error.value).splitlines())
    assert " reads them as empty" in str(error.value)


def test_codes_are_categories_however_many_of_them_are_numbers():
    codes = [str(100 + i % 40) if i % 2 else f"E{10 + i % 24}" for i in range(10 * N)]
    found = look(pd.DataFrame({"code": codes, "y": ["no", "yes"] * (5 * N)}), label="y")
    assert [(column.kind, len(column.categories)) for column in found.columns] == [("categorical", 32)]
    wards = [f"W{i % 70}" if i % 10 else str(i % 300) for i in range(10 * N)]
    found = look(pd.DataFrame({"ward": wards, "y": ["no", "yes"] * (5 * N)}), label="y")
    assert found.columns[0].kind == "categorical"
    assert len(found.columns[0].categories) > 50


def test_numbers_with_leading_zeros_and_equally_many_digits_are_codes():
    column, note = found_of([f"{i % 30:03d}" for i in range(N)])
    assert (column.kind, column.categories[7]) == ("categorical", "007")
    assert note.note == (
        "whole numbers of equal length, some with a leading zero such as '000': read as categories "
        '(a schema with kind = "numeric" reads them as numbers)'
    )
    assert found_of([f"{i % 30:03d}" if i % 5 else "-" for i in range(N)])[1].missing == N // 5
    column, note = found_of([f"{7 * i:05d}" for i in range(N)])  # that name rows, as other texts
    assert column is None
    assert note.note.startswith("120 different texts in 120 rows: an identifier or names")
    for numbers in (
        [f"0.{i % 30:02d}" for i in range(N)],  # no leading zero of a whole number
        [f"{i % 30:02d}" if i % 2 else str(100 + i) for i in range(N)],  # of different lengths
        [str(100 + i % 30) for i in range(N)],
        [str(i % 2) for i in range(N)],
    ):
        assert found_of(numbers)[0].kind == "numeric"


def test_a_minus_that_is_no_hyphen_is_read_in_every_shape_of_number():
    for values in ([str(number) for number in NUMBERS], german(NUMBERS), [f"{number:.1f} mg/l" for number in NUMBERS]):
        column, note = found_of([value.replace("-", "\u2212") for value in values])
        plain, said = found_of(values)
        assert column == plain
        assert (note.read_as, note.repaired, note.missing) == (said.read_as, said.repaired, said.missing)
    column, _ = found_of(["+", "\u2212"] * (N // 2))
    assert column.categories == ("+", "\u2212")


def test_commas_that_mean_two_things_are_asked_for_or_read_as_the_other_columns():
    values = [f"{i + 1},{i + 100}" for i in range(N)]
    with pytest.raises(DataError, match=r"read in one way, got commas .*'1,100' in row 1") as caught:
        found_of(values)
    assert "If 1,234 there means 1.234: fedkd server schema TABLE --decimal ,\n" in str(caught.value)
    assert str(caught.value).endswith("If 1,234 means one thousand: fedkd server schema TABLE --decimal .")
    assert found_of(values, decimal=",")[0].reading.decimal == ","
    assert found_of(values, decimal=".")[0].reading.thousands == ","
    for other, sign in (([f"{v:.2f}" for v in NUMBERS], "."), (german(NUMBERS), ",")):
        found = look(table_of(x=values, other=other), label="y")
        assert [column.reading.decimal for column in found.columns] == [sign, sign]


def test_points_for_thousands_are_read_as_the_commas_of_the_other_columns_say():
    values = [f"{i + 1}.{i + 100}" for i in range(N)]
    assert "three decimals each" in found_of(values)[1].note
    found = look(table_of(x=values, other=german(NUMBERS), count=[str(i % 9) for i in range(N)]), label="y")
    assert [column.reading.thousands for column in found.columns] == [".", ".", ""]
    assert [column.reading.decimal for column in found.columns] == [","] * 3
    assert next(note for note in found.notes if note.name == "x").repaired == N


def test_dates_and_commas_that_mean_two_things_are_asked_for_at_once():
    days = [f"{i % 12 + 1}/{(i + 5) % 12 + 1}/2020" for i in range(N)]
    table = table_of(x=[f"{i + 1},{i + 100}" for i in range(N)], day=days, other_day=days)
    with pytest.raises(DataError) as caught:
        look(table, label="y")
    assert str(caught.value).splitlines()[2:] == [
        "If 1,234 there means 1.234, and if the day comes first in 1/6/2020:"
        " fedkd server schema TABLE --decimal , --date-order day-first",
        "If 1,234 means one thousand, put decimal=. instead; if the month comes first, put date-order=month-first "
        "instead.",
    ]
    assert "column 'day'" in str(caught.value)
    assert "So have 1 more: other_day." in str(caught.value)
    found = look(table, label="y", rules=Rules(decimal=",", date_order="day-first"))
    assert [column.reading.dates for column in found.columns] == ["", "day-first", "day-first"]
    with pytest.raises(DataError, match=r"dates that can be read in one way, got '1/6/2020' and no day above 12"):
        found_of(days)
    for order in ("day-first", "month-first"):
        assert found_of(days, date_order=order)[0].reading.dates == order


def test_following_the_next_command_literally_gives_the_same_columns_and_no_further_suggestion():
    table = table_of(
        patient_id=[f"P{i}" for i in range(N)],
        nr=[str(i + 1) for i in range(N)],
        name=[f"Doe {i}" for i in range(N)],
        empty=[""] * N,
        x=[f"{v:.1f}".replace(".", ",") for v in NUMBERS],
    )
    said = []
    first = look(table, label="y", command=lambda words: said.append(dict(words)) or "next")
    assert first.command == "next"
    assert said[-1] == {"id-column": "patient_id", "drop": "nr,name,empty"}
    again = look(table, label="y", rules=Rules(id_column="patient_id", drop=("nr", "name", "empty")))
    assert again.columns == first.columns
    assert again.command == ""


def test_a_number_that_each_row_has_of_its_own_is_suspected_by_its_name_or_by_counting():
    rng = np.random.default_rng(3)
    own = rng.choice(10**6, N, replace=False).astype(str)
    assert look(table_of(case_no=own, x=["1", "2"] * (N // 2)), label="y").command.endswith("--id-column case_no")
    column, note = found_of(rng.permutation(N).astype(str))
    assert column.kind == "numeric"  # a count of rows by another name may be a feature
    assert "an identifier? It is read as numbers (drop=x leaves it out)" in note.note
    column, note = found_of(rng.choice(9 * 10**9, N, replace=False) + 10**9)  # such as a medical record's number
    assert column.kind == "numeric"
    assert "an identifier? It is read as numbers" in note.note


@pytest.mark.parametrize("kind", [str, int])
def test_numbers_that_nearly_name_rows_are_said_also_where_one_repeats_or_floats_cannot_hold_them(kind):
    ids = [100_000 + 7 * i for i in range(N)]
    ids[1] = ids[0]  # a patient who came twice
    look_at = {"patient_id": [kind(i) for i in ids], "z": NUMBERS.astype(str)}
    found = look(table_of(**look_at), label="y")
    note = next(one.note for one in found.notes if one.name == "patient_id")
    assert note.startswith("119 different whole numbers in 120 rows: an identifier?")
    assert found.command.endswith("--id-column patient_id")
    look_at["patient_id"] = [kind(10**18 + i) for i in range(N)]
    note = next(one.note for one in look(table_of(**look_at), label="y").notes if one.name == "patient_id")
    assert note.startswith("whole numbers of 16 digits or more, whose last ones are lost: an identifier?")
    look_at["patient_id"] = [kind(i) for i in [1, 2, 3] * (N // 3)]
    assert not next(one.note for one in look(table_of(**look_at), label="y").notes if one.name == "patient_id")


def test_dates_written_in_two_ways_are_read_in_both_where_no_cell_fits_the_two():
    """Half and half, they were an identifier or 254 categories without a word."""
    for forms in (("%d.%m.%Y", "%Y-%m-%d"), ("%Y-%m-%d", "%m/%d/%Y %H:%M"), ("%d-%b-%y", "%d/%m/%Y", "%Y/%m/%d")):
        column, note = found_of([f"{day:{forms[i % len(forms)]}}" for i, day in enumerate(DAYS)])
        numbers, bad = column.reading.parse([f"{day:{forms[i % len(forms)]}}" for i, day in enumerate(DAYS)])
        assert not bad.any()
        assert (np.diff(numbers) == 3).all()
        assert note.repaired == N
        assert "all cells look like dates (" in note.note
        assert " or dates (" in note.note
    both = [f"{day:{('%d/%m/%Y', '%m/%d/%Y')[i % 2]}}" for i, day in enumerate(DAYS)]
    with pytest.raises(DataError) as caught:
        found_of(both)
    assert "column 'x' must hold dates in one order, got the day first in '13/01/2020' and the month first in" in str(
        caught.value
    )
    assert str(caught.value).endswith("\nNext: fedkd server schema TABLE --drop x")


def test_rare_classes_and_rows_without_a_label_are_said():
    table = table_of(x=NUMBERS)
    table["y"] = ["", "rare", *["no", "Yes", "yes"] * 39, ""]
    note = look(table, label="y").notes[-1]
    assert note.read_as == "label, 4 classes"
    assert "2 rows without a label (first: row 1): left out; rare: 'rare' (1 row)" in note.note
    assert "classes Yes, yes differ only in case" in note.note
    table["y"] = NUMBERS.round(2).astype(str)
    with pytest.raises(
        DataError, match=r"label column 'y' must be said what it is, got 120 different numbers in 120 rows"
    ):
        look(table, label="y")


def _read_alike(column, numbers):
    plain, unread = Reading().parse(column)
    return not unread.any() and np.array_equal(plain, numbers, equal_nan=True)


@settings(max_examples=10)
@given(
    st.lists(
        st.lists(st.text(max_size=8) | st.sampled_from(["1,5", "<2", "1.1.2020", "", "9"]), min_size=2, max_size=2),
        min_size=25,
        max_size=30,
    )
)
@example([["", ""]] * 24 + [["0", ",0"]])
def test_no_table_is_read_silently_or_ends_in_another_error(rows):
    """Each cell of a column of numbers is read, is empty, or is named in a note; each error is this package's."""
    table = pd.DataFrame(rows, columns=["a", "b"]).assign(y=["no", "yes"] * (len(rows) // 2) + ["no"] * (len(rows) % 2))
    try:
        found = look(table, label="y")
    except DataError:
        return
    for column in found.columns:
        if column.kind == "numeric":
            numbers, bad = column.reading.parse(table[column.name])
            note = next(note for note in found.notes if note.name == column.name)
            assert not bad.any()
            assert note.missing == np.isnan(numbers).sum()
            # without a note a plain reading gives the same: whole numbers beside a column with decimal commas need none
            assert note.note or (not column.reading.missing and _read_alike(table[column.name], numbers))


def test_a_messy_table_is_split_as_its_clean_twin(tmp_path):
    rng = np.random.default_rng(0)
    rows = 200
    clean = pd.DataFrame(
        {"x": rng.normal(size=rows).round(3), "day": rng.integers(0, 900, rows), "c": rng.choice(["a", "b"], rows)}
    )
    clean["y"] = rng.choice(["no", "yes"], rows)
    clean.loc[6, "x"] = 0.5
    clean["since"] = clean["day"] // 3
    messy = clean.assign(
        since=[f"{pd.Timestamp('1970-01-01') + pd.Timedelta(days=int(d)):%Y%m%d}" for d in clean["since"]],
        id=[f"P{i}" for i in range(rows)],
        x=[f"{x:.3f}".replace(".", ",") for x in clean["x"]],
        day=[f"{pd.Timestamp('1970-01-01') + pd.Timedelta(days=int(d)):%d.%m.%Y}" for d in clean["day"]],
    )
    messy.loc[6, "x"] = "<0,5"
    clean.to_csv(tmp_path / "clean.csv", index=False)
    messy.to_csv(tmp_path / "messy.csv", index=False, sep=";", encoding="utf-8-sig")
    one, other = (
        load_pool("table", seed=1, table=str(tmp_path / name), label="y") for name in ("clean.csv", "messy.csv")
    )
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.y, other.y)
    assert one.next_command == ""
    assert other.next_command == f"fedkd simulate dataset=table table={tmp_path / 'messy.csv'} label=y id-column=id"


def test_words_and_numbers_for_no_value_are_said_or_emptied_and_a_word_of_no_cell_gets_a_note():
    _, note = found_of([str(i % 5) for i in range(N - 1)] + ["Total"])
    assert "99 % of the cells are numbers, others are not: 'Total' in row 120 (missing=x:Total reads" in note.note
    _, note = found_of(["Yes", "yes", "no"] * (N // 3))
    assert "'Yes' and 'yes' are different categories" in note.note
    values = [-999.0] * 20 + list(NUMBERS[20:])
    assert [found_of(values, missing=words)[1].missing for words in ((), ("-999",))] == [0, 20]
    found = look(table_of(x=values, other=["unknown"] + ["a"] * (N - 1)), label="y", rules=Rules(
        missing=("-999", "unknown", "unknwon", "-9999")))  # fmt: skip
    said = [note.note for note in found.notes if not note.name]
    assert said == ["missing: no cell of the table is 'unknwon' or '-9999'"]
    column, note = found_of(pd.to_timedelta(np.arange(N) % 50, unit="h"))  # of a Parquet file
    assert (column.kind, note.note) == ("numeric", "durations: read as days")


def test_notes_are_a_table_of_few_whole_lines_whatever_names_hold():
    table = table_of(**{f"x{i}": NUMBERS for i in range(80)}, odd=german(NUMBERS))
    lines = note_lines(look(table, label="y").notes)
    assert (len(lines), lines[-1]) == (4, "and 80 columns with nothing to say")
    table = table_of(**{"CRP\n(mg/l)": NUMBERS}).assign(y=["at\nhome", "\x1b[31mdead"] * (N // 2))
    header, *lines = note_lines(look(table, label="y").notes)
    assert [line.split("  ")[0] for line in lines] == [r"CRP\n(mg/l)", "y"]
    assert lines[-1].endswith(r"\x1b[31mdead, at\nhome")
    assert all(line.isprintable() for line in (header, *lines))


def test_rows_without_a_label_are_left_out_of_a_simulation_and_refused_beside_given_row_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{i % 7},{'' if i == 3 else i % 2}\n" for i in range(41)))
    pool = load_pool("table", seed=1, table=str(tmp_path / "t.csv"), label="y")
    assert len(pool.y) + len(pool.y_test) + pool.public.num_rows == 40
    rows = {"public": np.array([0]), "test": np.array([1])}
    with pytest.raises(DataError, match="with given row numbers must all have a label, got 1 without one"):
        load_pool("table", seed=1, table=str(tmp_path / "t.csv"), label="y", rows=rows)


# ------------------------------------------------------------------------------- words such as NA, and labels


def _note(values, **rules):
    table = pd.DataFrame({"x": values, "y": ["ill", "well"] * (len(values) // 2)})
    found = look(table, label="y", rules=Rules(**rules))
    column = next((column for column in found.columns if column.name == "x"), None)
    return column, next(note.note for note in found.notes if note.name == "x")


def test_a_note_says_which_words_of_a_column_of_codes_were_read_as_empty():
    column, note = _note(["DE", "NA", "FR", "nan", "None", " NA"] * 10)
    assert column.categories == ("DE", "FR")
    assert note == "40 cells read as empty: 'NA' (20), 'nan' (10), 'None' (10); write it otherwise if it is a category"
    schema = Schema(columns=(column,), classes=("ill", "well"), label="y")
    features = (
        Preprocessor().fit(pd.DataFrame({"x": ["DE", "FR"]}), schema).transform(pd.DataFrame({"x": ["NA", "DE"]}))
    )
    assert features.tolist() == [[0, 0], [1, 0]]
    assert "read as empty" not in _note(["DE", "NA"] * 10, missing=("NA",))[1]  # the user says so himself
    assert "read as empty" not in _note(["DE", "", "?", "none"] * 10)[1]
    assert _note(["DE", "", "?", "none"] * 10)[0].categories == ("DE", "none")


def test_errors_of_a_spreadsheet_get_a_note_in_every_column_and_na_among_numbers_none():
    column, note = _note(["1.5", "#DIV/0!", "2", "#N/A", "3", "NA"] * 10)
    assert column.kind == "numeric"
    assert note == "20 cells read as empty: '#DIV/0!' (10), '#N/A' (10)"
    assert "'#REF!' (10)" in _note(["a", "b", "#REF!", "a"] * 10)[1]


@pytest.mark.parametrize("word", ["NA", "#N/A"])
def test_a_label_that_may_be_a_class_or_none_is_asked_about_with_the_next_command(word, tmp_path):
    """A class NA vanished ("one class"), a class None stayed."""
    path = tmp_path / "t.csv"
    columns = {"age": range(40), "country": ["NA", "DE"] * 20, "nodes": ["N1", "N2", word, ""] * 10}
    pd.DataFrame(columns).to_csv(path, index=False)
    with pytest.raises(DataError, match=rf"'nodes' must tell a class from a missing label, got 10 rows with '{word}'"):
        look_at_file(path, label="nodes")
    with pytest.raises(DataError, match="tell a class") as caught:
        load_pool("table", seed=1, table=str(path), label="nodes", command=("model=knn",))
    asked, answer = str(caught.value).split("\n")
    assert asked.endswith(f"If '{word}' is a class, write it otherwise in the file, such as no-value.")
    assert answer.endswith(f"label=nodes {shlex.quote(f'missing=nodes:{word}')} model=knn")
    pool = load_pool("table", seed=1, table=str(path), label="nodes", rules=Rules(missing=(f"nodes:{word}",)))
    assert any("'NA' (20)" in note.note for note in pool.columns if note.name == "country")
    assert pool.public.schema.classes == ("N1", "N2")
    assert look_at_file(path, label="nodes", rules=Rules(missing=(word,)))[1].classes == ("N1", "N2")


@pytest.mark.parametrize("labels", [["ill", "", "none", "well"], ["0", "?", "1", "0"], [1.0, np.nan, 0.0, 1.0]])
def test_an_empty_label_is_not_asked_about(labels):
    table = pd.DataFrame({"age": [str(i * i % 7) for i in range(40)], "y": labels * 10})
    assert "None" not in look(table, label="y").classes
