from __future__ import annotations

import builtins
import dataclasses
import datetime
import gzip
import io
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.columns import column_texts
from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.formats import read_libsvm, require_readable
from fedkd_flwr.data.look import Rules
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_party_table, load_public, load_usable_rows, party_files, read_table, read_tables
from fedkd_flwr.data.write_schema import infer_schema, look_at_file
from fedkd_flwr.errors import Code, DataError, MissingExtraError
from fedkd_flwr.labels import ABSTAIN


@pytest.fixture
def write(tmp_path):
    def _write(name, text):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return _write


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "age,job\n7,cook\n8,smith\n"),
        ("t.csv", "\ufeffage;job\r\n7;cook\r\n8;smith\r\n"),
        ("t.tsv", "age\tjob\n7\tcook\n8\tsmith"),
        ("t.csv", "age|job\n7|cook\n8|smith\n"),
        ("t.csv.gz", 'age, "job"\n7, "cook"\n8, smith\n'),
    ],
)
def test_separator_byte_order_mark_and_gzip_are_found(write, name, text):
    table = read_table(write(name, text))
    assert table.to_dict("list") == {"age": ["7", "8"], "job": ["cook", "smith"]}


def test_csv_keeps_identifiers_and_text_as_written(write):
    table = read_table(write("t.csv", "zip,note\n007,NA\n010,\n"))
    assert table["zip"].tolist() == ["007", "010"]
    assert table["note"].tolist() == ["NA", ""]


def test_libsvm_columns_count_from_one_and_missing_ones_are_zero(write):
    path = write("t.libsvm", "+1 1:0.5\n-1 3:2\n")
    schema = Schema(
        columns=tuple(Column(name=f"f{i}", kind="numeric") for i in (1, 3, 4)), classes=("-1", "1"), label="y"
    )
    table = read_table(path, schema)
    assert list(table.columns) == ["f1", "f2", "f3", "f4", "y"]
    assert table[["f1", "f3", "f4"]].to_numpy().tolist() == [[0.5, 0, 0], [0, 2, 0]]
    assert read_libsvm(path)[0].shape == (2, 3)


def test_npz_gives_matrix_columns_and_labels(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(2), y=np.array(["a", "b"]))
    assert read_table(tmp_path / "t.npz").to_dict("list") == {"x0": [1, 0], "x1": [0, 1], "label": ["a", "b"]}


def test_missing_file_says_so(tmp_path):
    with pytest.raises(DataError, match=r"file must exist, got no file .*gone\.csv") as caught:
        read_table(tmp_path / "gone.csv")
    assert caught.value.code is Code.MISSING_FILE


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "must hold a header line and rows, got an empty file"),
        ("t.csv", "a,b\n", "must hold at least one row"),
        ("t.csv", "a,b,a\n1,2,3\n", "must have distinct names, got a more than once"),
        ("t.csv", "a,b\n1,2,3\n", "must have 2 values in every row"),
        ("t.csv", "Report\n\na;b\n1;2\n3;4\n", r"got 'Report'; the table seems to begin in line 3 with 'a, b'\. Take"),
        ("t.csv", "# made by hand, May\na;b;c\n1;2;3\n", r"'# made by hand, May'; .* in line 2 with 'a, b, c'\. Take"),
        ("t.data", "30,2,ill\n1,2,3,4,5,6\n3,4,5,6,7,8\n", r"'30, 2, ill'; .* in line 2 with '1, 2, 3, 4, 5, 6'\."),
        ("t.csv", "18.0  8 307\n15.0  8 350\n", r"between values, got spaces in '18\.0 8 307'\. Put a comma"),
        ("t.csv", "a,b\n1,2\n1,2,3\n", "must have 2 values in every row"),
        ("t.svm", "a,b\n1,2\n", "must hold LIBSVM lines"),
        ("t.svm", "0 0:1\n1 1:4\n", "Indexes count from 1"),
        ("t.xls", "PK", r"must end in \.csv, \.tsv"),
        ("t", "1,2", r"must end in .* got no suffix"),
        ("t.parquet", "PAR1", "must be a Parquet file"),
        ("t.npz", "\x93NUMPY", "must be an NPZ file of plain arrays"),
        ("t.npz", "PK\x03\x04", "must be an NPZ file of plain arrays"),
    ],
)
def test_damaged_file_is_refused_by_name(write, name, text, message):
    with pytest.raises(DataError, match=message):
        read_table(write(name, text))


