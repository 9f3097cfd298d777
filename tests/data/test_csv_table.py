"""The text of a CSV file: its encoding, separator and header, and which of its lines are refused."""

import dataclasses

import pytest

from fedkd_flwr.data.look import Rules, look_at_file
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import load_usable_rows, read_table
from fedkd_flwr.errors import DataError


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("t.csv", "age,job\n7,cook\n8,smith\n", {"age": ["7", "8"], "job": ["cook", "smith"]}),
        ("t.csv", "\ufeffage;job\r\n7;cook\r\n8;smith\r\n", {"age": ["7", "8"], "job": ["cook", "smith"]}),
        ("t.tsv", "age\tjob\n7\tcook\n8\tsmith", {"age": ["7", "8"], "job": ["cook", "smith"]}),
        ("t.csv", "age|job\n7|cook\n8|smith\n", {"age": ["7", "8"], "job": ["cook", "smith"]}),
        ("t.csv.gz", 'age, "job"\n7, "cook"\n8, smith\n', {"age": ["7", "8"], "job": ["cook", "smith"]}),
        ("t.csv", "zip,note\n007,NA\n010,\n", {"zip": ["007", "010"], "note": ["NA", ""]}),
    ],
)
def test_separator_byte_order_mark_and_gzip_are_found_and_cells_stay_as_written(write, name, text, columns):
    assert read_table(write(name, text)).to_dict("list") == columns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold a header line and rows, got an empty file"),
        ("a,b\n", "must hold at least one row"),
        ("a,b,a\n1,2,3\n", "must have distinct names, got a more than once"),
        ("Ward report,,,\nage,crp,ward,outcome\n20,0,n,well\n", r"line 1 .* got only Ward report above 4 columns\."),
        ('age;"CRP\n(mg/l)";label\n50;"1,5";no\n', r"must hold the columns' names in one line, got .* before 'CRP'"),
        (b"a,b\n1,2\n1,\x81\n", r"must be text in UTF-8 or Windows-1252, got byte 0x81 in line 3\. Save it"),
    ],
)
def test_what_is_no_table_is_refused_with_the_line(tmp_path, text, message):
    (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.csv")


def test_a_name_over_two_lines_is_refused_also_where_rows_may_be_spoilt(write):
    """To let a name go on, as a row does, would let rows decide what the columns are."""
    with pytest.raises(DataError, match="names in one line"):
        read_table(write("t.csv", 'age;"CRP\n(mg/l)";label\n50;"1,5";no\n'), lenient=True)


def test_each_line_is_decoded_by_itself_and_an_encoding_that_nobody_knows_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("a\nMünster\n".encode() + "Köln\n".encode("cp1252"))
    assert read_table(path)["a"].tolist() == ["Münster", "Köln"]
    with pytest.raises(DataError, match=r"encoding must be one that Python knows, got 'Kyrillisch'\. Name one"):
        read_table(path, encoding="Kyrillisch")


@pytest.mark.parametrize(("encoding", "said"), [("cp1252", "Windows-1252"), ("utf-16", "UTF-16"), ("utf-8-sig", "")])
def test_an_encoding_is_recognised_and_said(encoding, said, tmp_path):
    (tmp_path / "t.csv").write_bytes("größe;Straße\n1;Aßlar\n2;Ulm\n".encode(encoding))
    notes = []
    table = read_table(tmp_path / "t.csv", notes=notes)
    assert table.to_dict("list") == {"größe": ["1", "2"], "Straße": ["Aßlar", "Ulm"]}
    assert said in "".join(notes)
    assert len(notes) == bool(said)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a;b;c\n1;2;3\n1;2\n", "2 values in line 3. Complete"),
        ("a;b\n\n1;2\n1;2;3\n4\n", "3 values in line 4, 1 value in line 5. Complete"),
        ('a;b\n"x;y";2\n"x;y;z"\n', "1 value in line 3"),
        ('a;b\n"x\ny";2\n"x\ny"\n', "1 value in line 5"),
        ("a,b\n1,5,2\n", "3 values in line 2. Put numbers with a decimal comma"),
        ("sep=;\na;b\n1\n", "1 value in line 3"),
        ("age,outcome\n1,20,well\n2,21,ill\n", "3 values in line 2"),
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


NO_HEADER = {
    "decimals, integers, words": "86,33.7,south,ill\n63,25.6,west,well\n67,33.5,south,ill\n82,26.2,west,well\n",
    "words": "x,s,n,p\nb,s,w,e\nx,y,n,e\nb,y,w,p\n",
    "decimal commas": "5,1;3,5;ja\n4,9;3,0;nein\n6,0;2,0;ja\n",
    "a cell without a value": "?,12,ill\n4,80,well\n5,7,ill\n",
}
HEADER = {
    "years": "region,2019,2020,2021\nnorth,5,6,7\nsouth,1,2,3\n",
    "numbered columns": "0,1,2,3,4\n0.5,-1,3,9,2\n-2,4,1,-5,7\n",
    "words above words": "ward,outcome\nnorth,ill\nsouth,well\nnorth,ill\nsouth,ill\n",
    "a name that is also a category": "male,age\nmale,33\nfemale,34\n",
    "no name for the row numbers": ",age,ward\n0,5,n\n1,6,s\n",
}


@pytest.mark.parametrize("text", NO_HEADER.values(), ids=NO_HEADER)
def test_a_file_whose_first_line_is_a_row_is_refused_in_one_way_and_read_as_the_user_says(write, text):
    path = write("t.csv", text)
    refused = r"line 1 of .* must hold the columns' names, got what looks like a row: .*none"
    with pytest.raises(DataError, match=refused):
        read_table(path)
    bare, first = read_table(path, header="none"), text.splitlines()[0]
    assert [*bare.columns] == [f"column-{i + 1}" for i in range(bare.shape[1])]
    assert bare.iloc[0].tolist() == first.split(";" if ";" in text else ",")
    assert len(bare) == len(text.splitlines())


@pytest.mark.parametrize("text", HEADER.values(), ids=HEADER)
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
    bare = dataclasses.replace(schema, header="")
    with pytest.raises(DataError, match=r"like a row: 1, ill\. Take out what stands above a line with a name"):
        read_table(write("n.csv", "1,ill\n2,well\n1,ill\n"), bare)
    with pytest.raises(DataError, match="3 values in every row, as its header, got 5 values in line 1"):
        read_table(party, schema)


def test_a_blank_line_is_an_empty_cell_where_there_is_one_column_so_that_answers_stay_with_their_rows(tmp_path):
    (tmp_path / "one.csv").write_text("age\n\n1\n\n\n3\n\n")
    assert read_table(tmp_path / "one.csv")["age"].tolist() == ["", "1", "", "", "3"]
    (tmp_path / "two.csv").write_text("age,sex\n\n1,f\n\n3,m\n\n")
    assert read_table(tmp_path / "two.csv")["age"].tolist() == ["1", "3"]
