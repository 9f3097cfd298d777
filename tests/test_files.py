"""Files that must survive: whole or not at all, and for their owner alone."""

import json
import os
import stat
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr import files
from fedkd_flwr.files import as_shown, packed, read_sealed, unpacked, write_atomic, write_sealed


def test_what_is_written_is_read_and_the_folder_is_made(tmp_path):
    path = write_atomic(tmp_path / "new" / "folder" / "x.json", b"{}")
    assert path.read_bytes() == b"{}"


def test_a_changed_byte_anywhere_in_a_sealed_file_is_noticed_or_changes_no_value(tmp_path):
    path = write_sealed(tmp_path / "x", {"asked": {"a": 12, "é": 0.5}, "list": [1, True, None]})
    data, values, noticed = path.read_bytes(), read_sealed(path), 0
    for place in range(len(data)):
        for value in {data[place] ^ 1, data[place] ^ 32, ord("7"), ord(" ")} - {data[place]}:
            path.write_bytes(data[:place] + bytes([value]) + data[place + 1 :])
            try:
                assert read_sealed(path) == values
            except ValueError:
                noticed += 1
    assert noticed > 3 * len(data)


@pytest.mark.parametrize(
    ("cell", "formula"), [("=1+1", True), ("+x", True), ("-1.5", False), ("a=1", False), (-2, False)]
)
def test_a_spreadsheet_computes_no_cell(cell, formula):
    assert as_shown(cell) == (f"'{cell}" if formula else cell)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b'{"seal": 3}', b"[" * 100_000, b"\xff"])
def test_what_is_no_sealed_file_is_a_value_error(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ValueError, match=r"this: |other content"):
        read_sealed(tmp_path / "x")


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("crash", [OSError, KeyboardInterrupt])
def test_a_crash_before_the_rename_leaves_the_old_file_whole_and_no_other(tmp_path, monkeypatch, step, crash):
    path = write_atomic(tmp_path / "x", b"old")

    def fail(*args):
        raise crash("power cut")

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(crash, match="power cut"):
        write_atomic(path, b"new and longer")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_the_bytes_are_on_the_disk_before_the_name_points_to_them_and_then_the_name_is(tmp_path, monkeypatch):
    calls = []
    for step in ("fsync", "replace"):
        real = getattr(os, step)
        monkeypatch.setattr(files.os, step, lambda *a, step=step, real=real: (calls.append(step), real(*a)))
    write_atomic(tmp_path / "x", b"new")
    assert calls == ["fsync", "replace", *(["fsync"] if os.name != "nt" else [])]


def test_a_simulation_s_files_do_not_wait_for_the_disk(tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(files.os, "fsync", waits.append)
    with files.disk_not_awaited():
        assert write_atomic(tmp_path / "new" / "x", b"new").read_bytes() == b"new"
    assert waits == []
    write_atomic(tmp_path / "x", b"new")
    assert waits


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_file_is_for_its_owner_alone_also_where_an_open_one_stood(tmp_path):
    (tmp_path / "x").write_bytes(b"open")
    (tmp_path / "x").chmod(0o644)
    old = os.umask(0)
    try:
        write_atomic(tmp_path / "x", b"private")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600


def test_a_desktop_s_folder_of_states_holds_what_a_service_without_its_variable_finds(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = write_atomic(Path("~/.fedkd/ledgers/key").expanduser(), b"spent")
    assert (tmp_path / "state" / "fedkd" / "ledgers" / "key").read_bytes() == b"spent"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert path.read_bytes() == b"spent"
    write_atomic(path, b"more")
    assert (tmp_path / "state" / "fedkd" / "ledgers" / "key").read_bytes() == b"more"


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"elsewhere")
    (tmp_path / "x").symlink_to(target)
    write_atomic(tmp_path / "x", b"new")
    assert target.read_bytes() == b"elsewhere"


def test_a_file_that_cannot_be_written_is_named_and_not_the_one_beside_it(tmp_path, monkeypatch):
    def refuse(**words):
        raise PermissionError(13, "Permission denied", f"{words['dir']}/{words['prefix']}abc.part")

    monkeypatch.setattr(files.tempfile, "mkstemp", refuse)
    with pytest.raises(PermissionError) as caught:
        write_atomic(tmp_path / "x", b"new")
    assert caught.value.filename == str(tmp_path / "x")


# ------------------------------------------------------------------------------------------------ archives

ARRAYS = {"z": np.array([[0, 2, -1]], dtype=np.int16), "": np.zeros(0, dtype=np.uint8), "a/../b": np.eye(2)}
ODD = [np.asfortranarray(np.arange(6).reshape(2, 3)), np.float32([np.nan, -0.0, np.inf]), np.arange(10)[::3]]
ODD += [np.zeros((0, 4)), np.array(7, dtype=">i4")]
VALUES = {"server_round": 3, "party": "a\ud800", "meta": {"alone": {"own": 0.5}}}


def test_what_is_packed_comes_back_in_its_order_and_gives_the_same_bytes_again():
    arrays, values = unpacked(packed(ARRAYS, VALUES))
    assert (list(arrays), values) == (list(ARRAYS), VALUES)
    assert all(arrays[name].dtype == array.dtype and (arrays[name] == array).all() for name, array in ARRAYS.items())
    assert packed(arrays, values) == packed(ARRAYS, VALUES)
    odd, _ = unpacked(packed(dict(enumerate(ODD)), {}))
    assert [(one.dtype, one.shape, one.tobytes()) for one in odd.values()] == [
        (one.dtype, one.shape, one.tobytes()) for one in ODD
    ]


def test_a_flipped_bit_anywhere_is_noticed_or_harmless():
    data, noticed = packed(ARRAYS, VALUES), 0
    for at in range(len(data)):
        try:
            arrays, values = unpacked(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        except ValueError:
            noticed += 1
        else:
            assert (list(arrays), values) == (list(ARRAYS), VALUES)
            assert all((arrays[name] == array).all() for name, array in ARRAYS.items())
    assert noticed > len(data) // 3


class _Trap:
    """Unpickling this would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_python_objects_are_neither_written_nor_run(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        packed({"labels": np.array([{}])}, {})
    trap = np.array([_Trap(tmp_path / "bait")], dtype=object)
    meta = np.frombuffer(json.dumps({"arrays": ["labels"], "values": {}}).encode(), dtype=np.uint8)
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=True, **{"meta": meta, "array.0": trap})
    with pytest.raises(ValueError, match="allow_pickle"):
        unpacked(buffer.getvalue())
    assert not (tmp_path / "bait").exists()
