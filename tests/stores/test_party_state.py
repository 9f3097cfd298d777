"""Files that must survive: whole or not at all, for their owner, under harmless names."""

from __future__ import annotations

import json
import os
import stat
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.stores import files
from fedkd_flwr.stores.files import file_name, write_atomic
from fedkd_flwr.stores.party_state import PartyState, Saved


def _state(root, party="a", run_id="1"):
    return PartyState(root, run_id=run_id, party=party)


def _saved(**changes):
    labels = np.array([[0, 2, -1]], dtype=np.int16)
    settings = {"server_round": 3, "arrays": {"labels": labels}, "model": b"\x00model", "meta": {"alone": {"own": 0.5}}}
    return Saved(**{**settings, **changes})


def _equal(one, other):
    assert (one.server_round, one.model, one.meta) == (other.server_round, other.model, other.meta)
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        assert array.dtype == other.arrays[name].dtype
        assert np.array_equal(array, other.arrays[name])


# ------------------------------------------------------------------------------------------------ write_atomic


def test_what_is_written_is_read_and_the_folder_is_made(tmp_path):
    path = write_atomic(tmp_path / "new" / "folder" / "x.json", b"{}")
    assert path.read_bytes() == b"{}"


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


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"elsewhere")
    (tmp_path / "x").symlink_to(target)
    write_atomic(tmp_path / "x", b"new")
    assert target.read_bytes() == b"elsewhere"


# --------------------------------------------------------------------------------------------------- file_name

HOSTILE = ["../../x", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "C:evil", "a\x00b", "x" * 5000, "é", "a\nb", "~"]


@pytest.mark.parametrize("party", HOSTILE)
def test_a_hostile_name_stays_inside_its_folder(tmp_path, party):
    state = _state(tmp_path, party=party, run_id=party)
    state.save(_saved())
    assert state.path.resolve().is_relative_to(tmp_path.resolve())
    assert len(state.path.relative_to(tmp_path).parts) == 4
    _equal(state.load(), _saved())
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert files == [state.path]


@given(st.lists(st.text(max_size=80), min_size=2, max_size=2, unique=True))
def test_two_parties_never_share_a_file(names):
    assert file_name(names[0]) != file_name(names[1])


@given(st.text(max_size=200))
def test_a_file_name_is_plain_short_ascii(party):
    name = file_name(party)
    assert name.isascii()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    assert 0 < len(name) < 100


# -------------------------------------------------------------------------------------------------- PartyState


def test_what_a_party_keeps_it_gets_back(tmp_path):
    _state(tmp_path).save(_saved())
    _equal(_state(tmp_path).load(), _saved())


def test_a_later_round_replaces_the_earlier_one_in_the_one_file(tmp_path):
    _state(tmp_path).save(_saved())
    _state(tmp_path).save(_saved(server_round=4, model=b"", arrays={}))
    _equal(_state(tmp_path).load(), _saved(server_round=4, model=b"", arrays={}))
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 1


def test_before_the_first_round_there_is_nothing(tmp_path):
    assert _state(tmp_path).load() is None


def test_another_run_starts_from_nothing(tmp_path):
    _state(tmp_path).save(_saved())
    assert _state(tmp_path, run_id="2").load() is None


def test_a_removed_state_is_gone_and_removing_twice_is_no_error(tmp_path):
    state = _state(tmp_path)
    state.save(_saved())
    state.remove()
    state.remove()
    assert state.load() is None


def test_a_home_folder_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert _state("~/state").path.is_relative_to(tmp_path)


def _lost(state):
    with pytest.raises(DataError, match=r"must be the whole state of a, got .*Remove the file") as caught:
        state.load()
    assert caught.value.code is Code.STATE_LOST


def test_the_state_of_another_party_is_refused(tmp_path):
    _state(tmp_path, "b").save(_saved())
    _state(tmp_path, "b").path.rename(_state(tmp_path).path)
    _lost(_state(tmp_path))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"not an archive",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data[20:],
        lambda data: b"PK\x03\x04" + b"\x00" * 100,
    ],
    ids=["empty", "text", "half", "one byte short", "no head", "zeros"],
)
def test_a_damaged_file_is_said_to_be_lost(tmp_path, damage):
    state = _state(tmp_path)
    state.save(_saved())
    state.path.write_bytes(damage(state.path.read_bytes()))
    _lost(state)


def test_a_flipped_bit_anywhere_is_noticed_or_harmless(tmp_path):
    state = _state(tmp_path)
    state.save(_saved())
    data = state.path.read_bytes()
    codes = []
    for at in range(len(data)):
        state.path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        try:
            _equal(state.load(), _saved())
        except DataError as error:
            codes.append(error.code)
    assert set(codes) == {Code.STATE_LOST}
    assert len(codes) > len(data) // 3


def _archive(**arrays):
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=True, **arrays)
    return buffer.getvalue()


def _meta(value):
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


GOOD_META = {"server_round": 1, "party": "a", "arrays": [], "meta": {}}
NO_MODEL = np.zeros(0, dtype=np.uint8)


def test_an_archive_by_hand_is_read_so_that_what_the_next_tests_spoil_is_the_reason(tmp_path):
    state = _state(tmp_path)
    write_atomic(state.path, _archive(meta=_meta(GOOD_META), model=NO_MODEL))
    _equal(state.load(), Saved(server_round=1))


@pytest.mark.parametrize(
    "arrays",
    [
        {"model": NO_MODEL},
        {"meta": _meta(GOOD_META)},
        {"meta": _meta([1]), "model": NO_MODEL},
        {"meta": _meta({"party": "a", "arrays": [], "meta": {}}), "model": NO_MODEL},
        {"meta": _meta({**GOOD_META, "arrays": ["labels"]}), "model": NO_MODEL},
        {"meta": _meta({**GOOD_META, "server_round": "x"}), "model": NO_MODEL},
        {"meta": np.frombuffer(b"{", dtype=np.uint8), "model": NO_MODEL},
        {"meta": np.frombuffer(b"\xff\xfe", dtype=np.uint8), "model": NO_MODEL},
    ],
    ids=["no meta", "no model", "meta is a list", "no round", "no labels", "round is a word", "half JSON", "no text"],
)
def test_an_archive_of_something_else_is_refused(tmp_path, arrays):
    state = _state(tmp_path)
    write_atomic(state.path, _archive(**arrays))
    _lost(state)


class _Trap:
    """Unpickling this would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_python_objects_in_a_state_file_are_refused_and_not_run(tmp_path):
    state, bait = _state(tmp_path), tmp_path / "bait"
    trap = np.array([_Trap(bait)], dtype=object)
    meta = _meta({**GOOD_META, "arrays": ["labels"]})
    write_atomic(state.path, _archive(**{"meta": meta, "model": NO_MODEL, "array.labels": trap}))
    _lost(state)
    assert not bait.exists()


def test_arrays_of_objects_are_not_written_either(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        _state(tmp_path).save(_saved(arrays={"labels": np.array([{}])}))


# ------------------------------------------------------------------------------------------------- checkpoints