@pytest.mark.parametrize(("encoding", "said"), [("cp1252", "Windows-1252"), ("utf-16", "UTF-16"), ("utf-8-sig", "")])
def test_an_encoding_is_recognised_and_said(encoding, said, tmp_path):
    (tmp_path / "t.csv").write_bytes("größe;Straße\n1;Aßlar\n2;Ulm\n".encode(encoding))
    notes = []
    table = read_table(tmp_path / "t.csv", notes=notes)
    assert table.to_dict("list") == {"größe": ["1", "2"], "Straße": ["Aßlar", "Ulm"]}
    assert said in "".join(notes)
    assert len(notes) == bool(said)


def test_a_line_in_another_encoding_changes_no_other_line(tmp_path):
    (tmp_path / "t.csv").write_bytes("a\nMünster\n".encode() + "Köln\n".encode("cp1252"))
    assert read_table(tmp_path / "t.csv")["a"].tolist() == ["Münster", "Köln"]


def test_bytes_that_are_no_text_are_refused_with_their_line(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n1,\x81\n")
    with pytest.raises(DataError, match=r"must be text in UTF-8 or Windows-1252, got byte 0x81 in line 3\. Save it"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a;b;c\n1;2;3\n1;2\n", "2 values in line 3. Complete"),
        ("a;b\n\n1;2\n1;2;3\n4\n", "3 values in line 4, 1 value in line 5. Complete"),
        ('a;b\n"x;y";2\n"x;y;z"\n', "1 value in line 3"),
        ('a;b\n"x\ny";2\n"x\ny"\n', "1 value in line 5"),
        ("a,b\n1,5,2\n", "3 values in line 2. Put numbers with a decimal comma"),
        ("sep=;\na;b\n1\n", "1 value in line 3"),
    ],
)
def test_short_and_long_rows_are_refused_by_line(text, seen, write):
    with pytest.raises(DataError, match=r"must have \d values in every row, as its header, got ") as caught:
        read_table(write("t.csv", text))
    assert seen in str(caught.value)


def test_columns_without_a_name_get_one_and_empty_ones_without_a_name_go(write):
    notes = []
    table = read_table(write("t.csv", ";a;\n0;5;\n1;6;\n"), notes=notes)
    assert table.to_dict("list") == {"column-1": ["0", "1"], "a": ["5", "6"]}
    assert notes == ["the header gives no name to column 1: it is called 'column-1'"]


_NO_HEADER = {
    "decimals, integers, words": "86,33.7,south,ill\n63,25.6,west,well\n67,33.5,south,ill\n82,26.2,west,well\n",
    "two rows": "5.1,3.5,setosa\n4.9,3.0,setosa\n",
    "integers": "6,148,72,35,1\n20,69,54,68,0\n1,87,142,50,1\n68,259,34,2,0\n",
    "repeated values": "63.0,1.0,1.0,0\n64.0,1.0,0.0,0\n61.0,2.0,0.0,1\n",
    "words": "x,s,n,p\nb,s,w,e\nx,y,n,e\nb,y,w,p\n",
    "codes and dates": "E11,2021-03-12,7\nI10,2021-05-02,9\nE66,2020-01-31,2\n",
    "decimal commas": "5,1;3,5;ja\n4,9;3,0;nein\n6,0;2,0;ja\n",
    "a cell without a value": "?,12,ill\n4,80,well\n5,7,ill\n",
    "a name in each row": "Braund,22,ill\nCumings,38,well\nHeikkinen,16,ill\nAllen,35,ill\n",
}
_HEADER = {
    "years": "region,2019,2020,2021\nnorth,5,6,7\nsouth,1,2,3\n",
    "years over years": "first,2019,2020,2021,2022\na,2020,2021,2018,2025\nb,2018,2019,2025,2020\n",
    "numbered columns": "0,1,2,3,4\n0.5,-1,3,9,2\n-2,4,1,-5,7\n",
    "wavelengths": "400.5,402.5,404.5,406.5,class\n0.1,0.2,0.3,0.2,a\n0.2,0.2,0.1,0.3,b\n",
    "words above words": "ward,outcome\nnorth,ill\nsouth,well\nnorth,ill\nsouth,ill\n",
    "words above texts of each row": "name,remark\nAnn,good\nBob,bad\nCy,none\n",
    "a name with a digit": "q1,q2,q3\nyes,no,yes\nno,no,yes\nyes,yes,no\nno,no,no\n",
    "names that count up above cells written so": "c0,c1,c2,y\na1,b0,c2,yes\na9,b1,c1,no\na0,b1,c0,yes\na1,b0,c1,no\n",
    "a name that is also a category": "male,age\nmale,33\nfemale,34\n",
    "no name for the row numbers": ",age,ward\n0,5,n\n1,6,s\n",
}


