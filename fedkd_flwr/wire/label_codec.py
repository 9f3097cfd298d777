"""Answers as bytes: one header and one packing of whole numbers for all payloads, and labels as such numbers.

    magic, 2 bytes | version u8 | flags u8 | public rows u32
    classes u16 | a number of the codec's own, u16 | round u32 | fingerprint of the public set, 16 bytes
    with a base: 16 bytes that name it | the body, deflated where flag 1 says so

Numbers are little-endian. A body holds whole numbers in as few bits as their kind needs. Where both ends hold an
earlier answer, it may hold the differences to that (flag 2), or the places and values of those that are not 0 (flag 4);
the shortest of the three is sent. Of label arrays the own number is how many there are; they may abstain (flag 8).
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, PayloadError, explain
from fedkd_flwr.labels.voting import ABSTAIN, ConsensusRule, Labels, check_labels

VERSION = 1
DEFLATED, DIFFERENCES, CHANGES = 1, 2, 4
_MOST_CHANGED = 0.25  # of all numbers: from there on their places take more bytes than differences
_HEADER = struct.Struct("<2sBBIHHI16s")
ANSWER_HEADER = _HEADER.size
"""Bytes before the content of an answer."""

Numbers = NDArray[np.integer[Any]]
Part = tuple[Numbers, int]
"""Flat whole numbers, and how many bits each takes."""


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


def reject(reason: str, name: str, rule: str, seen: object, way_out: str = "") -> PayloadError:
    """Return the error of a payload that breaks a rule; ``reason`` goes into the receiver's record."""
    return PayloadError(explain(name, rule, seen, way_out), reason=reason)


# ---------------------------------------------------------------- whole numbers in few bits


def pack_codes(codes: Numbers, bits: int) -> bytes:
    """Return whole numbers below ``2^bits`` as bytes, ``bits`` bits each, the lowest first."""
    if bits in (8, 16, 32):
        return codes.astype(f"<u{bits // 8}").tobytes()
    planes = (codes.astype(np.uint16)[:, None] >> np.arange(bits, dtype=np.uint16)) & 1
    return np.packbits(planes.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def unpack_codes(data: bytes, count: int, bits: int) -> NDArray[Any]:
    """Return what `pack_codes` made: an array of shape (count,), unsigned."""
    if bits in (8, 16, 32):
        return np.frombuffer(data, dtype=f"<u{bits // 8}", count=count)
    flat = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count * bits, bitorder="little")
    weights = np.left_shift(np.uint16(1), np.arange(bits, dtype=np.uint16))
    codes: NDArray[np.uint16] = flat.reshape(count, bits).astype(np.uint16) @ weights
    return codes


def packed_size(count: int, bits: int) -> int:
    """Return how many bytes ``count`` packed numbers take."""
    return (count * bits + 7) // 8


def inflate(content: bytes, most: int) -> bytes:
    """Return what was deflated; a content that would unpack to more than ``most`` bytes is never unpacked whole."""
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(content, most + 1)
    except zlib.error as error:
        raise reject("bad-payload", "payload body", "be valid deflate data", str(error)) from None
    if len(body) > most or not inflater.eof or inflater.unused_data:
        seen = "more bytes" if len(body) > most or inflater.unused_data else "a truncated body"
        raise reject("wrong-length", "payload body", f"unpack to at most {most} bytes", seen)
    return body


def digest(codes: Numbers) -> bytes:
    """Return 16 bytes that identify an array of whole numbers; a payload of changes names its base by them."""
    return hashlib.sha256(np.ascontiguousarray(codes, dtype="<i2").tobytes()).digest()[:16]


def digests(arrays: Iterable[Numbers]) -> str:
    """Return the digests of several arrays as text, with commas: what a base of several payloads is called."""
    return ",".join(digest(array).hex() for array in arrays)


