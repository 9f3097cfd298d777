"""Answers as bytes: the header and checks that all payloads share, and labels in as few bits as the classes need.

A payload is a header and a content. The header of row numbers is its first line; answers (labels, scores) have both::

    magic, 2 bytes | version u8 | flags u8 | public rows u32 | size of the body u32
    classes u16 | a number of the codec's own, u16 | round u32 | fingerprint of the public set, 16 bytes

Numbers are little-endian. The content is the body, deflated where flag 1 says so; the size is that before compression.

The own number of label arrays is how many there are. Labels take ``ceil(log2 C)`` bits, ``ceil(log2(C + 1))`` where
abstention is possible (code C). Where a base is known, only what changed may be sent: 16 bytes that name the base, and
a body that holds the gaps between changed positions and their new codes.

A vote rule may name a module that turns labels and what it needs beside them into bytes together
(`ConsensusRule.codec`), by functions ``encode`` and ``decode`` like those of `fedkd_flwr.wire.ratio_codec`. Without one
labels are packed, and the other arrays travel as they are.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, PayloadError, explain
from fedkd_flwr.labels.voting import ABSTAIN, ConsensusRule, Labels, check_labels

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

    ``magic`` names the codec; ``content`` is the body, deflated where ``flags`` say so, after what the codec puts
    before it; ``flags`` are below 256; ``size`` is the bytes of the body before compression.
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
    """Open what `seal_answer` made for this set and round, or raise `PayloadError`; its own number comes first."""
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


Arrays = Mapping[str, NDArray[Any]]


def encode_answer(
    values: Arrays, *, public: PublicSpec, server_round: int, base: Arrays, rule: ConsensusRule | None = None
) -> dict[str, NDArray[Any]]:
    """Return an answer's values as wire arrays: labels or bits, and what ``rule`` needs; other names do not travel.

    ``base``: values of an earlier answer that the receiver holds; {} for none.
    """
    at: dict[str, Any] = {"server_round": server_round}
    beside = {name: values[name] for name in (() if rule is None else rule.needs) if name in values}
    if beside and rule is not None and rule.codec:
        encoded: dict[str, NDArray[Any]] = import_module(rule.codec).encode(values, public=public, base=base, **at)
        return encoded
    specs = {"labels": public, "bits": public.bits}
    packed = {
        name: encode_labels(array, public=specs[name], base=base.get(name), **at)
        for name, array in values.items()
        if name in specs
    }
    return packed | beside


def decode_answer(
    arrays: Arrays,
    *,
    public: PublicSpec,
    server_round: int,
    base: Arrays,
    num_arrays: int | None = None,
    rule: ConsensusRule | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the values of an answer, under the names that `encode_answer` was given; others are ignored.

    Raises `PayloadError` if it cannot be read, or says only a part of what the rule needs.
    """
    at: dict[str, Any] = {"server_round": server_round, "num_arrays": num_arrays}
    named = [name for name in (() if rule is None else rule.needs) if name in arrays]
    if rule is not None and named[:1] != [*rule.needs[:1]]:  # labels alone, whatever else came with them
        named = []
    if named and rule is not None and rule.codec:
        decoded: dict[str, NDArray[Any]] = import_module(rule.codec).decode(arrays, public=public, base=base, **at)
        return decoded
    name = "bits" if "bits" in arrays else "labels"
    if name not in arrays:
        raise PayloadError(f"no {name} in the reply")
    spec = public.bits if name == "bits" else public
    values = {name: decode_labels(arrays[name], public=spec, base=base.get(name), **at)}
    if rule is None or not named:
        return values
    if missing := [one for one in rule.needs if one not in arrays and one not in rule.once]:
        raise PayloadError(explain("reply", f"hold {', '.join(rule.needs)} for {rule.name}", f"no {missing[0]}"))
    return values | {one: np.asarray(arrays[one]) for one in named}


_MAGIC = b"FL"
_ABSTAINS, _DELTA = 2, 4


def bits_per_label(num_classes: int, *, abstains: bool = False) -> int:
    """Return the bits that one label takes.

    >>> bits_per_label(2), bits_per_label(10), bits_per_label(16, abstains=True)
    (1, 4, 5)
    """
    return int(num_classes - 1 + abstains).bit_length()


