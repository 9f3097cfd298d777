"""What all payloads share: one header, one set of checks, and one way to unpack a body that may come from anybody.

A payload is a header and a content. The header of row numbers is its first line; answers (labels, scores) have both::

    magic, 2 bytes | version u8 | flags u8 | public rows u32 | size of the body u32
    classes u16 | a number of the codec's own, u16 | round u32 | fingerprint of the public set, 16 bytes

Numbers are little-endian. The content is the body, deflated where flag 1 says so; the size is that before compression.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import PayloadError, explain

__all__ = [
    "ANSWER_HEADER",
    "DEFLATED",
    "VERSION",
    "Opened",
    "PublicSpec",
    "deflate",
    "digest",
    "digests",
    "pack_codes",
    "packed_size",
    "reject",
    "seal",
    "seal_answer",
    "unpack",
    "unpack_codes",
    "unseal",
    "unseal_answer",
]

VERSION = 1
DEFLATED = 1
_HEADER = struct.Struct("<2sBBII")
_ANSWER = struct.Struct("<HHI16s")
ANSWER_HEADER = _HEADER.size + _ANSWER.size
"""Bytes before the content of an answer."""


@dataclass(frozen=True, kw_only=True)
class PublicSpec:
    """What sender and receiver of labels must agree on about the public set."""

    num_public: int  # rows of the public set
    num_classes: int  # classes of its schema
    fingerprint: str  # SHA-256 of its canonical content, 64 hexadecimal digits

    def rows(self, count: int) -> PublicSpec:
        """Return the spec of labels for ``count`` of the public rows."""
        return replace(self, num_public=count)

    @property
    def bits(self) -> PublicSpec:
        """The spec of one-hot labels as bits: a label 0 or 1 for each public row and class."""
        return replace(self, num_public=self.num_public * self.num_classes, num_classes=2)


class Opened(NamedTuple):
    """An opened payload: flags, public rows, size of the body before compression, and what follows the header."""

    flags: int
    rows: int
    size: int
    content: bytes


def reject(reason: str, name: str, rule: str, seen: object, way_out: str = "") -> PayloadError:
    """Return the error of a payload that breaks a rule; ``reason`` goes into the receiver's record."""
    return PayloadError(explain(name, rule, seen, way_out), reason=reason)


def deflate(body: bytes, level: int) -> tuple[bytes, int]:
    """Return the body compressed and the flag `DEFLATED`, or the body itself and 0 where that is not longer."""
    deflated = zlib.compress(body, level)
    return (deflated, DEFLATED) if len(deflated) < len(body) else (body, 0)


def seal(magic: bytes, content: bytes, *, flags: int, rows: int, size: int) -> NDArray[np.uint8]:
    """Return the first line of a header and a content as bytes for the wire: (num_bytes,) uint8.

    ``magic`` is two bytes that name the codec; ``content`` the body, deflated where ``flags`` say so, and what the
    codec puts before it; ``flags`` `DEFLATED` and the codec's own, below 256; ``rows`` the public rows; ``size`` the
    bytes of the body before compression.
    """
    return np.frombuffer(_HEADER.pack(magic, VERSION, flags, rows, size) + content, dtype=np.uint8)


def seal_answer(
    magic: bytes, content: bytes, *, flags: int, size: int, public: PublicSpec, server_round: int, own: int
) -> NDArray[np.uint8]:
    """Return an answer as `seal` does; ``own`` is a number of the codec's own, below 65,536."""
    header = _ANSWER.pack(public.num_classes, own, server_round, _short(public))
    return seal(magic, header + content, flags=flags, rows=public.num_public, size=size)


def unseal(payload: NDArray[np.uint8], magic: bytes, *, known_flags: int) -> Opened:
    """Open what `seal` made; raises `PayloadError` with ``reason`` ``bad-payload`` or ``unknown-version``."""
    if not (isinstance(payload, np.ndarray) and payload.dtype == np.uint8 and payload.ndim == 1):
        seen = f"{getattr(payload, 'dtype', type(payload).__name__)} of shape {getattr(payload, 'shape', '?')}"
        raise reject("bad-payload", "payload", "be a flat uint8 array", seen)
    data = payload.tobytes()
    if len(data) < _HEADER.size or data[:2] != magic:
        raise reject("bad-payload", "payload", f"start with a header {magic.decode()}", f"{len(data)} bytes")
    _, version, flags, rows, size = _HEADER.unpack_from(data)
    if version != VERSION:
        raise reject("unknown-version", "payload version", f"be {VERSION}", version, "Install the same release.")
    if flags & ~known_flags:
        raise reject("bad-payload", "payload flags", "be known", flags)
    return Opened(flags, rows, size, data[_HEADER.size :])