def seal(
    magic: bytes,
    parts: Sequence[Part],
    *,
    public: PublicSpec,
    server_round: int,
    own: int,
    base: Sequence[Numbers] | None = None,
    flags: int = 0,
    level: int = 9,
) -> NDArray[np.uint8]:
    """Return whole numbers as bytes for the wire, in the shortest form: (num_bytes,) uint8.

    ``magic`` names the codec; ``own`` is a number of its own, below 65,536; ``flags`` are its own, 8 or more, below
    256; ``base`` are as many numbers as in ``parts`` that the receiver holds; ``level`` is that of the compression.
    """
    forms = [(0, b"", b"".join(pack_codes(*part) for part in parts))]
    if base is not None:
        differences = [((new.astype(np.int64) - old) & (2**bits - 1), bits) for (new, bits), old in _pairs(parts, base)]
        flat = np.concatenate([numbers for numbers, _ in differences])
        changed = np.flatnonzero(flat)
        name, widest = digest(np.concatenate(base)), max(bits for _, bits in parts)
        forms.append((DIFFERENCES, name, b"".join(pack_codes(*part) for part in differences)))
        if len(changed) <= _MOST_CHANGED * len(flat):
            gaps = np.diff(changed, prepend=0).astype("<u4")
            # bytes of the same weight lie side by side, because nearly all high bytes are zero and compress away
            places = gaps.view(np.uint8).reshape(-1, 4).T.tobytes()
            forms.append((CHANGES, name, places + pack_codes(flat[changed], widest)))
    sealed = []
    for form, name, body in forms:
        deflated = zlib.compress(body, level)
        shorter = len(deflated) < len(body)
        sealed.append((flags | form | DEFLATED * shorter, name + (deflated if shorter else body)))
    flags, content = min(sealed, key=lambda one: len(one[1]))
    header = _HEADER.pack(
        magic, VERSION, flags, public.num_public, public.num_classes, own, server_round, _short(public)
    )
    return np.frombuffer(header + content, dtype=np.uint8)


def _pairs(parts: Sequence[Part], base: Sequence[Numbers]) -> Iterable[tuple[Part, Numbers]]:
    for part, old in zip(parts, base, strict=True):
        if part[0].shape != old.shape:
            raise DataError(explain("base", f"have shape {part[0].shape}", f"shape {old.shape}"))
        yield part, old


def _short(public: PublicSpec) -> bytes:
    return bytes.fromhex(public.fingerprint)[:16]


class Opened(NamedTuple):
    """An opened payload: its flags, its codec's own number, and what follows the header."""

    flags: int
    own: int
    content: bytes

    def numbers(self, sizes: Sequence[tuple[int, int]], base: Sequence[Numbers] | None = None) -> list[NDArray[Any]]:
        """Return the parts, of these counts and bits; differences to ``base`` are added to it.

        Raises `PayloadError` with ``reason`` ``bad-payload``, ``wrong-length`` or ``stale-base``.
        """
        content, based = self.content, self.flags & (DIFFERENCES | CHANGES)
        if based:
            named, content = content[:16], content[16:]
            if base is None or digest(np.concatenate(base)) != named:
                raise reject("stale-base", "payload base", "be an answer that the receiver holds", named.hex())
            if [old.size for old in base] != [count for count, _ in sizes]:
                raise reject("stale-base", "payload base", f"hold {sizes[0][0]} numbers", base[0].size)
        counts, widest = [count for count, _ in sizes], max(bits for _, bits in sizes)
        ends = np.cumsum([packed_size(*one) for one in sizes])
        changed = int(_MOST_CHANGED * sum(counts))
        most = 4 * changed + packed_size(changed, widest) if self.flags & CHANGES else int(ends[-1])
        body = inflate(content, most) if self.flags & DEFLATED else content
        if self.flags & CHANGES:
            if len(body) > most:
                raise reject("wrong-length", "changes", f"have at most {most} bytes", len(body))
            found = np.split(_changes(body, sum(counts), widest), np.cumsum(counts)[:-1])
        elif len(body) == ends[-1]:
            found = [unpack_codes(body[end - packed_size(*one) :], *one) for one, end in zip(sizes, ends, strict=True)]
        else:
            raise reject("wrong-length", "payload body", f"have {ends[-1]} bytes", len(body))
        if not based or base is None:
            return found
        added = zip(found, base, sizes, strict=True)
        return [(new.astype(np.int64) + old) & (2**bits - 1) for new, old, (_, bits) in added]


def _changes(body: bytes, total: int, bits: int) -> NDArray[np.int64]:
    """Return all differences from a body that holds those that are not 0: their places, as gaps, and values."""
    # the body holds n gaps of 4 bytes and n codes of `bits` bits, so its length gives n
    count = len(body) * 8 // (32 + bits)
    if count * 4 + packed_size(count, bits) != len(body):
        raise reject("wrong-length", "changes", "come as gaps and codes of one count", f"{len(body)} bytes")
    planes = np.frombuffer(body[: count * 4], dtype=np.uint8).reshape(4, count)
    gaps = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    places = np.cumsum(gaps, dtype=np.int64)
    if count and not (places[-1] < total and (gaps[1:] > 0).all()):
        raise reject("wrong-length", "changed positions", f"rise and stay below {total}", int(places[-1]))
    flat = np.zeros(total, dtype=np.int64)
    flat[places] = unpack_codes(body[count * 4 :], count, bits)
    return flat


