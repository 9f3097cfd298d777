"""NPZ, Parquet and Excel: what is read, and that damaged and hostile files are errors of this package."""

import datetime
import gzip
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.columns import column_texts
from fedkd_flwr.data.formats import require_readable
from fedkd_flwr.data.look import infer_schema
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import Code, DataError, MissingExtraError

CUT = gzip.compress(b"a,b\n" + b"1,2\n" * 1000, mtime=0)[:-12]


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


@pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet", "t.npz", "schema.toml"])
def test_a_damaged_file_raises_an_error_of_ours_or_none(name, tmp_path):
    path, rng = tmp_path / name, np.random.default_rng(3)
    table = pd.DataFrame({"a": np.arange(30.0), "b": ["x", "y", "z"] * 10})
    if name == "schema.toml":
        infer_schema(table, classes=("0", "1")).write(path)
    elif name == "t.npz":
        np.savez_compressed(path, X=np.arange(60.0).reshape(30, 2), y=np.arange(30) % 2)
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
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)}  # 8 petabytes
    np.lib.format.write_array_header_1_0(array, header)
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("X.npy", array.getvalue())
    with pytest.raises(DataError, match="be an NPZ file of plain arrays"):
        read_table(tmp_path / "t.npz")


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


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.xls", b"PK", r"must end in \.csv, \.tsv"),
        ("t", b"1,2", r"must end in .* got no suffix"),
        ("t.parquet", b"PAR1", "must be a Parquet file"),
        ("t.npz", b"\xc2\x93NUMPY", "must be an NPZ file of plain arrays"),
        ("t.npz", b"PK\x03\x04", "must be an NPZ file of plain arrays"),
        ("t.xlsx", b"age,job\n", "t.xlsx must be a table in the format excel, got .*BadZipFile"),
        ("t.csv.gz", CUT, "must unpack"),
        ("t.data.gz", CUT, "must unpack"),
    ],
)
def test_a_damaged_or_unknown_file_is_refused_by_name(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.array([[{}]], dtype=object)}, r"NPZ file of plain arrays.* Save texts as such: y\.astype\(str\)"),
        ({"images": np.eye(2)}, "must hold an array X, got the arrays images"),
        ({"X": np.eye(2), "y": np.zeros(3)}, r"must have shapes \(n, ...\) and \(n,\)"),
        (None, "NPZ file of plain arrays"),
    ],
    ids=["Python objects", "without X", "other lengths", "a single array"],
)
def test_arrays_that_are_no_table_are_refused_and_objects_never_unpickled(tmp_path, arrays, message):
    with (tmp_path / "t.npz").open("wb") as file:
        np.save(file, np.eye(2)) if arrays is None else np.savez(file, **arrays)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.npz")


def test_a_file_that_holds_nothing_or_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="must hold a header line and rows, got an empty sheet") as caught:
        read_table(_workbook(tmp_path / "none.xlsx", []))
    assert caught.value.code is Code.NO_ROWS
    with pytest.raises(DataError, match=r"file must exist, got no file .*gone\.csv") as caught:
        read_table(tmp_path / "gone.csv")
    assert caught.value.code is Code.MISSING_FILE


@pytest.mark.parametrize(
    ("library", "extra", "name"), [("pyarrow", "parquet", "t.parquet"), ("openpyxl", "excel", "t.xlsx")]
)
def test_a_missing_library_names_its_extra(write, monkeypatch, library, extra, name):
    monkeypatch.setitem(sys.modules, library, None)
    message = rf"{library}.* must be installed for reading {name}, got .*fedkd-flwr\[{extra}\]"
    with pytest.raises(MissingExtraError, match=message):
        read_table(write(name, "PAR1"))
