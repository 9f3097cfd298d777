"""Label arrays as bytes: as few bits as the classes need, only what changed where a base is known, checked.

One payload is a small header and a body::

    "FL" | version u8 | flags u8 | arrays u16 | classes u16 | rows u32 | round u32 | body u32
    fingerprint of the public set, 16 bytes | with a base: digest of the base, 16 bytes | body

``body`` is the announced size before compression. Labels take ``ceil(log2 C)`` bits, ``ceil(log2(C + 1))``
where abstention is possible (code C). A change-only body holds the gaps between changed positions and their
new codes.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, PayloadError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Labels, check_labels

__all__ = ["VERSION", "PublicSpec", "bits_per_label", "decode_labels", "digest", "encode_labels"]

VERSION = 1
_MAGIC = b"FL"
_HEADER = struct.Struct("<2sBBHHIII16s")
_ABSTAINS, _DELTA, _DEFLATED = 1, 2, 4


@dataclass(frozen=True, kw_only=True)
class PublicSpec:
    """What both ends must share about the public set before labels mean anything.

    Parameters
    ----------
    num_public : int
        Rows of the public set.
    num_classes : int
        Classes of its schema.
    fingerprint : str
        SHA-256 of its canonical content, 64 hexadecimal digits.
    """

    num_public: int
    num_classes: int
    fingerprint: str

    def rows(self, count: int) -> PublicSpec:
        """Return the spec of labels for ``count`` of the public rows."""
        return replace(self, num_public=count)

    @property
    def bits(self) -> PublicSpec:
        """The spec of one-hot labels as bits: a label 0 or 1 for each public row and class."""
        return replace(self, num_public=self.num_public * self.num_classes, num_classes=2)


def bits_per_label(num_classes: int, *, abstains: bool = False) -> int:
    """Return the bits one label takes.

    >>> bits_per_label(2), bits_per_label(10), bits_per_label(16, abstains=True)
    (1, 4, 5)
    """
    return int(num_classes - 1 + abstains).bit_length()


def digest(labels: Labels) -> bytes:
    """Return 16 bytes that name a label array: what a change-only payload calls its base."""
    return hashlib.sha256(np.ascontiguousarray(labels, dtype="<i2").tobytes()).digest()[:16]


def _pack(codes: NDArray[np.uint16], bits: int) -> bytes:
    planes = (codes[:, None] >> np.arange(bits, dtype=np.uint16)) & 1
    return np.packbits(planes.astype(np.uint8).reshape(-1), bitorder="little").tobytes()


def _unpack(data: bytes, count: int, bits: int) -> NDArray[np.uint16]:
    flat = np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=count * bits, bitorder="little")
    weights = np.left_shift(np.uint16(1), np.arange(bits, dtype=np.uint16))
    codes: NDArray[np.uint16] = flat.reshape(count, bits).astype(np.uint16) @ weights
    return codes


def _packed_size(count: int, bits: int) -> int:
    return (count * bits + 7) // 8


def encode_labels(
    labels: Labels, *, public: PublicSpec, server_round: int, base: Labels | None = None
) -> NDArray[np.uint8]:
    """Return label arrays as one byte array for the wire.

    Parameters
    ----------
    labels : ndarray of shape (num_public,) or (num_arrays, num_public), int16
        Labels, ``ABSTAIN`` where there is none.
    public : PublicSpec
        The public set they label.
    server_round : int
        The round they answer.
    base : ndarray of the same shape, optional
        An array the receiver holds: only what changed is sent, where that is shorter.

    Returns
    -------
    ndarray of shape (num_bytes,), uint8

    Raises
    ------
    DataError
        If labels do not fit ``public``, or ``base`` has another shape.
    """
    labels = check_labels(labels, num_public=public.num_public, num_classes=public.num_classes)
    num_arrays = 1 if labels.ndim == 1 else labels.shape[0]
    flat = labels.reshape(-1)
    abstains = bool((flat == ABSTAIN).any())
    bits = bits_per_label(public.num_classes, abstains=abstains)
    codes = np.where(flat == ABSTAIN, public.num_classes, flat).astype(np.uint16)
    body = _pack(codes, bits)
    flags, named_base = (_ABSTAINS if abstains else 0), b""
    if base is not None:
        if base.shape != labels.shape:
            raise DataError(explain("base", f"have shape {labels.shape}", f"shape {base.shape}"))
        changed = np.flatnonzero(flat != base.reshape(-1))
        gaps = np.diff(changed, prepend=0).astype("<u4")
        # bytes of equal weight side by side: most are zero, and deflate removes them
        delta = gaps.view(np.uint8).reshape(-1, 4).T.tobytes() + _pack(codes[changed], bits)
        if len(zlib.compress(delta, 9)) + 16 < min(len(body), len(zlib.compress(body, 9))):
            body, flags, named_base = delta, flags | _DELTA, digest(base)
    deflated = zlib.compress(body, 9)
    announced = len(body)
    if len(deflated) < len(body):
        body, flags = deflated, flags | _DEFLATED
    header = _HEADER.pack(
        _MAGIC,
        VERSION,
        flags,
        num_arrays,
        public.num_classes,
        public.num_public,
        server_round,
        announced,
        bytes.fromhex(public.fingerprint)[:16],
    )
    return np.frombuffer(header + named_base + body, dtype=np.uint8)


def _reject(reason: str, name: str, rule: str, seen: object, way_out: str = "") -> PayloadError:
    return PayloadError(explain(name, rule, seen, way_out), reason=reason)


def decode_labels(
    payload: NDArray[np.uint8],
    *,
    public: PublicSpec,
    server_round: int,
    num_arrays: int | None = None,
    base: Labels | None = None,
) -> Labels:
    """Return the label arrays of a payload, or say exactly why it is refused.

    Parameters
    ----------
    payload : ndarray of shape (num_bytes,), uint8
        What `encode_labels` made.
    public : PublicSpec
        The public set the receiver holds.
    server_round : int
        The round the payload must belong to.
    num_arrays : int, optional
        How many arrays it must hold; any number if None.
    base : ndarray, optional
        The array a change-only payload may refer to.

    Returns
    -------
    ndarray of shape (num_arrays, num_public), int16

    Raises
    ------
    PayloadError
        With ``reason`` one of ``bad-payload``, ``unknown-version``, ``wrong-public-set``, ``wrong-length``,
        ``wrong-classes``, ``wrong-round``, ``stale-base``, ``class-out-of-range``.
    """
    if not (isinstance(payload, np.ndarray) and payload.dtype == np.uint8 and payload.ndim == 1):
        seen = f"{getattr(payload, 'dtype', type(payload).__name__)} of shape {getattr(payload, 'shape', '?')}"
        raise _reject("bad-payload", "payload", "be a flat uint8 array", seen, "Encode with encode_labels.")
    data = payload.tobytes()
    if len(data) < _HEADER.size or data[:2] != _MAGIC:
        raise _reject("bad-payload", "payload", "start with a label header", f"{len(data)} bytes", "Encode again.")
    _, version, flags, arrays, classes, rows, at_round, announced, fingerprint = _HEADER.unpack_from(data)
    if version != VERSION:
        raise _reject("unknown-version", "payload version", f"be {VERSION}", version, "Install the same release.")
    if fingerprint != bytes.fromhex(public.fingerprint)[:16]:
        raise _reject(
            "wrong-public-set",
            "public set",
            f"have fingerprint {public.fingerprint[:32]}",
            fingerprint.hex(),
            "Give every party the same public file and schema.",
        )
    if rows != public.num_public:
        raise _reject("wrong-length", "payload", f"label {public.num_public} rows", rows)
    if classes != public.num_classes:
        raise _reject("wrong-classes", "payload", f"know {public.num_classes} classes", classes)
    if at_round != server_round:
        raise _reject("wrong-round", "payload", f"answer round {server_round}", at_round)
    if arrays < 1 or (num_arrays is not None and arrays != num_arrays):
        wanted = "at least 1" if num_arrays is None else num_arrays
        raise _reject("wrong-length", "payload", f"hold {wanted} label arrays", arrays)
    if flags & ~(_ABSTAINS | _DELTA | _DEFLATED):
        raise _reject("bad-payload", "payload flags", "be known", flags)

    bits = bits_per_label(classes, abstains=bool(flags & _ABSTAINS))
    count = arrays * rows
    full_size = _packed_size(count, bits)
    if announced > count * 4 + full_size:  # what a change-only body that changes every label takes
        raise _reject("bad-payload", "announced size", f"be at most {count * 4 + full_size}", announced)
    start = _HEADER.size
    if flags & _DELTA:
        named_base = data[start : start + 16]
        start += 16
        if base is None or digest(base) != named_base:
            raise _reject("stale-base", "payload base", "be an array the receiver holds", named_base.hex())
        if base.size != count:
            raise _reject("stale-base", "payload base", f"hold {count} labels", base.size)
    body = _inflate(data[start:], announced) if flags & _DEFLATED else data[start:]
    if len(body) != announced:
        raise _reject("wrong-length", "payload body", f"have the announced {announced} bytes", len(body))
    if flags & _DELTA and base is not None:
        codes = _apply_changes(body, base, bits, classes)
    else:
        if announced != full_size:
            raise _reject("wrong-length", "payload body", f"have {full_size} bytes", announced)
        codes = _unpack(body, count, bits)
    limit = classes if flags & _ABSTAINS else classes - 1
    if codes.size and int(codes.max()) > limit:
        raise _reject("class-out-of-range", "label code", f"be at most {limit}", int(codes.max()))
    labels = codes.astype(np.int16)
    labels[codes == classes] = ABSTAIN
    return labels.reshape(arrays, rows)


def _inflate(data: bytes, announced: int) -> bytes:
    """Decompress to at most one byte more than announced: a bomb is never unpacked."""
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(data, announced + 1)
    except zlib.error as error:
        raise _reject("bad-payload", "payload body", "be valid deflate data", str(error)) from None
    if not inflater.eof or inflater.unused_data:
        seen = "more bytes" if len(body) > announced or inflater.unused_data else "a truncated body"
        raise _reject("wrong-length", "payload body", f"unpack to exactly {announced} bytes", seen)
    return body


def _apply_changes(body: bytes, base: Labels, bits: int, num_classes: int) -> NDArray[np.uint16]:
    codes = np.where(base.reshape(-1) == ABSTAIN, num_classes, base.reshape(-1)).astype(np.uint16)
    # the body holds n gaps of 4 bytes and n codes of `bits` bits: n follows from its length
    num_changes = len(body) * 8 // (32 + bits)
    if num_changes * 4 + _packed_size(num_changes, bits) != len(body):
        raise _reject("wrong-length", "changes", "come as gaps and codes of one count", f"{len(body)} bytes")
    planes = np.frombuffer(body[: num_changes * 4], dtype=np.uint8).reshape(4, num_changes)
    gaps = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    positions = np.cumsum(gaps, dtype=np.int64)
    if num_changes and not (positions[-1] < codes.size and (gaps[1:] > 0).all()):
        raise _reject("wrong-length", "changed positions", f"rise and stay below {codes.size}", int(positions[-1]))
    codes[positions] = _unpack(body[num_changes * 4 :], num_changes, bits)
    return codes
