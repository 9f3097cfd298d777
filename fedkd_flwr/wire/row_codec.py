"""Row numbers of the public set as bytes: a compressed bitmap, a tenth of the size of the numbers.

A payload is the first line of the envelope's header and a deflated bitmap of the public rows. Rows come back in
ascending order.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.wire.envelope import DEFLATED, reject, seal, unpack, unseal

__all__ = ["decode_rows", "encode_rows"]

_MAGIC = b"FR"


def encode_rows(rows: NDArray[np.integer[Any]], *, num_public: int) -> NDArray[np.uint8]:
    """Return row numbers as bytes for the wire: (num_bytes,) uint8.

    ``rows`` are at least one, ascending and different, below ``num_public``, or `DataError` is raised.

    >>> decode_rows(encode_rows(np.array([1, 4]), num_public=6), num_public=6).tolist()
    [1, 4]
    """
    rows = np.asarray(rows)
    ascending = rows.ndim == 1 and rows.dtype.kind in "iu" and bool((np.diff(rows.astype(np.int64)) > 0).all())
    if not (ascending and len(rows) and rows[0] >= 0 and rows[-1] < num_public):
        raise DataError(explain("rows", f"be different numbers below {num_public}, ascending", f"{rows[:5]} ..."))
    meant = np.zeros(num_public, dtype=np.uint8)
    meant[rows] = 1
    bitmap = np.packbits(meant).tobytes()
    return seal(_MAGIC, zlib.compress(bitmap, 9), flags=DEFLATED, size=len(bitmap), rows=num_public)


def decode_rows(payload: NDArray[np.uint8], *, num_public: int) -> NDArray[np.int64]:
    """Return the row numbers of a payload: (num_rows,) int64, ascending.

    Raises `PayloadError` with ``reason`` ``bad-payload``, ``unknown-version`` or ``wrong-length``.
    """
    flags, total, announced, content = unseal(payload, _MAGIC, known_flags=DEFLATED)
    if total != num_public:
        raise reject("wrong-length", "rows", f"be of {num_public} public rows", total)
    if announced != (num_public + 7) // 8:
        raise reject("wrong-length", "rows", f"come as {(num_public + 7) // 8} bytes", announced)
    bitmap = unpack(content, flags=flags, size=announced)
    rows = np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8))).astype(np.int64)
    if not (len(rows) and rows[-1] < num_public):
        raise reject("wrong-length", "rows", f"be at least one below {num_public}", rows[-1:].tolist())
    return rows
