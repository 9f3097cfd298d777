"""Codes of density ratios as bytes, with the class counts of their sender: few bits, and only changes where possible.

A payload is the envelope's header of an answer, whose own number is the bits of a code; 16 bytes that name the base,
where it holds changes (flag 2); a class count of 4 bytes for each class, where it brings them (flag 4); and the body:
a code of ``bits`` bits for each class and row, class by class, two to a byte. A payload of changes holds the
differences of codes, modulo ``2^bits``.

Codes are far from equally frequent and hardly ever repeat a pattern. So deflate may use its Huffman codes alone, which
is the shorter way for most answers of one round; what arrives is inflated as any other payload.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.wire.envelope import DEFLATED, PublicSpec, digest, reject, seal_answer, unpack, unseal_answer

__all__ = ["MAX_COUNT", "Ratios", "decode_ratios", "encode_ratios"]

_MAGIC = b"FD"
_DELTA, _COUNTS = 2, 4
_BITS = (3, 4)
MAX_COUNT = 2**31 - 1
"""The largest class count that can be said."""


class Ratios(NamedTuple):
    """What a payload says.

    Parameters
    ----------
    codes : ndarray of shape (num_public, num_classes), uint8
    bits : int
        Bits of a code.
    class_counts : ndarray of shape (num_classes,), int64, or None
        The sender's rows of each class; None where the payload does not bring them.
    """

    codes: NDArray[np.uint8]
    bits: int
    class_counts: NDArray[np.int64] | None


def encode_ratios(
    codes: NDArray[np.uint8],
    *,
    bits: int,
    public: PublicSpec,
    server_round: int,
    class_counts: NDArray[np.integer[Any]] | None = None,
    base: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Return codes as bytes for the wire: (num_bytes,) uint8.

    Parameters
    ----------
    codes : ndarray of shape (num_public, num_classes), uint8
        Below ``2^bits``.
    bits : {3, 4}
        Bits of a code.
    public : PublicSpec
        The public set.
    server_round : int
        The round they answer.
    class_counts : ndarray of shape (num_classes,), integer, optional
        Rows of each class, 0 to 2^31 - 1, and at least one row.
    base : ndarray of the same shape as ``codes``, optional
        Codes that the receiver holds. Only the differences are sent if that is shorter.

    Raises
    ------
    DataError
        If shapes, codes or counts are others than these.

    Examples
    --------
    >>> public = PublicSpec(num_public=2, num_classes=2, fingerprint="ab" * 32)
    >>> sent = encode_ratios(np.array([[0, 7], [2, 0]], np.uint8), bits=3, public=public, server_round=1)
    >>> decode_ratios(sent, public=public, server_round=1).codes.tolist()
    [[0, 7], [2, 0]]
    """
    shape = public.num_public, public.num_classes
    codes = np.asarray(codes)
    if bits not in _BITS:
        raise DataError(explain("bits", f"be one of {_BITS}", bits))
    if codes.shape != shape or codes.dtype != np.uint8 or int(codes.max(initial=0)) >= 2**bits:
        rule = f"be uint8 below {2**bits} of shape {shape}"
        raise DataError(explain("codes", rule, f"{codes.dtype} of shape {codes.shape}, up to {codes.max(initial=0)}"))
    front, flags = b"", 0
    if class_counts is not None:
        counts = np.asarray(class_counts)
        if counts.shape != shape[1:] or counts.dtype.kind not in "iu" or not _plausible(counts):
            rule = f"be {shape[1]} whole numbers within 0..{MAX_COUNT}, one of them above 0"
            raise DataError(explain("class_counts", rule, f"{counts.dtype} of shape {counts.shape}"))
        front, flags = counts.astype("<u4").tobytes(), _COUNTS
    body = _packed(codes)
    content, deflated = _shortest(body)
    named = b""
    if base is not None:
        if base.shape != shape:
            raise DataError(explain("base", f"have shape {shape}", f"shape {base.shape}"))
        changes = _packed((codes - base) & np.uint8(2**bits - 1))
        shorter, deflated_changes = _shortest(changes)
        if len(shorter) + 16 < len(content):
            content, deflated, named, flags = shorter, deflated_changes, digest(base), flags | _DELTA
    return seal_answer(
        _MAGIC,
        named + front + content,
        flags=flags | deflated,
        size=len(body),
        public=public,
        server_round=server_round,
        own=bits,
    )


