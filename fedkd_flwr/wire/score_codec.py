"""Class probabilities and logits as bytes, with the same checked header as label arrays.

One payload is::

    "FS" | version u8 | flags u8 | kind u8 | bytes per number u8 | classes u16 | rows u32 | round u32 | body u32
    fingerprint of the public set, 16 bytes | body

``body`` is the announced size before compression; the numbers are little-endian float16 or float32, row by row.

| kind | a row is |
|---|---|
| `probs` | probabilities: each within [0, 1], their sum 1 |
| `logits` | any finite numbers |
| `scores` | any finite numbers: probabilities with noise on them, which fit nothing any more |
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, PayloadError, explain
from fedkd_flwr.wire.label_codec import PublicSpec

__all__ = ["KINDS", "SOFT_VERSION", "SoftKind", "check_scores", "decode_scores", "encode_scores"]

SOFT_VERSION = 1
SoftKind = Literal["probs", "logits", "scores"]
KINDS: tuple[SoftKind, ...] = ("probs", "logits", "scores")
_MAGIC = b"FS"
_HEADER = struct.Struct("<2sBBBBHIII16s")
_DEFLATED = 1
_TYPES = {2: "<f2", 4: "<f4"}
_SLACK = {2: 2.0**-10, 4: 2.0**-20}  # what rounding may take from one probability, generously


def check_scores(values: NDArray[Any], *, public: PublicSpec, kind: SoftKind, slack: float = 2.0**-20) -> None:
    """Refuse what is no array of this kind on these rows.

    Parameters
    ----------
    values : ndarray of shape (num_public, num_classes), float
    public : PublicSpec
        The rows spoken of.
    kind : {"probs", "logits", "scores"}
        What the numbers are.
    slack : float
        What rounding may have taken from one probability.

    Raises
    ------
    DataError
        Naming what does not fit; NaN and infinity first.
    """
    if kind not in KINDS:
        raise DataError(explain("kind", f"be one of {', '.join(KINDS)}", kind))
    if not (isinstance(values, np.ndarray) and values.dtype.kind == "f"):
        raise DataError(explain(kind, "be floats", f"{getattr(values, 'dtype', type(values).__name__)}"))
    if values.shape != (public.num_public, public.num_classes):
        raise DataError(explain(kind, f"have shape {(public.num_public, public.num_classes)}", f"{values.shape}"))
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
        raise DataError(explain(kind, "be finite numbers", f"{values[row].max()} or the like in row {row}"))
    if kind != "probs" or not values.size:
        return
    if not (values.min() >= -slack and values.max() <= 1 + slack):
        wrong = float(values.min() if values.min() < -slack else values.max())
        raise DataError(explain("probs", "lie within [0, 1]", wrong))
    sums = values.sum(axis=1, dtype=np.float64)
    allowed = slack * public.num_classes
    if not (np.abs(sums - 1) <= allowed).all():
        row = int(np.argmax(np.abs(sums - 1)))
        raise DataError(explain("probs", "sum to 1 in every row", f"{sums[row]:.6g} in row {row}"))


def encode_scores(
    values: NDArray[Any], *, public: PublicSpec, server_round: int, kind: SoftKind, bits: int = 32
) -> NDArray[np.uint8]:
    """Return scores as one byte array for the wire.

    Parameters
    ----------
    values : ndarray of shape (num_public, num_classes), float
        Finite. Numbers beyond float16's range become its largest.
    public : PublicSpec
        The rows they speak of: `PublicSpec.rows` of the public set where it is a part.
    server_round : int
        The round they answer.
    kind : {"probs", "logits", "scores"}
        What they are.
    bits : {32, 16}
        Precision on the wire.

    Returns
    -------
    ndarray of shape (num_bytes,), uint8

    Raises
    ------
    DataError
        If the values are not of this kind or shape, or ``bits`` is something else.
    """
    check_scores(values, public=public, kind=kind)
    if bits not in (16, 32) or isinstance(bits, bool):
        raise DataError(explain("bits", "be 16 or 32", bits))
    size = bits // 8
    limit = float(np.finfo(_TYPES[size]).max)
    body = np.clip(values, -limit, limit).astype(_TYPES[size]).tobytes()
    deflated, flags, announced = zlib.compress(body, 6), 0, len(body)
    if len(deflated) < announced:
        body, flags = deflated, _DEFLATED
    header = _HEADER.pack(
        _MAGIC,
        SOFT_VERSION,
        flags,
        KINDS.index(kind),
        size,
        public.num_classes,
        public.num_public,
        server_round,
        announced,
        bytes.fromhex(public.fingerprint)[:16],
    )
    return np.frombuffer(header + body, dtype=np.uint8)


def decode_scores(
    payload: NDArray[np.uint8], *, public: PublicSpec, server_round: int, kind: SoftKind
) -> NDArray[np.float32]:
    """Return the scores of a payload, or say exactly why it is refused.

    Parameters
    ----------
    payload : ndarray of shape (num_bytes,), uint8
        What `encode_scores` made.
    public, server_round, kind
        What the receiver expects.

    Returns
    -------
    ndarray of shape (num_public, num_classes), float32
        ``probs`` brought back to a sum of 1.

    Raises
    ------
    PayloadError
        With ``reason`` one of ``bad-payload``, ``unknown-version``, ``wrong-public-set``, ``wrong-length``,
        ``wrong-classes``, ``wrong-round``, ``not-a-number``.
    """
    if not (isinstance(payload, np.ndarray) and payload.dtype == np.uint8 and payload.ndim == 1):
        seen = f"{getattr(payload, 'dtype', type(payload).__name__)} of shape {getattr(payload, 'shape', '?')}"
        raise PayloadError(explain("payload", "be a flat uint8 array", seen, "Encode with encode_scores."))
    data = payload.tobytes()
    if len(data) < _HEADER.size or data[:2] != _MAGIC:
        raise PayloadError(explain("payload", "start with a header of scores", f"{len(data)} bytes"))
    _, version, flags, number, size, classes, rows, at_round, announced, fingerprint = _HEADER.unpack_from(data)
    expected = bytes.fromhex(public.fingerprint)[:16]
    same = fingerprint == expected
    checks: tuple[tuple[str, str, str, object, bool], ...] = (
        ("unknown-version", "payload version", f"be {SOFT_VERSION}", version, version == SOFT_VERSION),
        ("wrong-public-set", "public set", f"have fingerprint {expected.hex()}", fingerprint.hex(), same),
        ("wrong-length", "payload", f"speak of {public.num_public} rows", rows, rows == public.num_public),
        ("wrong-classes", "payload", f"know {public.num_classes} classes", classes, classes == public.num_classes),
        ("wrong-round", "payload", f"answer round {server_round}", at_round, at_round == server_round),
        ("bad-payload", "payload", f"hold {kind}", number, number == KINDS.index(kind)),
        ("bad-payload", "payload", "have known flags and numbers", (flags, size), flags <= 1 and size in _TYPES),
    )
    for reason, name, rule, found, right in checks:
        if not right:
            raise PayloadError(explain(name, rule, found), reason=reason)
    full = rows * classes * size
    body = _unpacked(data[_HEADER.size :], full) if flags else data[_HEADER.size :]
    if not len(body) == full == announced:
        seen_sizes = f"{len(body)} bytes, {announced} announced"
        raise PayloadError(explain("payload body", f"have {full} bytes", seen_sizes), reason="wrong-length")
    values = np.frombuffer(body, dtype=_TYPES[size]).reshape(rows, classes).astype(np.float32)
    try:
        check_scores(values, public=public, kind=kind, slack=_SLACK[size])
    except DataError as error:
        reason = "bad-payload" if np.isfinite(values).all() else "not-a-number"
        raise PayloadError(str(error), reason=reason) from None
    if kind == "probs":
        values = np.maximum(values, 0)
        values = values / values.sum(axis=1, keepdims=True)
    return values


def _unpacked(data: bytes, size: int) -> bytes:
    """Decompress to at most one byte more than can be right: a bomb is never unpacked."""
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise PayloadError(explain("payload body", "be valid deflate data", str(error))) from None
    if not inflater.eof or inflater.unused_data:
        raise PayloadError(explain("payload body", f"unpack to {size} bytes", "another size"), reason="wrong-length")
    return body