@pytest.mark.parametrize("text", _NO_HEADER.values(), ids=_NO_HEADER)
def test_a_file_whose_first_line_is_a_row_is_refused_in_one_way_and_read_as_the_user_says(write, text):
    path = write("t.csv", text)
    with pytest.raises(
        DataError, match=r"line 1 of .* must hold the columns' names, got what looks like a row: .*none"
    ):
        read_table(path)
    bare, first = read_table(path, header="none"), text.splitlines()[0]
    assert [*bare.columns] == [f"column-{i + 1}" for i in range(bare.shape[1])]
    assert bare.iloc[0].tolist() == first.split(";" if ";" in text else ",")
    assert len(bare) == len(text.splitlines())


@pytest.mark.parametrize("text", _HEADER.values(), ids=_HEADER)
def test_a_first_line_of_numbers_or_words_that_are_names_is_read_as_such(write, text):
    table = read_table(write("t.csv", text))
    assert [name if not name.startswith("column-") else "" for name in table.columns] == text.splitlines()[0].split(",")


def test_a_line_of_names_that_the_file_lacks_is_given_by_the_user_or_the_schema_for_all(write):
    """Which row comes first must not decide how many columns there are: the schema holds that line."""
    path = write("t.csv", "86;3,7;ill\n63;5,6;well\n")
    for line in ("age;crp;outcome", "age,crp,outcome"):
        assert read_table(path, header=line).to_dict("list")["crp"] == ["3,7", "5,6"]
        assert look_at_file(path, label="outcome", rules=Rules(header=line))[1].header == "age;crp;outcome"
    excel = write("e.csv", "sep=;\n86;3,7;ill\n63;5,6;well\n")
    assert look_at_file(excel, label="column-3", rules=Rules(header="none"))[1].header == "column-1;column-2;column-3"
    _, schema = look_at_file(path, label="column-3", rules=Rules(header="none"))
    assert schema.header == "column-1;column-2;column-3"
    assert Schema.from_toml(schema.to_toml()) == schema
    public = make_public_set(read_table(path, schema), schema)
    party = write("p.csv", "86;3,7;ill;;\n63;5,6;well\n70;2,5;ill\n")
    held = load_usable_rows(party, public)
    assert held.y.tolist() == [-1, 1, 0]
    with pytest.raises(
        DataError, match=r"what looks like a row: 1, ill\. Put a line with a name for each column first\.$"
    ):
        read_table(write("n.csv", "1,ill\n2,well\n1,ill\n"), dataclasses.replace(schema, header=""))
    with pytest.raises(DataError, match="3 values in every row, as its header, got 5 values in line 1"):
        read_table(party, schema)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("Ward report,,,\n,,,\nage,crp,ward,outcome\n20,0,n,well\n", "'Ward report'; .* line 3 with 'age, crp"),
        (";Report;;Mai\nAlter;CRP;Station;Ende\n20;1;n;ja\n", "'Report, Mai'; .* line 2 with 'Alter, CRP"),
        ("sep=;\nReport;\nage;outcome\n20;ill\n", "'Report'; .* line 3 with 'age, outcome"),
        ("a,,,\n1,2,3,4\n", "'a'; .* line 2 with '1, 2, 3, 4'.* If line 1 names the columns: header=yes"),
    ],
)
def test_a_title_that_has_the_separators_of_the_table_is_refused_with_the_line_where_it_begins(write, text, seen):
    """A schema of unnamed columns was written, and the names became cells."""
    with pytest.raises(DataError, match=f"must hold the columns' names in its first line, got {seen}"):
        read_table(write("t.csv", text))
    assert "column-" in "".join(read_table(write("t.csv", text), header="yes").columns)