def unseal_answer(
    payload: NDArray[np.uint8], magic: bytes, *, known_flags: int, public: PublicSpec, server_round: int
) -> tuple[int, Opened]:
    """Open what `seal_answer` made for this public set and round; return the codec's own number too.

    Raises `PayloadError` as `unseal`, or with ``reason`` ``wrong-public-set``, ``wrong-length``, ``wrong-classes`` or
    ``wrong-round``.
    """
    opened = unseal(payload, magic, known_flags=known_flags)
    if len(opened.content) < _ANSWER.size:
        raise reject("bad-payload", "payload", "have the header of an answer", f"{len(payload)} bytes")
    classes, own, at_round, fingerprint = _ANSWER.unpack_from(opened.content)
    if fingerprint != _short(public):
        way_out = "Give every party the same public file and schema."
        rule = f"have fingerprint {_short(public).hex()}"
        raise reject("wrong-public-set", "public set", rule, fingerprint.hex(), way_out)
    if opened.rows != public.num_public:
        raise reject("wrong-length", "payload", f"be of {public.num_public} public rows", opened.rows)
    if classes != public.num_classes:
        raise reject("wrong-classes", "payload", f"know {public.num_classes} classes", classes)
    if at_round != server_round:
        raise reject("wrong-round", "payload", f"answer round {server_round}", at_round)
    return own, opened._replace(content=opened.content[_ANSWER.size :])


def unpack(content: bytes, *, flags: int, size: int) -> bytes:
    """Return the body of a content, ``size`` bytes; a content that would unpack to more is never unpacked whole.

    The caller has checked that the announced ``size`` is no larger than it may be; ``flags`` as in `seal`. Raises
    `PayloadError` with ``reason`` ``bad-payload`` or ``wrong-length``.
    """
    if not flags & DEFLATED:
        if len(content) != size:
            raise reject("wrong-length", "payload body", f"have the announced {size} bytes", len(content))
        return content
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(content, size + 1)
    except zlib.error as error:
        raise reject("bad-payload", "payload body", "be valid deflate data", str(error)) from None
    if len(body) != size or not inflater.eof or inflater.unused_data:
        seen = "more bytes" if len(body) > size or inflater.unused_data else "a truncated body"
        raise reject("wrong-length", "payload body", f"unpack to exactly {size} bytes", seen)
    return body


def digest(codes: NDArray[np.integer[Any]]) -> bytes:
    """Return 16 bytes that identify an array of whole numbers; a payload of changes names its base by them."""
    return hashlib.sha256(np.ascontiguousarray(codes, dtype="<i2").tobytes()).digest()[:16]


def digests(arrays: Iterable[NDArray[np.integer[Any]]]) -> str:
    """Return the digests of several arrays as text, with commas: what a base of several payloads is called."""
    return ",".join(digest(array).hex() for array in arrays)


def pack_codes(codes: NDArray[np.integer[Any]], bits: int) -> bytes:
    """Return whole numbers below ``2^bits`` as bytes, ``bits`` bits each, the lowest first."""
    planes = (codes.astype(np.uint16)[:, None] >> np.arange(bits, dtype=np.uint16)) & 1
    return np.packbits(planes.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack_codes(data: bytes, count: int, bits: int) -> NDArray[np.uint16]:
    """Return what `pack_codes` made: an array of shape (count,), uint16."""
    flat = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count * bits, bitorder="little")
    weights = np.left_shift(np.uint16(1), np.arange(bits, dtype=np.uint16))
    codes: NDArray[np.uint16] = flat.reshape(count, bits).astype(np.uint16) @ weights
    return codes


def packed_size(count: int, bits: int) -> int:
    """Return how many bytes ``count`` packed numbers take."""
    return (count * bits + 7) // 8


def _short(public: PublicSpec) -> bytes:
    return bytes.fromhex(public.fingerprint)[:16]
