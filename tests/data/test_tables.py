import numpy as np
import pandas as pd
import pytest
from schemas import column, schema_of

from fedkd_flwr.data import tables
from fedkd_flwr.data.look import infer_schema
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.labels import ABSTAIN

SCHEMA = schema_of(column("a"))
PUBLIC = make_public_set(pd.DataFrame({"a": ["1", "2", "3"]}), SCHEMA)


def test_a_row_that_cannot_be_used_costs_no_other_row(write):
    rows = [f"{i},{'yes' if i % 2 else 'no'}" for i in range(40)]
    good = write("good.csv", "\n".join(["a,label", *rows, ""]))
    rows[7], rows[8], rows[30] = "7,perhaps", "many,no", "30,"
    whole = tables.load_usable_rows(good, PUBLIC)
    found = tables.load_usable_rows(write("bad.csv", "\n".join(["a,label", *rows, ""])), PUBLIC)
    X, y = tables.load_party_table(good, SCHEMA, PUBLIC.preprocessor)
    assert whole.fault is None
    np.testing.assert_array_equal(whole.X, X)
    np.testing.assert_array_equal(whole.y, y)
    usable = found.y >= 0
    assert np.flatnonzero(~usable).tolist() == [7, 8, 30]
    np.testing.assert_array_equal(found.X[usable], X[usable])
    np.testing.assert_array_equal(found.y[usable], y[usable])
    assert "1 of 40 rows without one (first: row 31)" in str(found.fault)


@pytest.mark.parametrize("text", ["", "a,label\n", "a,label\n1,no,2\n", "b,c\n1,2\n", "\x00"])
def test_a_file_that_is_no_table_has_no_row_that_can_be_used(write, text):
    found = tables.load_usable_rows(write("rows.csv", text), PUBLIC)
    assert found.fault is not None
    assert not (found.y >= 0).any()
    assert found.X.shape == (found.num_rows, 1)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_name_with_accents_is_the_schemas_whoever_wrote_the_file(tmp_path, suffix):
    """On macOS an accented letter may be two characters."""
    table = pd.DataFrame({"Gro\u0308\u00dfe": ["1.5", "2.5"], "stra\u00dfe": ["Mu\u0308hlweg", "M\u00fchlweg"]})
    path = tmp_path / f"rows.{suffix}"
    table.to_csv(path, index=False) if suffix == "csv" else table.to_parquet(path)
    size, street = "Gr\u00f6\u00dfe", "stra\u00dfe"
    assert tables.read_table(path).columns.tolist() == [size, street]
    toml = 'version = 1\nclasses = ["a", "b"]\n[[columns]]\nname = "Gro\u0308\u00dfe"\nkind = "numeric"\n'
    toml += f'[[columns]]\nname = "{street}"\nkind = "categorical"\ncategories = ["Mu\u0308hlweg"]\n'
    schema = Schema.from_toml(toml)
    X = make_public_set(tables.read_table(path), schema).X
    assert X[:, 1].tolist() == [1.0, 1.0]
    assert infer_schema(tables.read_table(path), classes=["a", "b"]).column_names == (size, street)


def test_files_of_parties_are_called_as_the_files_are_and_a_folder_gives_those_that_are_tables(write, tmp_path):
    north, south = write("north.csv.gz", "a,y\n1,x\n"), write("south.tsv", "a\ty\n1\tx\n")
    write("README.md", "no table")
    assert tables.party_files(f"{north}, {south}") == {"north": north, "south": south}
    assert tables.party_files(str(tmp_path)) == {"north": north, "south": south}
    with pytest.raises(DataError, match=r"tables must be two files or more, .* got 'a.csv'\. Name them with commas"):
        tables.party_files("a.csv")
    with pytest.raises(DataError, match="the files of tables must have distinct names, got a more than once"):
        tables.party_files("x/a.csv,y/a.tsv")


def test_files_of_parties_become_one_table_that_says_who_lacks_which_column(write):
    files = {"b": write("b.csv", "age,y\n7,no\n"), "a": write("a.csv", "y,age,crp\nyes,8,2\nno,9,?\n")}
    notes: list[str] = []
    table, owners = tables.read_tables(files, notes=notes, label="y")
    assert owners.tolist() == ["b", "a", "a"]
    assert table[["age", "y"]].to_dict("list") == {"age": ["7", "8", "9"], "y": ["no", "yes", "no"]}
    assert table["crp"].isna().tolist() == [True, False, False]
    assert notes == ["b.csv has no column crp"]
    with pytest.raises(DataError, match=r"label must be a column of .*b\.csv, got 'crp'\. Its columns are age, y"):
        tables.read_tables(files, notes=[], label="crp")


