"""Harmless file names, and locks between the processes of one party."""

import errno
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.stores import files
from fedkd_flwr.stores.files import file_name, locked, node_secret


def test_a_lock_is_held_by_one_and_freed_afterwards(tmp_path):
    with (
        locked(tmp_path / "lock", timeout_s=1.0),
        pytest.raises(DataError, match=r"lock .* must be free within 0\.05 s, got held by another"),
        locked(tmp_path / "lock", timeout_s=0.05),
    ):
        pass
    with locked(tmp_path / "lock", timeout_s=0.0):
        assert True


def test_a_system_without_locks_says_so_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(files, "fcntl", None)
    files._warn_unlocked.cache_clear()
    lock = tmp_path / "lock"
    with caplog.at_level(logging.WARNING), locked(lock, timeout_s=1.0), locked(lock, timeout_s=1.0):
        pass
    assert caplog.messages == ["This system locks no files: run one process per party, or a charge may be lost."]


def test_a_file_system_without_locks_is_refused_by_name(tmp_path, monkeypatch):
    def none(handle, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", none)
    with (
        pytest.raises(DataError, match=r"the file system of .* must lock files, got No locks available\. Set"),
        locked(tmp_path / "lock", timeout_s=0.0),
    ):
        pass


@given(st.lists(st.text(max_size=80), min_size=2, max_size=2, unique=True))
def test_two_parties_never_share_a_file(names):
    assert file_name(names[0]) != file_name(names[1])


@given(st.text(max_size=200))
def test_a_file_name_is_plain_short_ascii(party):
    name = file_name(party)
    assert name.isascii()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    assert 0 < len(name) < 100


def test_a_node_s_secret_is_drawn_once_and_its_owner_s_alone(tmp_path):
    one = node_secret(tmp_path / "a")
    assert one == node_secret(tmp_path / "a") != node_secret(tmp_path / "b")
    assert len(one) == 32
    path = tmp_path / "a" / "node.secret"
    assert (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    path.write_bytes(path.read_bytes().replace(one.hex()[:8].encode(), b"00000000"))
    with pytest.raises(DataError, match=r"node secret .* must be whole, got other content.*or remove it") as caught:
        node_secret(tmp_path / "a")
    assert caught.value.code is Code.STATE_LOST