def unseal(
    payload: NDArray[np.uint8], magic: bytes, *, public: PublicSpec, server_round: int, flags: int = 0
) -> Opened:
    """Open what `seal` made for this set and round; ``flags`` are those that the codec knows besides.

    Raises `PayloadError` with ``reason`` one of ``bad-payload``, ``unknown-version``, ``wrong-public-set``,
    ``wrong-length``, ``wrong-classes``, ``wrong-round``.
    """
    if not (isinstance(payload, np.ndarray) and payload.dtype == np.uint8 and payload.ndim == 1):
        seen = f"{getattr(payload, 'dtype', type(payload).__name__)} of shape {getattr(payload, 'shape', '?')}"
        raise reject("bad-payload", "payload", "be a flat uint8 array", seen)
    data = payload.tobytes()
    if len(data) < _HEADER.size or data[:2] != magic:
        raise reject("bad-payload", "payload", f"start with a header {magic.decode()}", f"{len(data)} bytes")
    _, version, seen_flags, rows, classes, own, at_round, fingerprint = _HEADER.unpack_from(data)
    if version != VERSION:
        raise reject("unknown-version", "payload version", f"be {VERSION}", version, "Install the same release.")
    if seen_flags & ~(DEFLATED | DIFFERENCES | CHANGES | flags):
        raise reject("bad-payload", "payload flags", "be known", seen_flags)
    if fingerprint != _short(public):
        way_out = "Give every party the same public file and schema."
        rule = f"have fingerprint {_short(public).hex()}"
        raise reject("wrong-public-set", "public set", rule, fingerprint.hex(), way_out)
    if rows != public.num_public:
        raise reject("wrong-length", "payload", f"be of {public.num_public} public rows", rows)
    if classes != public.num_classes:
        raise reject("wrong-classes", "payload", f"know {public.num_classes} classes", classes)
    if at_round != server_round:
        raise reject("wrong-round", "payload", f"answer round {server_round}", at_round)
    return Opened(seen_flags, own, data[_HEADER.size :])


# ---------------------------------------------------------------- labels

_MAGIC = b"FL"
_ABSTAINS = 8


def bits_per_label(num_classes: int, *, abstains: bool = False) -> int:
    """Return the bits that one label takes.

    >>> bits_per_label(2), bits_per_label(10), bits_per_label(16, abstains=True)
    (1, 4, 5)
    """
    return int(num_classes - 1 + abstains).bit_length()


def label_codes(labels: Labels, num_classes: int) -> NDArray[np.uint16]:
    """Return labels as flat whole numbers of which the number of classes stands for no label."""
    return np.where(labels == ABSTAIN, num_classes, labels).astype(np.uint16).reshape(-1)


def labels_of(codes: Numbers, num_classes: int, *, abstains: bool) -> Labels:
    """Return the labels that `label_codes` made numbers of; raise `PayloadError` where a number is no class."""
    limit = num_classes if abstains else num_classes - 1
    if codes.size and int(codes.max()) > limit:
        raise reject("class-out-of-range", "label code", f"be at most {limit}", int(codes.max()))
    return np.where(codes == num_classes, ABSTAIN, codes.astype(np.int32)).astype(np.int16)


def encode_labels(
    labels: Labels, *, public: PublicSpec, server_round: int, base: Labels | None = None
) -> NDArray[np.uint8]:
    """Return label arrays as bytes for the wire: (num_bytes,) uint8.

    ``labels`` are of shape (num_public,) or (num_arrays, num_public), ``ABSTAIN`` where there is none; ``base`` is an
    array of the same shape that the receiver holds. Raises `DataError` if labels do not fit ``public``, or ``base`` has
    another shape.
    """
    labels = check_labels(labels, num_rows=public.num_public, num_classes=public.num_classes)
    classes, abstains = public.num_classes, bool((labels == ABSTAIN).any())
    part = label_codes(labels, classes), bits_per_label(classes, abstains=abstains)
    known = None if base is None else [label_codes(base, classes)]
    num_arrays, flags = 1 if labels.ndim == 1 else labels.shape[0], _ABSTAINS * abstains
    return seal(_MAGIC, [part], public=public, server_round=server_round, own=num_arrays, base=known, flags=flags)


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
    None; ``base`` the array that changes may refer to. Raises `PayloadError` with a ``reason`` as `unseal` and
    `Opened.numbers`, or ``class-out-of-range``.
    """
    opened = unseal(payload, _MAGIC, public=public, server_round=server_round, flags=_ABSTAINS)
    arrays, abstains, classes = opened.own, bool(opened.flags & _ABSTAINS), public.num_classes
    if arrays < 1 or (num_arrays is not None and arrays != num_arrays):
        wanted = "at least 1" if num_arrays is None else num_arrays
        raise reject("wrong-length", "payload", f"hold {wanted} label arrays", arrays)
    size = arrays * public.num_public, bits_per_label(classes, abstains=abstains)
    [codes] = opened.numbers([size], None if base is None else [label_codes(base, classes)])
    return labels_of(codes, classes, abstains=abstains).reshape(arrays, public.num_public)


# ---------------------------------------------------------------- whole answers

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