def test_a_party_s_file_is_encoded_by_the_public_schema_and_scale_and_needs_the_label(people, schema, tmp_path):
    public, path = make_public_set(people, schema), tmp_path / "party.csv"
    pd.DataFrame({"income": [" >50K"], "job": ["smith"], "age": [40], "name": ["Ann"]}).to_csv(path, index=False)
    X, y = tables.load_party_table(path, schema, public.preprocessor)
    assert (X.tolist(), y.tolist()) == ([[0.0, 0.0, 1.0]], [1])
    people.drop(columns="income").to_csv(path, index=False)
    with pytest.raises(DataError, match=r"label column 'income', got columns age, job\. Rename"):
        tables.load_party_table(path, schema, public.preprocessor)


def test_a_public_file_finds_its_schema_and_keeps_labels_only_as_truth(people, schema, tmp_path):
    def load(table):
        table.to_csv(tmp_path / "u.csv", index=False)
        return tables.load_public(tmp_path / "u.csv")

    with pytest.raises(DataError, match="fedkd server schema") as caught:
        load(people)
    assert caught.value.code is Code.MISSING_FILE
    schema.write(tmp_path / "schema.toml")
    labelled, bare = load(people), load(people.drop(columns="income"))
    assert labelled.y.tolist() == [0, 1, 1]
    assert bare.y is None
    assert labelled.X.tolist() == bare.X.tolist()
    assert load(people.assign(income="")).y is None
    assert load(people.assign(income=["", "duke", None])).y is None
    some = load(people.assign(income=["", people.income[1], None]))
    assert some.y.tolist() == [ABSTAIN, 1, ABSTAIN]
    assert some.fingerprint == labelled.fingerprint == bare.fingerprint


@pytest.mark.parametrize(("name", "message"), [("rows.csv", "file must exist"), ("rows.doc", "must end in")])
def test_that_a_file_is_there_and_what_its_name_says_is_no_matter_of_its_rows(tmp_path, name, message):
    (tmp_path / "rows.doc").write_text("a,label\n1,no\n")
    with pytest.raises(DataError, match=message):
        tables.load_usable_rows(tmp_path / name, PUBLIC)


def test_a_table_is_read_by_its_name_until_it_is_no_longer_given():
    rows = pd.DataFrame({"a": [1, 2], 3: ["x", None]}, index=[7, 8])
    with tables.giving(rows) as name:
        read = tables.read_table(name)
        assert read.columns.tolist() == ["a", "3"]
        assert read.index.tolist() == [0, 1]
        read["a"] = 0
        assert tables.read_table(name)["a"].tolist() == [1, 2]  # each reader has a copy of its own
    assert tables.given_table(name) is None
    with pytest.raises(DataError, match="file must exist"):
        tables.read_table(name)


def test_equal_tables_have_equal_names_and_others_have_others_and_columns_must():
    names = []
    for value in (1, 1, 2, [1, 2]):  # a list has no hash
        with tables.giving(pd.DataFrame({"a": pd.Series([value, 3], dtype=object)})) as name:
            names.append(name)
    assert names[0] == names[1]
    assert len(set(names)) == 3
    twice = tables.giving(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="columns of the table must have distinct names"), twice:
        pass


@pytest.mark.parametrize(
    ("lacks", "num_parties", "asked"),
    [
        ({"a": ["Age"], "b": ["age"]}, 2, ["'Age' what others call 'age'"]),
        ({"a": ["Age"], "b": ["age"]}, 3, []),  # the third has both
        ({"a": ["Age"], "b": ["age"], "c": ["bmi"]}, 3, []),
        ({"a": ["Age"], "b": ["dose"]}, 2, []),
        ({"a": ["SMOKER"], "b": ["smoking", "x"], "c": ["SMOKER", "smoking"]}, 3, ["'SMOKER' what others call 's"]),
        ({}, 0, []),
    ],
)
def test_two_columns_are_asked_about_where_nobody_has_both_and_their_names_are_alike(lacks, num_parties, asked):
    said = tables.named_alike(lacks, num_parties)
    assert len(said) == len(asked)
    assert all(words in sentence for words, sentence in zip(asked, said, strict=True))