def test_rows_that_all_end_in_one_more_separator_are_read_with_a_note(write):
    notes = []
    table = read_table(write("t.csv", "age,outcome\n20,well,\n21,ill, \n"), notes=notes)
    assert table.to_dict("list") == {"age": ["20", "21"], "outcome": ["well", "ill"]}
    assert notes == ["every row ends in one more separator, with nothing behind it: left out"]
    for text in ("age,outcome\n20,well,\n21,ill\n", "age,outcome\n20,well,\n21,ill,x\n"):
        with pytest.raises(DataError, match="2 values in every row, as its header, got 3 values in line 2"):
            read_table(write("t.csv", text))
    with pytest.raises(DataError, match="R writes its rows' names so"):
        read_table(write("t.csv", "age,outcome\n1,20,well\n2,21,ill\n"))


@pytest.mark.parametrize("name", ["t.txt", "t.data", "t.dat", "t.data.gz"])
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("age,crp,outcome\n20,1,ill\n21,3,well\n", ["age", "crp", "outcome"]),
        ("age\tcrp\n20\t1\n21\t3\n", ["age", "crp"]),
        ("time,level\n12:30,1\n13:40,2\n", ["time", "level"]),
        ("# made by hand\n1 1:0.5\n-1 2:3 # last\n", ["f1", "f2", "label"]),
        ("1\n-1 1:3\n", ["f1", "label"]),
    ],
)
def test_what_a_text_holds_says_of_which_kind_it_is(write, name, text, columns):
    assert [*read_table(write(name, text)).columns] == columns


def test_the_schema_says_of_which_kind_a_text_is_and_no_row_of_it(write):
    schema = Schema(columns=(Column(name="f2", kind="numeric"),), classes=("0", "1"))
    assert read_table(write("t.txt", "1 2:5\n0 1:3\n"), schema)["f2"].tolist() == [5, 0]
    found = read_table(write("t.txt", "age,outcome\n0 1:3 2:5\n0 1:3\n"), schema, lenient=True)
    assert found["f2"].tolist() == [0, 5, 0]
    other = Schema(columns=(Column(name="age", kind="numeric"),), classes=("0", "1"))
    assert read_table(write("t.data", "age,label\n3,1\n"), other)["age"].tolist() == ["3"]


@pytest.mark.parametrize("encoding", ["windows-1251", "koi8-r", "cp866", "windows-1253"])
def test_names_in_another_encoding_are_recognised_by_the_label_and_read_as_the_user_says(encoding, tmp_path):
    path = tmp_path / "t.csv"
    label, other = ("έκβαση", "ηλικία") if encoding == "windows-1253" else ("исход", "возраст")
    path.write_bytes(f"{other};{label}\n31;{other[:4]}\n85;{label[:3]}\n71;{other[:4]}\n".encode(encoding))
    for look_at in (look_at_file, lambda path, label: load_pool("table", seed=1, table=str(path), label=label)):
        with pytest.raises(DataError, match=rf"In {encoding} it has that column .*: give encoding={encoding} \("):
            look_at(path, label=label)
    found, schema = look_at_file(path, label=label, rules=Rules(encoding=encoding))
    assert found.notes[0].note == f"4 lines from line 1 on are no UTF-8: read as {encoding}"
    assert [column.name for column in schema.columns] == [other]
    again = Schema.from_toml(schema.to_toml())
    assert again == schema
    assert [*read_table(path, again).columns] == [other, label]


def test_an_encoding_whose_lines_end_otherwise_or_that_nobody_knows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe;b\n1;2\n".encode("utf-16-le"))
    assert [*read_table(path, encoding="utf-16-le").columns] == ["größe", "b"]
    with pytest.raises(DataError, match=r"encoding must be one that Python knows, got 'Kyrillisch'\. Name one"):
        read_table(path, encoding="Kyrillisch")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.data.gz"])
def test_truncated_gzip_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-12])
    with pytest.raises(DataError, match="must unpack"):
        read_table(tmp_path / name)


