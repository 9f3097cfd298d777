"""Which public rows are meant, as bytes: a compressed bitmap, a tenth of what row numbers take.

One payload is ``"FR" | version u8 | zero u8 | public rows u32 | rows meant u32 | bitmap, deflated``. Rows come back in
ascending order: both ends know them in the same one.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, PayloadError, explain

__all__ = ["ROWS_VERSION", "decode_rows", "encode_rows"]

ROWS_VERSION = 1
_MAGIC = b"FR"
_HEADER = struct.Struct("<2sBBII")


def encode_rows(rows: NDArray[np.integer[Any]], *, num_public: int) -> NDArray[np.uint8]:
    """Return different row numbers below ``num_public``, ascending, as one byte array for the wire.

    Raises
    ------
    DataError
        If a row is out of range, repeated, or not in ascending order.

    Examples
    --------
    >>> decode_rows(encode_rows(np.array([1, 4]), num_public=6), num_public=6).tolist()
    [1, 4]
    """
    rows = np.asarray(rows)
    ascending = rows.ndim == 1 and rows.dtype.kind in "iu" and bool((np.diff(rows.astype(np.int64)) > 0).all())
    if not (ascending and len(rows) and rows[0] >= 0 and rows[-1] < num_public):
        raise DataError(explain("rows", f"be different numbers below {num_public}, ascending", f"{rows[:5]} ..."))
    meant = np.zeros(num_public, dtype=np.uint8)
    meant[rows] = 1
    header = _HEADER.pack(_MAGIC, ROWS_VERSION, 0, num_public, len(rows))
    return np.frombuffer(header + zlib.compress(np.packbits(meant).tobytes(), 9), dtype=np.uint8)


def decode_rows(payload: NDArray[np.uint8], *, num_public: int) -> NDArray[np.int64]:
    """Return the row numbers of a payload, ascending.

    Raises
    ------
    PayloadError
        With ``reason`` ``bad-payload``, ``unknown-version`` or ``wrong-length``.
    """
    if not (isinstance(payload, np.ndarray) and payload.dtype == np.uint8 and payload.ndim == 1):
        seen = f"{getattr(payload, 'dtype', type(payload).__name__)} of shape {getattr(payload, 'shape', '?')}"
        raise PayloadError(explain("rows", "be a flat uint8 array", seen, "Encode with encode_rows."))
    data = payload.tobytes()
    if len(data) < _HEADER.size or data[:2] != _MAGIC:
        raise PayloadError(explain("rows", "start with a header of rows", f"{len(data)} bytes"))
    _, version, _, total, count = _HEADER.unpack_from(data)
    if version != ROWS_VERSION:
        raise PayloadError(explain("version of rows", f"be {ROWS_VERSION}", version), reason="unknown-version")
    if total != num_public:
        raise PayloadError(explain("rows", f"be of {num_public} public rows", total), reason="wrong-length")
    size, inflater = (num_public + 7) // 8, zlib.decompressobj()
    try:
        bitmap = inflater.decompress(data[_HEADER.size :], size + 1)
    except zlib.error as error:
        raise PayloadError(explain("rows", "be valid deflate data", str(error))) from None
    if len(bitmap) != size or not inflater.eof or inflater.unused_data:
        raise PayloadError(explain("rows", f"unpack to {size} bytes", "another size"), reason="wrong-length")
    meant = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8))
    rows = np.flatnonzero(meant).astype(np.int64)
    if not (len(rows) == count >= 1 and rows[-1] < num_public):
        raise PayloadError(
            explain("rows", f"be {count} (at least 1) of {num_public}", len(rows)), reason="wrong-length"
        )
    return rows
