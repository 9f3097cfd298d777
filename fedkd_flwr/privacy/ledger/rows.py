"""Which rows took part in which release: keyed hashes of rows, and the data sets that held them.

A ledger follows rows, not files. Each row has a 64-bit hash (BLAKE2b with a key that stays in the party's state-dir),
and a `RowTable` says for each hash in which data sets it was. Rows that were always together share one *history*, so
the table needs 12 bytes a row however many data sets there were.

| two rows | are |
|---|---|
| equal in every column the schema names, and in the label | one row to the ledger: it pays once for each release |
| different, with the same hash (chance: rows^2 / 2^65) | one row too, which then pays for both: never too little |
| equal but for one edited value | two rows: the edited one is new, and has paid nothing |
| hashed in two forms (other columns, other rules for reading one, or an array instead of a file) | unknown to each
  other: see `RowTable.histories` |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Histories", "PrivateRows", "RowTable", "array_rows", "hash_rows", "hash_texts"]

Hashes = NDArray[np.uint64]
_BLOCK = 16_384  # rows whose bytes are held at once


@dataclass(frozen=True, kw_only=True)
class PrivateRows:
    """A data set as a ledger sees it."""

    digest: str  # of the whole data set as it lies there, in hexadecimal: the same digest is the same data set
    form: str  # what a row consists of; hashes are compared within one form only
    # the rows' values as arrays (n, d) of numbers or texts; called once for each data set that the ledger does not know
    blocks: Callable[[], Sequence[NDArray[Any]]]


def array_rows(X: NDArray[Any], y: NDArray[Any], *, digest: str = "") -> PrivateRows:
    """Return rows that are held as arrays X (n, d) and y (n,); ``digest`` where they have one already.

    The values are hashed as they are: other preprocessing makes other rows.
    """
    own = blake2b(np.ascontiguousarray(_numbers(X)).data, digest_size=32)
    own.update(np.ascontiguousarray(y, dtype=np.int64).data)
    own.update(digest.encode())
    return PrivateRows(
        digest=own.hexdigest(), form=f"arrays of {X.shape[1]} columns", blocks=lambda: [X, y.astype(np.int64)[:, None]]
    )


def hash_texts(texts: NDArray[Any]) -> Hashes:
    """Return a 64-bit number for each text (None: a missing one), without a key; shape as ``texts``, uint64."""
    every = texts.ravel().tolist()
    told = {text: b"" if text is None else b"=" + str(text).encode("utf-8", "surrogatepass") for text in set(every)}
    known = {text: blake2b(told[text], digest_size=8).digest() for text in told}
    return np.frombuffer(b"".join(map(known.__getitem__, every)), dtype="<u8").astype(np.uint64).reshape(texts.shape)


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers with one bit pattern for each value, floats at the precision that models see: float32."""
    if values.dtype.kind not in "biuf":
        return hash_texts(values)
    if values.dtype.kind in "bu":
        return values
    if values.dtype.kind == "i":
        return values.astype(np.int64)
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers


def hash_rows(blocks: Sequence[NDArray[Any]], key: bytes) -> Hashes:
    """Return the keyed hash of each row: shape (n,), uint64, in the order of the rows. ``key`` has 16 bytes.

    >>> one, other = hash_rows([np.array([[1], [2]])], bytes(16)), hash_rows([np.array([[2], [1]])], bytes(16))
    >>> one.tolist() == other.tolist()[::-1]
    True
    """
    hashes = np.empty(len(blocks[0]), dtype=np.uint64)
    for start in range(0, len(hashes), _BLOCK):
        parts = [np.ascontiguousarray(_numbers(block[start : start + _BLOCK])) for block in blocks]
        data = np.concatenate([part.view(np.uint8).reshape(len(part), -1) for part in parts], axis=1)
        digests = b"".join(blake2b(row, key=key, digest_size=8).digest() for row in data)
        hashes[start : start + _BLOCK] = np.frombuffer(digests, dtype="<u8")
    return hashes


def _distinct(hashes: Hashes) -> Hashes:
    """Return each hash once, ascending; NumPy's own `unique` takes fifty times as long here."""
    ascending = np.sort(hashes)
    return ascending[np.concatenate([[True], ascending[1:] != ascending[:-1]])] if len(hashes) else ascending