def test_npz_with_python_objects_is_never_unpickled(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.array([[{}]], dtype=object))
    with pytest.raises(DataError, match=r"NPZ file of plain arrays.* Save texts as such: y\.astype\(str\)"):
        read_table(tmp_path / "t.npz")


def test_a_single_array_called_npz_is_refused(tmp_path):
    with (tmp_path / "t.npz").open("wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(DataError, match="NPZ file of plain arrays"):
        read_table(tmp_path / "t.npz")


def test_npz_without_x_or_with_other_lengths_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.eye(2))
    with pytest.raises(DataError, match="must hold an array X, got the arrays images"):
        read_table(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=np.eye(2), y=np.zeros(3))
    with pytest.raises(DataError, match=r"must have shapes \(n, ...\) and \(n,\)"):
        read_table(tmp_path / "b.npz")


def test_libsvm_with_more_features_than_the_schema_is_refused(write):
    schema = Schema(columns=tuple(Column(name=f"f{i}", kind="numeric") for i in (1, 2)), classes=("-1", "1"))
    with pytest.raises(DataError, match="of at most 2 features"):
        read_table(write("t.txt", "1 3:1\n"), schema)


def test_parquet_without_pyarrow_names_the_extra(write, monkeypatch):
    real_import = builtins.__import__

    def no_pyarrow(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pyarrow)
    with pytest.raises(MissingExtraError, match=r"fedkd-flwr\[parquet\]"):
        read_table(write("t.parquet", "PAR1"))


def test_party_file_is_encoded_by_the_public_schema_and_scale(people, schema, tmp_path):
    public = make_public_set(people, schema)
    private = pd.DataFrame({"income": [" >50K"], "job": ["smith"], "age": [40], "name": ["Ann"]})
    private.to_csv(tmp_path / "party.csv", index=False)
    X, y = load_party_table(tmp_path / "party.csv", schema, public.preprocessor)
    assert X.tolist() == [[0.0, 0.0, 1.0]]
    assert y.tolist() == [1]


def test_party_file_without_label_column_names_it_and_what_there_is(people, schema, tmp_path):
    people.drop(columns="income").to_csv(tmp_path / "party.csv", index=False)
    with pytest.raises(DataError, match=r"label column 'income', got columns age, job\. Rename"):
        load_party_table(tmp_path / "party.csv", schema, make_public_set(people, schema).preprocessor)


def test_party_libsvm_file_may_end_before_the_last_feature(write):
    public = read_table(write("u.libsvm", "1 1:1 2:5 3:1\n-1 1:2 2:6 3:3\n"))
    schema = infer_schema(public)
    X, y = load_party_table(write("p.libsvm", "-1 1:1.5\n"), schema, make_public_set(public, schema).preprocessor)
    assert schema.classes == ("-1", "1")
    np.testing.assert_allclose(X, [[0, -11, -2]])
    assert y.tolist() == [0]


def test_party_images_come_from_npz(tmp_path):
    schema = Schema(columns=(), classes=("0", "1"), shape=(1, 2, 2))
    images = np.array([[[0, 255], [51, 0]]], dtype=np.uint8)
    np.savez(tmp_path / "p.npz", X=images, y=[1])
    public = make_public_set(images.reshape(1, 4), schema)
    X, y = load_party_table(tmp_path / "p.npz", schema, public.preprocessor)
    np.testing.assert_allclose(X, [[0, 1, 0.2, 0]], rtol=1e-6)
    assert y.tolist() == [1]


def test_public_file_finds_its_schema_and_keeps_labels_only_as_truth(people, schema, tmp_path):
    schema.write(tmp_path / "schema.toml")
    people.to_csv(tmp_path / "u.csv", index=False)
    labelled = load_public(tmp_path / "u.csv")
    people.drop(columns="income").to_csv(tmp_path / "u.csv", index=False)
    bare = load_public(tmp_path / "u.csv")
    people.assign(income="").to_csv(tmp_path / "u.csv", index=False)
    assert load_public(tmp_path / "u.csv").y is None
    people.assign(income=["", people.income[1], None]).to_csv(tmp_path / "u.csv", index=False)
    some = load_public(tmp_path / "u.csv")
    assert some.y.tolist() == [ABSTAIN, 1, ABSTAIN]
    assert some.fingerprint == labelled.fingerprint
    people.assign(income=["", "duke", None]).to_csv(tmp_path / "u.csv", index=False)
    assert load_public(tmp_path / "u.csv").y is None
    assert labelled.y is not None
    assert labelled.y.tolist() == [0, 1, 1]
    assert bare.y is None
    assert labelled.X.tolist() == bare.X.tolist()
    assert labelled.fingerprint == bare.fingerprint


