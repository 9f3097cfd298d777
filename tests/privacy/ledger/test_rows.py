"""Which rows were in which data set: hashes that nobody without the key can make, in a table of 12 bytes a row."""

import struct
from hashlib import blake2b

import numpy as np
import pytest

from fedkd_flwr.privacy.ledger.rows import RowTable, array_rows, hash_rows

KEY = bytes(range(16))


def _text(text):
    return blake2b(b"" if text is None else b"=" + text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ([np.array([[1.5, -0.0]]), np.array([[-7]])], struct.pack("<ffq", 1.5, 0.0, -7)),
        ([np.array([[-7]], dtype=np.int16)], struct.pack("<q", -7)),
        ([np.array([[200, 1]], dtype=np.uint8)], bytes([200, 1])),
        ([np.array([["a", None, "", "\ud800"]], dtype=object)], b"".join(map(_text, ("a", None, "", "\ud800")))),
        ([np.arange(256, dtype=np.uint8)[None]], bytes(range(256))),
        ([np.array([[1e300]])], struct.pack("<f", np.inf)),
    ],
    ids=["numbers", "whole numbers", "pixels", "texts", "wide", "too large"],
)
def test_the_hash_of_a_row_is_that_of_these_bytes_in_every_release(row, told):
    """Ledgers hold the hashes: by other ones their rows would not be known again, and what they spent be forgotten."""
    expected = blake2b(told, key=KEY, digest_size=8).digest()
    assert hash_rows(row, KEY).tolist() == [int.from_bytes(expected, "little")]


def _hashes(X, key=KEY):
    return hash_rows(array_rows(X, np.zeros(len(X))).blocks(), key)


def test_equal_values_have_one_hash_whatever_their_bits():
    one = np.array([[0.0, 1.5], [np.nan, 0.1]])
    other = np.array([[-0.0, 1.5], [-np.nan, 0.1 + 1e-12]])
    assert _hashes(one).tolist() == _hashes(other).tolist() == _hashes(one.astype(np.float32)).tolist()
    assert len(set(_hashes(np.arange(2000.0)[:, None]).tolist())) == 2000
    assert not set(_hashes(one).tolist()) & set(_hashes(one, bytes(16)).tolist())


def test_texts_and_wide_rows_are_hashed_too():
    texts = np.array([["a"], ["b"], ["a"], [None]], dtype=object)
    hashes = _hashes(texts)
    assert hashes[0] == hashes[2]
    assert len(set(hashes.tolist())) == 3
    wide = np.random.default_rng(0).random((17_000, 70)).astype(np.float32)
    hashes = _hashes(wide)
    assert _hashes(wide[::-1])[::-1].tolist() == hashes.tolist()
    assert len(set(hashes.tolist())) == len(wide)


def test_other_labels_other_values_or_another_file_make_another_data_set():
    """A data set that the ledger takes for a known one is never hashed: its new rows would pay nothing."""
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    same = array_rows(X.astype(np.float32), y.astype(np.int16))
    others = array_rows(X, y[::-1]), array_rows(X[::-1], y), array_rows(X, y, digest="ab")
    assert array_rows(X, y).digest == same.digest
    assert len({same.digest, *(other.digest for other in others)}) == 4
    assert array_rows(np.hstack([X, X]), y).form != same.form
    first, second = hash_rows(array_rows(np.zeros((2, 1)), y).blocks(), KEY)  # a label is part of a row
    assert first != second


def test_rows_that_were_always_together_share_a_history():
    rng, sets, table = np.random.default_rng(0), [], RowTable()
    for number in range(12):
        sets.append(rng.choice(60, rng.integers(1, 50), replace=True).astype(np.uint64))
        table = table.with_data_set(f"{number:016x}", "form", sets[-1])
    assert table.hashes.tolist() == sorted({int(h) for held in sets for h in held})
    for number, held in enumerate(sets):
        assert table.hashes[table.patterns[:, number][table.groups]].tolist() == sorted(set(held.tolist()))
    assert len(np.unique(table.patterns, axis=0)) == len(table.patterns)
    back = RowTable.from_bytes(table.to_bytes())
    assert back.data_sets == table.data_sets
    assert len(table.to_bytes()) < 12 * len(table.hashes) + 1000
    for name in ("hashes", "groups", "patterns"):
        assert np.array_equal(getattr(back, name), getattr(table, name))


def test_data_sets_of_another_form_count_for_all_rows():
    def counted(found):
        patterns = ["".join(str(int(held)) for held in row) for row in found.patterns]
        return sorted(zip(patterns, found.rows, strict=True))

    table = RowTable().with_data_set("a" * 16, "old", np.array([1], dtype=np.uint64))
    table = table.with_data_set("b" * 16, "new", np.array([2, 3], dtype=np.uint64))
    assert table.histories("b" * 16).patterns.tolist() == [[True, True]]
    assert table.all_histories().patterns.tolist() == [[True, True]] * 2
    assert sorted(table.all_histories().rows.tolist()) == [1, 2]
    third = table.with_data_set("c" * 16, "new", np.array([3, 4, 5], dtype=np.uint64))
    # row 1 of the old form may be in all; of the new one 2 | 3 | 4 and 5 were in the second | both | the third data set
    assert counted(third.all_histories()) == [("101", 2), ("110", 1), ("111", 1), ("111", 1)]
    assert counted(third.histories("c" * 16)) == [("101", 2), ("111", 1)]
    with pytest.raises(KeyError):
        third.histories("d" * 16)


def test_a_table_of_no_rows_has_no_histories():
    assert RowTable().all_histories().patterns.shape == (0, 0)
    assert RowTable.from_bytes(RowTable().to_bytes()).hashes.tolist() == []
    assert RowTable().with_data_set("a" * 16, "f", np.zeros(0, dtype=np.uint64)).all_histories().rows.sum() == 0


def test_a_data_set_is_found_by_its_whole_digest():
    table = RowTable()
    for digest in ("b" * 16, "a" * 16):
        table = table.with_data_set(digest, "f", np.array([1], dtype=np.uint64))
    assert [table.column(digest * 16) for digest in "abc"] == [1, 0, None]
