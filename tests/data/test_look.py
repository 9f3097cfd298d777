import shlex

import numpy as np
import pandas as pd
import pytest
from data.conftest import NUMBERS, N, found_of, german, table_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.look import Rules, infer_schema, look, look_at_file, note_lines
from fedkd_flwr.data.preprocessor import Preprocessor
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import load_public, load_usable_rows, read_table
from fedkd_flwr.errors import DataError


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
    plain = [f"{i}.5" for i in range(N)]  # one comma anywhere decides
    table = table_of(x=values, other=german(NUMBERS), count=[str(i % 9) for i in range(N)])
    assert look(table.assign(plain=plain), label="y").columns[0].reading.thousands == "."
    found = look(table, label="y")
    assert [column.reading.thousands for column in found.columns] == [".", ".", ""]
    assert [column.reading.decimal for column in found.columns] == [","] * 3
    assert next(note for note in found.notes if note.name == "x").repaired == N


def test_dates_and_commas_that_mean_two_things_are_asked_for_one_after_the_other():
    days = [f"{i % 12 + 1}/{(i + 5) % 12 + 1}/2020" for i in range(N)]
    table = table_of(x=[f"{i + 1},{i + 100}" for i in range(N)], day=days, other_day=days)
    others = r"'1,100' in row 1\)\. 2 more columns cannot be read: day, other_day\.\nIf 1,234"
    with pytest.raises(DataError, match=others):
        look(table, label="y")
    with pytest.raises(DataError, match=r"in one way, got '1/6/2020' and no day above 12") as caught:
        look(table, label="y", rules=Rules(decimal=","))
    assert str(caught.value).splitlines()[1:] == [
        "If the day comes first in 1/6/2020: fedkd server schema TABLE --decimal , --date-order day-first",
        "If the month comes first: fedkd server schema TABLE --decimal , --date-order month-first",
    ]
    for order in ("day-first", "month-first"):
        found = look(table, label="y", rules=Rules(decimal=",", date_order=order))
        assert [column.reading.dates for column in found.columns] == ["", order, order]


def test_rare_classes_and_rows_without_a_label_are_said():
    table = table_of(x=NUMBERS)
    table["y"] = ["", "rare", *["no", "Yes", "yes"] * 39, ""]
    note = look(table, label="y").notes[-1]
    assert note.read_as == "label, 4 classes"
    assert "2 rows without a label (first: row 1): left out; rare: 'rare' (1 row)" in note.note
    assert "classes Yes, yes differ only in case" in note.note
    table["y"] = NUMBERS.round(2).astype(str)
    with pytest.raises(DataError, match="'y' must be said what it is, got 120 different numbers in 120 rows"):
        look(table, label="y")


@settings(max_examples=10)
@given(
    st.lists(
        st.lists(st.text(max_size=8) | st.sampled_from(["1,5", "<2", "1.1.2020", "", "9"]), min_size=2, max_size=2),
        min_size=6,
        max_size=9,
    )
)
@example([["", ""]] * 5 + [["0", ",0"]])
def test_no_table_is_read_silently_or_ends_in_another_error(rows):
    """Each cell of a column of numbers is read, is empty, or is named in a note; each error is this package's."""
    table = pd.DataFrame(rows * 4, columns=["a", "b"]).assign(y=["no", "yes"] * (2 * len(rows)))
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
            plain, unread = Reading().parse(table[column.name])
            alike = not unread.any() and np.array_equal(plain, numbers, equal_nan=True)
            assert note.note or (not column.reading.missing and alike)


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


def test_a_note_says_which_words_of_a_column_of_codes_were_read_as_empty():
    column, found = found_of(["DE", "NA", "FR", "nan", "None", " NA"] * 20)
    assert column.categories == ("DE", "FR")
    said = "80 cells read as empty: 'NA' (40), 'nan' (20), 'None' (20); write it otherwise if it is a category"
    assert found.note == said
    schema = Schema(columns=(column,), classes=("ill", "well"), label="y")
    preprocessor = Preprocessor().fit(pd.DataFrame({"x": ["DE", "FR"]}), schema)
    assert preprocessor.transform(pd.DataFrame({"x": ["NA", "DE"]})).tolist() == [[0, 0], [1, 0]]
    assert "read as empty" not in found_of(["DE", "NA"] * 60, missing=("NA",))[1].note  # the user says so himself
    column, found = found_of(["DE", "", "?", "none"] * 30)
    assert (column.categories, "read as empty" in found.note) == (("DE", "none"), False)


def test_errors_of_a_spreadsheet_get_a_note_in_every_column_and_na_among_numbers_none():
    column, found = found_of(["1.5", "#DIV/0!", "2", "#N/A", "3", "NA"] * 20)
    assert (column.kind, found.note) == ("numeric", "40 cells read as empty: '#DIV/0!' (20), '#N/A' (20)")
    assert "'#REF!' (30)" in found_of(["a", "b", "#REF!", "a"] * 30)[1].note


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


def test_inference_tells_numbers_from_categories_and_leaves_out_label_and_id_and_needs_classes(people):
    table = people.assign(id=["a", "b", "c"], rank=["1", "?", "2.5"], flag=[True, False, True])
    columns = infer_schema(table, classes=("<=50K", ">50K"), label="income", id_column="id").columns
    kinds = {"age": "numeric", "job": "categorical", "rank": "numeric", "flag": "categorical"}
    assert {c.name: c.kind for c in columns} == kinds
    assert columns[1].categories == ("cook", "smith")
    with pytest.raises(DataError, match=r"classes must be named, .*no label column 'target'.*--classes"):
        infer_schema(people, label="target")