def test_public_file_without_schema_says_how_to_get_one(people, tmp_path):
    people.to_csv(tmp_path / "u.csv", index=False)
    with pytest.raises(DataError, match="fedkd server schema") as caught:
        load_public(tmp_path / "u.csv")
    assert caught.value.code is Code.MISSING_FILE


@pytest.mark.parametrize("lenient", [False, True])
def test_a_name_of_a_column_over_two_lines_is_refused_as_such_and_not_as_rows_with_too_few_values(tmp_path, lenient):
    path = tmp_path / "excel.csv"
    path.write_text('age;"CRP\n(mg/l)";label\n50;"1,5";no\n60;"2,5";yes\n')
    with pytest.raises(DataError, match=r"header of .* must hold the columns' names in one line, got .* before 'CRP'"):
        read_table(path, lenient=lenient)


# ---------------------------------------------------------------------------------------------- rows that can be used


def _public():
    schema = Schema(columns=(Column(name="a", kind="numeric"),), classes=("no", "yes"))
    return make_public_set(pd.DataFrame({"a": ["1", "2", "3"]}), schema)


def test_a_row_that_cannot_be_used_costs_no_other_row(tmp_path):
    public = _public()
    rows = [f"{i},{'yes' if i % 2 else 'no'}" for i in range(40)]
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("\n".join(["a,label", *rows]) + "\n")
    rows[7], rows[8], rows[30] = "7,perhaps", "many,no", "30,"
    bad.write_text("\n".join(["a,label", *rows]) + "\n")
    whole, found = load_usable_rows(good, public), load_usable_rows(bad, public)
    X, y = load_party_table(good, public.schema, public.preprocessor)
    assert whole.fault is None
    np.testing.assert_array_equal(whole.X, X)
    np.testing.assert_array_equal(whole.y, y)
    usable = found.y >= 0
    assert np.flatnonzero(~usable).tolist() == [7, 8, 30]
    np.testing.assert_array_equal(found.X[usable], X[usable])
    np.testing.assert_array_equal(found.y[usable], y[usable])
    assert "1 of 40 rows without one (first: row 31)" in str(found.fault)


@pytest.mark.parametrize("text", ["", "a,label\n", "a,label\n1,no,2\n", "b,c\n1,2\n", "\x00"])
def test_a_file_that_is_no_table_has_no_row_that_can_be_used(tmp_path, text):
    public = _public()
    path = tmp_path / "rows.csv"
    path.write_text(text)
    found = load_usable_rows(path, public)
    assert found.fault is not None
    assert not (found.y >= 0).any()
    assert found.X.shape == (found.num_rows, 1)


def test_that_a_file_is_there_and_what_its_name_says_is_no_matter_of_its_rows(tmp_path):
    public = _public()
    with pytest.raises(DataError, match="file must exist"):
        load_usable_rows(tmp_path / "rows.csv", public)
    (tmp_path / "rows.doc").write_text("a,label\n1,no\n")
    with pytest.raises(DataError, match="must end in"):
        load_usable_rows(tmp_path / "rows.doc", public)