@dataclass(frozen=True, kw_only=True)
class Histories:
    """The different pasts that a data set's rows have."""

    data_sets: tuple[str, ...]  # digests
    patterns: NDArray[np.bool_]  # (num_histories, num_data_sets): in which data sets the rows of each history were
    rows: NDArray[np.int64]  # (num_histories,): how many different rows have this history


@dataclass(frozen=True, kw_only=True, eq=False)
class RowTable:
    """All rows that a ledger has charged, and the data sets they were in."""

    data_sets: tuple[tuple[str, str], ...] = ()  # digest and form of each, in the order of their charges
    hashes: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))  # every row of them, once, ascending
    groups: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))  # its row of ``patterns``
    # (num_groups, num_data_sets): in which data sets the rows of a group were
    patterns: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))

    def column(self, digest: str) -> int | None:
        """Return the number of a data set, None for one that was never charged."""
        return next((i for i, (known, _) in enumerate(self.data_sets) if known == digest), None)

    def with_data_set(self, digest: str, form: str, hashes: Hashes) -> RowTable:
        """Return the table with one data set more; ``hashes`` in any order, also repeated."""
        own = _distinct(hashes)
        everything = _distinct(np.concatenate([self.hashes, own]))
        width, here = len(self.data_sets), np.zeros(len(everything), dtype=np.int64)
        # group 0 of the old ones is that of rows never seen
        here[np.searchsorted(everything, self.hashes)] = self.groups.astype(np.int64) + 1
        old = np.vstack([np.zeros((1, width), dtype=bool), self.patterns])
        pairs = 2 * here
        pairs[np.searchsorted(everything, own)] += 1
        used = np.flatnonzero(np.bincount(pairs, minlength=2 * len(old)))
        number = np.zeros(2 * len(old), dtype=np.int32)
        number[used] = np.arange(len(used))
        patterns = np.concatenate([old[used // 2], (used % 2 == 1)[:, None]], axis=1)
        return RowTable(
            data_sets=(*self.data_sets, (digest, form)), hashes=everything, groups=number[pairs], patterns=patterns
        )

    def histories(self, digest: str) -> Histories:
        """Return the histories of the rows of one data set that is in the table.

        Data sets of another form count for all of its rows: which of them they held cannot be known.
        """
        column = self.column(digest)
        if column is None:
            raise KeyError(digest)
        form, counts = self.data_sets[column][1], np.bincount(self.groups, minlength=len(self.patterns))
        here = np.flatnonzero(self.patterns[:, column])
        other = np.array([known != form for _, known in self.data_sets])
        return Histories(
            data_sets=tuple(known for known, _ in self.data_sets),
            patterns=self.patterns[here] | other[None, :],
            rows=counts[here],
        )

    def all_histories(self) -> Histories:
        """Return the histories of all rows, as `histories` does of one data set's."""
        forms = np.array([form for _, form in self.data_sets])
        own = self.patterns.argmax(axis=1) if len(forms) else np.zeros(0, dtype=np.int64)
        return Histories(
            data_sets=tuple(known for known, _ in self.data_sets),
            patterns=self.patterns | (forms[own][:, None] != forms[None, :]) if len(forms) else self.patterns,
            rows=np.bincount(self.groups, minlength=len(self.patterns)),
        )

    # ---------------------------------------------------------------------------------------- as bytes, and back

    def to_bytes(self) -> bytes:
        """Return it as bytes: one line of JSON, then the arrays."""
        head = {"data_sets": self.data_sets, "rows": len(self.hashes), "groups": len(self.patterns)}
        arrays = (self.hashes.astype("<u8"), self.groups.astype("<i4"), np.packbits(self.patterns, axis=1))
        return json.dumps(head).encode() + b"\n" + b"".join(array.tobytes() for array in arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> RowTable:
        """Read `to_bytes`; whoever keeps the bytes has compared them with their digest."""
        line, _, rest = data.partition(b"\n")
        head = json.loads(line)
        rows, width = head["rows"], len(head["data_sets"])
        bits = np.frombuffer(rest, dtype=np.uint8, offset=12 * rows).reshape(head["groups"], -(-width // 8))
        return cls(
            data_sets=tuple((digest, form) for digest, form in head["data_sets"]),
            hashes=np.frombuffer(rest, dtype="<u8", count=rows).astype(np.uint64),
            groups=np.frombuffer(rest, dtype="<i4", count=rows, offset=8 * rows).astype(np.int32),
            patterns=np.unpackbits(bits, axis=1, count=width).astype(bool) if width else np.zeros((0, 0), dtype=bool),
        )