def test_the_next_command_repeats_what_was_given(tmp_path):
    path = tmp_path / "my file.csv"
    path.write_text("id;x;y;ward\n" + "".join(f"{i};{i % 3};{i % 2};4\n" for i in range(30)))
    options = {"output": "s.toml", "no": ""}
    found, schema = look_at_file(path, label="y", rules=Rules(date_order="day-first"), options=options)
    given = "--label y --output s.toml --date-order day-first"
    assert found.command == f"fedkd server schema '{path}' {given} --id-column id --drop ward"
    assert schema.id_column == "id"


def test_no_next_command_drops_only_what_is_left_out_anyway(people):
    many = pd.concat([people] * 10, ignore_index=True)
    looked = look(many.assign(name=[f"patient {i} x" for i in many.index]), label="income")
    assert "identifier" in {note.name: note.note for note in looked.notes}["name"]
    assert looked.command == ""


def test_a_silo_reads_its_raw_file_as_the_public_one_was_read(tmp_path):
    public = ["dose;day;y", *(f"{i},5;{i + 1:02d}.03.2021;{'no' if i % 2 else 'yes'}" for i in range(28))]
    (tmp_path / "public.csv").write_text("\n".join([*public, "<0,5;29.03.2021;no"]))
    _, schema = look_at_file(tmp_path / "public.csv", label="y")
    schema.write(tmp_path / "schema.toml")
    assert Schema.read(tmp_path / "schema.toml") == schema
    read = load_public(tmp_path / "public.csv")
    (tmp_path / "own.csv").write_text("y;dose;day\nno;0,5;1.3.2021\nyes;<0,5;01.03.2021\nno;0.5;01.03.2021\nno;-;\n")
    own = load_usable_rows(tmp_path / "own.csv", read)
    assert own.y.tolist() == [0, 1, -1, 0]  # a decimal point is no number here, and costs its own row only
    assert (own.X[0] == read.X[0]).all()
    assert (own.X[1] == read.X[0]).all()
    frame = pd.DataFrame({"dose": [*(i + 0.5 for i in range(28)), 0.5], "day": pd.date_range("2021-03-01", periods=29)})
    frame["y"] = [*("no" if i % 2 else "yes" for i in range(28)), "no"]
    frame.to_parquet(tmp_path / "public.parquet")
    assert load_public(tmp_path / "public.parquet").fingerprint == read.fingerprint


def _images(path, shape=(40, 3, 8, 6), dtype=np.uint8, **arrays):
    X = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)
    np.savez(path, X=X, y=np.arange(len(X)) % 2, **arrays)
    return X


@pytest.mark.parametrize(("shape", "written"), [((40, 8, 6), (1, 8, 6)), ((40, 3, 8, 6), (3, 8, 6))])
def test_images_keep_their_shape_in_the_schema_and_in_a_simulation(tmp_path, shape, written):
    """Each pixel became a column of numbers, and nets for images were refused."""
    X = _images(tmp_path / "im.npz", shape)
    found, schema = look_at_file(tmp_path / "im.npz", label="kind")
    assert (schema.shape, schema.columns, schema.classes) == (written, (), ("0", "1"))
    assert found.notes[0].read_as == f"images, {' x '.join(map(str, written))} (channels, height, width)"
    schema.write(tmp_path / "schema.toml")
    public = load_public(tmp_path / "im.npz")
    assert public.shape == written
    np.testing.assert_array_equal(np.round(public.X * 255), X.reshape(40, -1))
    pool = load_pool("table", seed=1, table=str(tmp_path / "im.npz"), label="kind")
    assert pool.public.shape == written
    assert [note.read_as for note in pool.columns] == [found.notes[0].read_as, "label, 2 classes"]


def test_an_npz_file_of_other_arrays_than_pixels_is_a_table(tmp_path):
    _images(tmp_path / "floats.npz", dtype=np.float32)
    assert read_table(tmp_path / "floats.npz").attrs["shape"] is None
    _images(tmp_path / "matrix.npz", (40, 6))
    assert read_table(tmp_path / "matrix.npz").attrs["shape"] is None
    assert look_at_file(tmp_path / "matrix.npz", label="y")[1].shape is None


def test_images_with_channels_last_and_rules_for_columns_are_refused(tmp_path):
    _images(tmp_path / "im.npz")
    _images(tmp_path / "last.npz", (40, 8, 6, 3))
    with pytest.raises(DataError, match=r"channels, height, width\), got \(40, 8, 6, 3\).*X.transpose\(0, 3, 1, 2\)"):
        look_at_file(tmp_path / "last.npz", label="y")
    images = look_at_file(tmp_path / "im.npz", label="y")[1]
    with pytest.raises(DataError, match=r"channels, height, width\), got \(40, 8, 6, 3\)"):
        read_table(tmp_path / "last.npz", images)  # as many pixels, in another order: a silo's model learnt from these
    with pytest.raises(DataError, match="drop must be given for a table, not for images, got 'pixel-0'"):
        look_at_file(tmp_path / "im.npz", label="y", rules=Rules(drop=("pixel-0",)))