def test_a_file_that_may_not_be_read_is_like_one_that_is_not_there(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n1,no\n")
    assert require_readable(path) == path.read_bytes()

    def locked(self):
        raise PermissionError("no")

    monkeypatch.setattr(type(path), "read_bytes", locked)
    with pytest.raises(DataError, match="be readable, got this: no") as caught:
        require_readable(path)
    assert caught.value.code == Code.MISSING_FILE


def test_a_libsvm_line_that_cannot_be_read_costs_a_party_no_other_row(tmp_path):
    schema = Schema(columns=(Column(name="f1", kind="numeric"), Column(name="f2", kind="numeric")), classes=("0", "1"))
    public = make_public_set(pd.DataFrame({"f1": range(5), "f2": range(5)}), schema)
    (tmp_path / "own.libsvm").write_bytes(b"1 1:2 2:3\n# said\n0 1:x\n\n1 1:5 # aside\n0 7:1\n")
    spoilt = load_usable_rows(tmp_path / "own.libsvm", public)
    assert spoilt.y.tolist() == [1, -1, 1, -1]


def test_a_file_of_nothing_but_bad_rows_takes_no_longer_than_another(tmp_path):
    """Read row by row it took minutes, in which no reply left."""
    schema = Schema(columns=(Column(name="a", kind="numeric"),), classes=("red", "green"))
    public = make_public_set(pd.DataFrame({"a": range(5)}), schema)
    (tmp_path / "own.csv").write_text("a,label\n" + "".join(f'"{i},5",red\n' for i in range(20_000)))
    began = time.process_time()
    assert (load_usable_rows(tmp_path / "own.csv", public).y == -1).all()
    assert time.process_time() - began < 5


def _mutants(data, rng, count):
    """Yield damaged copies: cut, with bytes changed, put in and taken out, and with numbers made huge."""
    for _ in range(count):
        spoilt = bytearray(data)
        for _ in range(int(rng.integers(1, 6))):
            at = int(rng.integers(len(spoilt) or 1))
            kind = int(rng.integers(5))
            if kind == 0 and spoilt:
                spoilt[at] = int(rng.integers(256))
            elif kind == 1:
                spoilt = spoilt[:at]
            elif kind == 2:
                spoilt[at:at] = rng.bytes(5)
            elif kind == 3:
                del spoilt[at : at + 7]
            else:
                spoilt[at : at + 4] = b"\xff\xff\xff\x7f"
        yield bytes(spoilt)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet", "t.npz", "t.libsvm", "schema.toml"])
def test_a_damaged_file_raises_an_error_of_ours_or_none(name, tmp_path):
    path, rng = tmp_path / name, np.random.default_rng(3)
    table = pd.DataFrame({"a": np.arange(30.0), "b": ["x", "y", "z"] * 10})
    if name == "schema.toml":
        infer_schema(table, classes=("0", "1")).write(path)
    elif name == "t.npz":
        np.savez_compressed(path, X=np.arange(60.0).reshape(30, 2), y=np.arange(30) % 2)
    elif name == "t.libsvm":
        path.write_text("".join(f"{i % 2} 1:{i} 2:{i}\n" for i in range(30)))
    else:
        table.to_parquet(path) if name == "t.parquet" else table.to_csv(path, index=False)
    refused = 0
    for data in [b"", b"PK\x03\x04", b"PAR1" * 3, b"\x1f\x8b", *_mutants(path.read_bytes(), rng, 60)]:
        path.write_bytes(data)
        try:
            Schema.read(path) if name == "schema.toml" else read_table(path)
        except DataError:
            refused += 1
    assert refused > 10


def test_an_array_whose_header_names_a_hostile_shape_is_refused(tmp_path):
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        array,
        {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)},  # 8 petabytes
    )
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("X.npy", array.getvalue())
    with pytest.raises(DataError, match="be an NPZ file of plain arrays"):
        read_table(tmp_path / "t.npz")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_name_with_accents_is_the_schemas_whoever_wrote_the_file(tmp_path, suffix):
    """On macOS an accented letter may be two characters."""
    table = pd.DataFrame({"Gro\u0308\u00dfe": ["1.5", "2.5"], "stra\u00dfe": ["Mu\u0308hlweg", "M\u00fchlweg"]})
    path = tmp_path / f"rows.{suffix}"
    if suffix == "csv":
        table.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    size, street = "Gr\u00f6\u00dfe", "stra\u00dfe"
    assert read_table(path).columns.tolist() == [size, street]
    toml = 'version = 1\nclasses = ["a", "b"]\n[[columns]]\nname = "Gro\u0308\u00dfe"\nkind = "numeric"\n'
    toml += f'[[columns]]\nname = "{street}"\nkind = "categorical"\ncategories = ["Mu\u0308hlweg"]\n'
    schema = Schema.from_toml(toml)
    X = make_public_set(read_table(path), schema).X
    assert X[:, 1].tolist() == [1.0, 1.0]
    assert infer_schema(read_table(path), classes=["a", "b"]).column_names == (size, street)