def decode_ratios(
    payload: NDArray[np.uint8], *, public: PublicSpec, server_round: int, base: NDArray[np.uint8] | None = None
) -> Ratios:
    """Return what a payload of `encode_ratios` says.

    Parameters
    ----------
    payload : ndarray of shape (num_bytes,), uint8
    public, server_round
        What the receiver expects.
    base : ndarray of shape (num_public, num_classes), uint8, optional
        Codes that a payload of changes may refer to.

    Raises
    ------
    PayloadError
        With ``reason`` one of ``bad-payload``, ``unknown-version``, ``wrong-public-set``, ``wrong-length``,
        ``wrong-classes``, ``wrong-round``, ``stale-base``, ``class-out-of-range``.
    """
    bits, (flags, rows, announced, content) = unseal_answer(
        payload, _MAGIC, known_flags=DEFLATED | _DELTA | _COUNTS, public=public, server_round=server_round
    )
    if bits not in _BITS:
        raise reject("bad-payload", "bits of a code", f"be one of {_BITS}", bits)
    if flags & _DELTA:
        named, content = content[:16], content[16:]
        if base is None or digest(base) != named:
            raise reject("stale-base", "payload base", "be codes that the receiver holds", named.hex())
    classes, counts = public.num_classes, None
    if flags & _COUNTS:
        front, content = content[: 4 * classes], content[4 * classes :]
        if len(front) < 4 * classes:
            raise reject("wrong-length", "class counts", f"be {classes} numbers", len(front))
        counts = np.frombuffer(front, dtype="<u4").astype(np.int64)
        if not _plausible(counts):
            raise reject("bad-payload", "class counts", f"lie within 0..{MAX_COUNT}, one of them above 0", "others")
    expected = (rows * classes + 1) // 2
    if announced != expected:
        raise reject("wrong-length", "payload body", f"have {expected} bytes", announced)
    codes = _unpacked(unpack(content, flags=flags, size=announced), rows, classes)
    if int(codes.max(initial=0)) >= 2**bits:
        raise reject("class-out-of-range", "ratio code", f"be below {2**bits}", int(codes.max()))
    if flags & _DELTA and base is not None:
        codes = (codes + base) & np.uint8(2**bits - 1)
    return Ratios(codes, bits, counts)


def _plausible(counts: NDArray[np.integer[Any]]) -> bool:
    return bool(int(counts.min()) >= 0 and int(counts.max()) <= MAX_COUNT and counts.any())


def _packed(codes: NDArray[np.uint8]) -> bytes:
    """Return codes class by class, two to a byte: deflate's alphabet is bytes, and a pair has less than two codes'."""
    flat = np.ascontiguousarray(codes.T).reshape(-1)
    pairs = np.append(flat, np.uint8(0)) if len(flat) % 2 else flat
    return (pairs[0::2] | pairs[1::2] << 4).tobytes()


def _unpacked(body: bytes, rows: int, classes: int) -> NDArray[np.uint8]:
    pairs = np.frombuffer(body, dtype=np.uint8)
    flat = np.stack((pairs & 15, pairs >> 4), axis=1).reshape(-1)[: rows * classes]
    return np.ascontiguousarray(flat.reshape(classes, rows).T)


def _shortest(body: bytes) -> tuple[bytes, int]:
    """Return the body deflated in the shorter of two ways, and the flag; the body itself where neither is shorter."""
    found = [body]
    for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY):
        deflater = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, strategy)
        found.append(deflater.compress(body) + deflater.flush())
    best = min(found, key=len)
    return best, 0 if best is body else DEFLATED