def encode_labels(
    labels: Labels, *, public: PublicSpec, server_round: int, base: Labels | None = None
) -> NDArray[np.uint8]:
    """Return label arrays as bytes for the wire: (num_bytes,) uint8.

    ``labels`` are of shape (num_public,) or (num_arrays, num_public), ``ABSTAIN`` where there is none. Of ``base``, an
    array of the same shape that the receiver holds, only what changed is sent if that is shorter. Raises `DataError` if
    labels do not fit ``public``, or ``base`` has another shape.
    """
    labels = check_labels(labels, num_rows=public.num_public, num_classes=public.num_classes)
    num_arrays = 1 if labels.ndim == 1 else labels.shape[0]
    flat = labels.reshape(-1)
    abstains = bool((flat == ABSTAIN).any())
    bits = bits_per_label(public.num_classes, abstains=abstains)
    codes = np.where(flat == ABSTAIN, public.num_classes, flat).astype(np.uint16)
    body, flags = pack_codes(codes, bits), _ABSTAINS if abstains else 0
    (content, deflated), named_base = deflate(body, 9), b""
    if base is not None:
        if base.shape != labels.shape:
            raise DataError(explain("base", f"have shape {labels.shape}", f"shape {base.shape}"))
        changed = np.flatnonzero(flat != base.reshape(-1))
        gaps = np.diff(changed, prepend=0).astype("<u4")
        # bytes of the same weight lie side by side, because nearly all high bytes are zero and compress away
        delta = gaps.view(np.uint8).reshape(-1, 4).T.tobytes() + pack_codes(codes[changed], bits)
        if len(zlib.compress(delta, 9)) + 16 < len(content):
            body, flags, named_base = delta, flags | _DELTA, digest(base)
            content, deflated = deflate(delta, 9)
    content, flags = named_base + content, flags | deflated
    return seal_answer(
        _MAGIC, content, flags=flags, size=len(body), public=public, server_round=server_round, own=num_arrays
    )


def decode_labels(
    payload: NDArray[np.uint8],
    *,
    public: PublicSpec,
    server_round: int,
    num_arrays: int | None = None,
    base: Labels | None = None,
) -> Labels:
    """Return the label arrays of a payload of `encode_labels`: (num_arrays, num_public) int16.

    ``public`` and ``server_round`` are what the receiver expects; ``num_arrays`` how many it must hold, any number if
    None; ``base`` the array a change-only payload may refer to. Raises `PayloadError` with ``reason`` one of
    ``bad-payload``, ``unknown-version``, ``wrong-public-set``, ``wrong-length``, ``wrong-classes``, ``wrong-round``,
    ``stale-base``, ``class-out-of-range``.
    """
    known_flags = DEFLATED | _ABSTAINS | _DELTA
    arrays, (flags, rows, size, content) = unseal_answer(
        payload, _MAGIC, known_flags=known_flags, public=public, server_round=server_round
    )
    if arrays < 1 or (num_arrays is not None and arrays != num_arrays):
        wanted = "at least 1" if num_arrays is None else num_arrays
        raise reject("wrong-length", "payload", f"hold {wanted} label arrays", arrays)
    classes = public.num_classes
    bits = bits_per_label(classes, abstains=bool(flags & _ABSTAINS))
    count = arrays * rows
    full_size = packed_size(count, bits)
    if size > count * 4 + full_size:  # a change-only body that changes every label
        raise reject("bad-payload", "announced size", f"be at most {count * 4 + full_size}", size)
    if flags & _DELTA:
        named_base, content = content[:16], content[16:]
        if base is None or digest(base) != named_base:
            raise reject("stale-base", "payload base", "be an array the receiver holds", named_base.hex())
        if base.size != count:
            raise reject("stale-base", "payload base", f"hold {count} labels", base.size)
        codes = _apply_changes(unpack(content, flags=flags, size=size), base, bits, classes)
    else:
        body = unpack(content, flags=flags, size=size)
        if size != full_size:
            raise reject("wrong-length", "payload body", f"have {full_size} bytes", size)
        codes = unpack_codes(body, count, bits)
    limit = classes if flags & _ABSTAINS else classes - 1
    if codes.size and int(codes.max()) > limit:
        raise reject("class-out-of-range", "label code", f"be at most {limit}", int(codes.max()))
    labels = codes.astype(np.int16)
    labels[codes == classes] = ABSTAIN
    return labels.reshape(arrays, rows)


def _apply_changes(body: bytes, base: Labels, bits: int, num_classes: int) -> NDArray[np.uint16]:
    codes = np.where(base.reshape(-1) == ABSTAIN, num_classes, base.reshape(-1)).astype(np.uint16)
    # the body holds n gaps of 4 bytes and n codes of `bits` bits, so its length gives n
    num_changes = len(body) * 8 // (32 + bits)
    if num_changes * 4 + packed_size(num_changes, bits) != len(body):
        raise reject("wrong-length", "changes", "come as gaps and codes of one count", f"{len(body)} bytes")
    planes = np.frombuffer(body[: num_changes * 4], dtype=np.uint8).reshape(4, num_changes)
    gaps = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    positions = np.cumsum(gaps, dtype=np.int64)
    if num_changes and not (positions[-1] < codes.size and (gaps[1:] > 0).all()):
        raise reject("wrong-length", "changed positions", f"rise and stay below {codes.size}", int(positions[-1]))
    codes[positions] = unpack_codes(body[num_changes * 4 :], num_changes, bits)
    return codes