def test_a_blank_line_is_an_empty_cell_where_there_is_one_column_so_that_answers_stay_with_their_rows(tmp_path):
    (tmp_path / "one.csv").write_text("age\n\n1\n\n\n3\n\n")
    assert read_table(tmp_path / "one.csv")["age"].tolist() == ["", "1", "", "", "3"]
    (tmp_path / "two.csv").write_text("age,sex\n\n1,f\n\n3,m\n\n")
    assert read_table(tmp_path / "two.csv")["age"].tolist() == ["1", "3"]


# ----------------------------------------------------------------------------------- one file for each party


def test_files_of_parties_are_called_as_the_files_are_and_a_folder_gives_those_that_are_tables(write, tmp_path):
    north, south = write("north.csv.gz", "a,y\n1,x\n"), write("south.tsv", "a\ty\n1\tx\n")
    write("README.md", "no table")
    assert party_files(f"{north}, {south}") == {"north": north, "south": south}
    assert party_files(str(tmp_path)) == {"north": north, "south": south}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("a.csv", "tables must be two files or more, one for each party, got 'a.csv'. Name them with commas"),
        ("x/a.csv,y/a.tsv", "the files of tables must have distinct names, got a more than once"),
    ],
)
def test_files_that_make_no_parties_are_refused(tables, message):
    with pytest.raises(DataError, match=message):
        party_files(tables)


def test_files_of_parties_become_one_table_that_says_who_lacks_which_column(write):
    files = {"b": write("b.csv", "age,y\n7,no\n"), "a": write("a.csv", "y,age,crp\nyes,8,2\nno,9,?\n")}
    notes: list[str] = []
    table, owners = read_tables(files, notes=notes, label="y")
    assert owners.tolist() == ["b", "a", "a"]
    assert table[["age", "y"]].to_dict("list") == {"age": ["7", "8", "9"], "y": ["no", "yes", "no"]}
    assert table["crp"].isna().tolist() == [True, False, False]
    assert notes == ["b.csv has no column crp"]
    with pytest.raises(DataError, match=r"label must be a column of .*b\.csv, got 'crp'\. Its columns are age, y"):
        read_tables(files, notes=[], label="crp")


# ----------------------------------------------------------------------------------- Excel


def _workbook(path, *sheets):
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"s{number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_the_first_sheet_of_an_excel_file_is_read_as_its_csv_would_be(tmp_path, write):
    day, moment = datetime.date(2021, 3, 12), datetime.datetime(2021, 3, 12, 8, 30)
    rows = [
        ["id", None, "age", "day", "at", "ill", None],
        ["007", None, 7, day, moment, True, None],
        [None] * 7,
        ["8", None, 7.5, None, moment, False, None],
        [9, 1, 1e6, day, None, None, None],
    ]
    notes: list[str] = []
    table = read_table(_workbook(tmp_path / "t.xlsx", rows, [["other"]]), notes=notes)
    assert notes == ["the first of 2 sheets is read, 's0'"]
    text = "id,column-2,age,day,at,ill\n007,,7,2021-03-12,2021-03-12 08:30:00,true\n"
    text += "8,,7.5,,2021-03-12 08:30:00,false\n9,1,1000000,2021-03-12,,\n"
    as_csv = read_table(write("t.csv", text))
    assert list(table.columns) == list(as_csv.columns)
    for name in table.columns:
        assert column_texts(table[name]).tolist() == column_texts(as_csv[name]).tolist()


def test_what_is_no_excel_file_or_an_empty_one_is_refused(tmp_path, write):
    with pytest.raises(DataError, match=r"t.xlsx must be a table in the format excel, got .*BadZipFile"):
        read_table(write("t.xlsx", "age,job\n7,cook\n"))
    with pytest.raises(DataError, match="must hold a header line and rows, got an empty sheet") as caught:
        read_table(_workbook(tmp_path / "none.xlsx", []))
    assert caught.value.code is Code.NO_ROWS


def test_without_openpyxl_the_extra_is_named(tmp_path, monkeypatch):
    path = _workbook(tmp_path / "t.xlsx", [["a"], [1]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"reading t.xlsx must have openpyxl, got .*fedkd-flwr\[excel\]"):
        read_table(path)
