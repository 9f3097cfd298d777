"""Which rows were in which data set: hashes that nobody without the key can make, in a table of 12 bytes a row."""

from __future__ import annotations

import numpy as np
import pytest

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.privacy.ledger import rows
from fedkd_flwr.privacy.ledger.rows import RowTable, array_rows, hash_rows

KEY = bytes(range(16))


@pytest.mark.parametrize(
    ("length", "expected"), [(0, 0x726FDB47DD0E0E31), (1, 0x74F839C593DC67FD), (15, 0xA129CA6149BE45E5)]
)
def test_siphash_gives_the_numbers_that_its_authors_print(length, expected):
    """Reference vectors of Aumasson and Bernstein: key and message count up from 0."""
    data = np.arange(length, dtype=np.uint8)[None]
    assert int(rows._siphash(data, KEY)[0]) == expected


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
    wide = np.random.default_rng(0).random((40_000, 70)).astype(np.float32)
    assert _hashes(wide[::-1])[::-1].tolist() == _hashes(wide).tolist()


def test_a_label_is_part_of_a_row():
    X = np.zeros((2, 1))
    first, second = hash_rows(array_rows(X, np.array([0, 1])).blocks(), KEY)
    assert first != second


def test_rows_that_were_always_together_share_a_history():
    rng, sets, table = np.random.default_rng(0), [], RowTable()
    for number in range(12):
        sets.append(rng.choice(60, rng.integers(1, 50), replace=True).astype(np.uint64))
        table = table.with_data_set(f"{number:016x}", "form", sets[-1])
    assert table.hashes.tolist() == sorted({int(h) for held in sets for h in held})
    for number, held in enumerate(sets):
        assert table.members(number).tolist() == sorted(set(held.tolist()))
    assert len(np.unique(table.patterns, axis=0)) == len(table.patterns)
    back = RowTable.from_bytes(table.to_bytes())
    assert back.data_sets == table.data_sets
    for name in ("hashes", "groups", "patterns"):
        assert np.array_equal(getattr(back, name), getattr(table, name))


def test_data_sets_of_another_form_count_for_all_rows():
    table = RowTable().with_data_set("a" * 16, "old", np.array([1], dtype=np.uint64))
    table = table.with_data_set("b" * 16, "new", np.array([2, 3], dtype=np.uint64))
    assert table.histories("b" * 16).patterns.tolist() == [[True, True]]
    assert table.all_histories().patterns.tolist() == [[True, True]] * 2
    assert table.all_histories().rows.tolist() == [2, 1] or table.all_histories().rows.tolist() == [1, 2]


def test_a_table_takes_twelve_bytes_a_row():
    table = RowTable().with_data_set("a" * 16, "f", np.arange(100_000, dtype=np.uint64))
    assert len(table.to_bytes()) < 12 * 100_000 + 200


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version":2,"data_sets":[],"rows":1,"groups":0}\n', b"\xff"])
def test_a_damaged_table_is_refused(data):
    with pytest.raises(DataError, match="rows must be a whole table of rows") as caught:
        RowTable.from_bytes(data)
    assert caught.value.code is Code.LEDGER_LOST
