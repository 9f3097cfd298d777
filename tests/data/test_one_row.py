"""What one row of a private file holds decides nothing about any other: claims for one record stand on this.

A row here is whatever a hostile person could have put there: any line, any bytes, any value the format allows. It is
put in the place of an ordinary one; all other rows must stay usable, with the same features, label and row hash.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from schemas import column, schema_of

from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.row_values import usable_row_values
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_usable_rows, read_table

PLACE = 1


def _public(values=(1, 2, 3), classes=("red", "green"), **rules):
    schema = schema_of(Column(name="a", **{"kind": "numeric", **rules}), classes=classes)
    return make_public_set(pd.DataFrame({"a": values}), schema)


def _others(path, public):
    """Return what is known of all rows but one."""
    found = load_usable_rows(path, public)
    schema = public.schema
    table = read_table(path, schema, lenient=True)
    parts = found.X, found.y, *usable_row_values(table, schema, digest="ab")
    return [repr(np.delete(part, PLACE, axis=0).tolist()) for part in parts]  # NaN is like itself


def _check(path, public, write, ordinary, *hostile):
    write(ordinary)
    before = _others(path, public)
    assert "-1" not in before[1]
    for one in hostile:
        write(one)
        assert _others(path, public) == before, one


PLAIN = [b"%d,green" % i for i in range(6)]
QUOTED = [b'"%d","green"' % i for i in range(6)]
LABEL_QUOTED = [b'%d,"green"' % i for i in range(6)]
TWO_LINES = [b'"%d\n","green"' % i if i % 2 == 0 else b"%d,green" % i for i in range(6)]


HOSTILE = {
    "a quote in a cell hides by its number that another is open": b'x"y,"z',
    "an open quote, where others have cells of two lines": b'1,"red',
    "a carriage return alone": b"1,gr\reen",
    "a carriage return alone in quotes": b'1,"gr\reen"',
    "a zero byte": b"1,green\x00x",
    "what str.splitlines takes for line ends": "1,\x0b\x0c\x1c\x85\u2028".encode(),
    "bytes of no encoding": b"1,\xff\xfe\x81",
    "bytes of Windows-1252": b"1,r\xe9d",
    "too many values": b"1,2,more",
    "no number": b"x,red",
    "no class": b"1,blue",
    "an open quote in the first cell": b'"1,red',
    "a quote alone": b'"',
    "an empty text alone": b'""',
    "a value longer than the csv module reads": b'1,"%s"' % (b"long, " * 22_000),
}


@pytest.mark.parametrize(
    "rows", [PLAIN, QUOTED, LABEL_QUOTED, TWO_LINES], ids=["plain", "quoted", "label", "two lines"]
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_a_line_of_a_csv_file_moves_and_changes_no_other(tmp_path, rows, end):
    path = tmp_path / "own.csv"

    def write(row):
        path.write_bytes(end.join([b"a,label", *rows[:PLACE], row, *rows[PLACE + 1 :], b""]))

    _check(path, _public(), write, b"1,green", *HOSTILE.values())


@pytest.mark.parametrize(
    ("sign", "strange", "hostile"),
    [
        pytest.param(",", "-nan,green", "NA,green", id="minus nan, which float reads as no value"),
        pytest.param(",", "\u00a0", "1,red,more", id="a line of white space that is one cell"),
        pytest.param("\t", "\t", "1\tred\tmore", id="an empty row of a tab-separated file"),
    ],
)
def test_a_strange_row_is_read_alike_beside_a_good_and_a_bad_one(tmp_path, sign, strange, hostile):
    """One reader for files with a wrong line and another for those without read such rows each in its way."""
    found, path = [], tmp_path / "own.csv"
    for row in (f"1{sign}green", hostile):
        lines = [f"a{sign}label", f"0{sign}red", row, f"2{sign}red", strange, f"5{sign}red", ""]
        path.write_text("\n".join(lines), newline="")
        found.append(_others(path, _public())[:2])
    assert found[0] == found[1]


@pytest.mark.parametrize("order", ["le", "be"])
def test_half_a_character_of_utf_16_changes_no_other_row(tmp_path, order):
    path = tmp_path / "own.csv"

    def write(row):
        path.write_bytes(f"\ufeffa,label\r\n0,red\r\n{row}\r\n2,green\r\n".encode(f"utf-16-{order}", "surrogatepass"))

    _check(path, _public(), write, "1,green", "1,green\ud83d", "1,green\ude00")


def test_one_value_in_a_column_without_a_name_does_not_make_the_column(tmp_path):
    schema = Schema(columns=(column("a"), column("column-3")), classes=("red", "green"))
    public = make_public_set(pd.DataFrame({"a": [1, 2], "column-3": [1, 2]}), schema)
    path = tmp_path / "own.csv"
    _check(path, public, lambda row: path.write_text(f"a,label,\n0,red,\n{row}\n2,red,\n"), "1,red,5", "1,red,")


@pytest.mark.parametrize("code", [0xFFFFFFFF, 0x110000, 0xD800])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("where", ["X", "y"])
def test_a_number_that_is_no_character_costs_an_npz_file_no_other_row(tmp_path, code, order, where):
    schema = Schema(columns=(column("x0"),), classes=("red", "green"))
    public = make_public_set(pd.DataFrame({"x0": [1, 2]}), schema)
    path = tmp_path / "own.npz"
    arrays = {"X": np.array([["1"], ["2"], ["3"]], dtype=f"{order}U3"), "y": np.array(["red"] * 3, dtype=f"{order}U3")}

    def write(bad):
        own = {name: array.copy() for name, array in arrays.items()}
        if bad:
            own[where].reshape(3, 1).view(f"{order}u4")[PLACE, 0] = code
        np.savez(path, **own)

    _check(path, public, write, False, True)


def _arrow():
    """Return how a column is declared, its values with an ordinary second one, and the second one that is hostile."""
    no_text = pa.array([b"1", b"a\xff", b"3"]).view(pa.utf8())
    iso, compact = Reading(dates="iso"), Reading(dates="compact", missing=("99999999",))
    dates = {"reading": iso, "values": ["1970-01-01", "1970-01-05"]}
    sentinel = {"reading": compact, "values": ["19700101", "19700105"]}
    words = {"kind": "text", "values": ["some words"]}
    parts = pa.array([b"a", b"b", b"a\xff", b"c", b"d"]).view(pa.utf8())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3, 5]), parts)
    no_text_of_three = pa.array([b"some", b"a\xff", b"words"]).view(pa.utf8())
    texts, code = pa.array(["some", "more", "words"]), 10_000_000_000_000_001
    codes = {"kind": "categorical", "categories": (str(code), "2"), "values": ["2"]}
    zoned = [pa.array([1, second, 3]).cast(pa.timestamp("ms", "UTC")) for second in (2, 2**60)]
    return {
        "a bool that is missing": ({}, pa.array([True, True, False]), pa.array([True, None, False])),
        "a date beyond Python's in UTC": (dates, *zoned),
        "no date, where a number means none": (
            sentinel,
            *(pa.array([99999999, second, 20200102]) for second in (20200101, None)),
        ),
        "bytes that are no text, for a number": ({}, pa.array(["1", "2", "3"]), no_text),
        "a list with a missing value": (words, pa.array([[1, 10], [2], [3, 4]]), pa.array([[1, 10], [None], [3, 4]])),
        "a list with bytes that are no text": (words, pa.array([["a", "b"], ["c"], ["c", "d"]]), lists),
        # pandas reads whole numbers as floats where one is missing, and would round these
        "a long code that is missing": (codes, pa.array([code, 2, code]), pa.array([code, None, code])),
        # Arrow has dates beyond the year 9999, and keeps bytes that are no UTF-8: pandas then reads nothing at all
        "date32": (words, *(pa.array([1, day, 1], pa.date32()) for day in (1, 2**31 - 1))),
        "date64": (words, *(pa.array([86_400_000, day, 0], pa.date64()) for day in (86_400_000, 10**15))),
        "time64": (words, *(pa.array([2000, time, 2000], pa.time64("ns")) for time in (2000, 1))),
        "a list of dates": (words, *(pa.array([[1], [day], [1]], pa.list_(pa.date32())) for day in (1, 2**31 - 1))),
        "bytes that are no text": (words, texts, no_text_of_three),
        "no text in a dictionary": (words, texts.dictionary_encode(), no_text_of_three.dictionary_encode()),
    }


ARROW = _arrow()


@pytest.mark.parametrize("kind", ARROW)
def test_a_value_of_a_parquet_file_changes_no_other_row(tmp_path, kind):
    rules, ordinary, hostile = ARROW[kind]
    path, public = tmp_path / "own.parquet", _public(**rules)

    def write(column):
        table = pa.table({"a": column, "label": ["red"] * 3, "id": [7, 8, 9]})
        pandas_index = {"pandas": '{"index_columns": ["id"], "columns": []}'}
        parquet.write_table(table.replace_schema_metadata(pandas_index), path)
        assert [*read_table(path, lenient=True).columns] == ["a", "label"]

    _check(path, public, write, ordinary, hostile)


def test_a_label_that_is_no_text_raises_nothing_and_changes_no_other_row(tmp_path):
    """What raises here is a code on the wire, where there should be an answer."""
    path = tmp_path / "own.parquet"

    def write(label):
        labels = pa.array([b"red", label, b"green"]).view(pa.utf8())
        parquet.write_table(pa.table({"a": [1, 2, 3], "label": labels}), path)

    _check(path, _public(), write, b"red", b"a\xff")
