"""Label arrays as bytes: as few bits as the classes need, and only what changed where a base is known.

A payload is the envelope's header of an answer, whose own number is the number of arrays; with a base, 16 bytes that
name it; and the body. Labels take ``ceil(log2 C)`` bits, ``ceil(log2(C + 1))`` where abstention is possible (code C).
A change-only body holds the gaps between changed positions and their new codes.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Labels, check_labels
from fedkd_flwr.wire import envelope
from fedkd_flwr.wire.envelope import PublicSpec

__all__ = ["bits_per_label", "decode_labels", "encode_labels"]

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
    body, flags = envelope.pack_codes(codes, bits), _ABSTAINS if abstains else 0
    (content, deflated), named_base = envelope.deflate(body, 9), b""
    if base is not None:
        if base.shape != labels.shape:
            raise DataError(explain("base", f"have shape {labels.shape}", f"shape {base.shape}"))
        changed = np.flatnonzero(flat != base.reshape(-1))
        gaps = np.diff(changed, prepend=0).astype("<u4")
        # bytes of the same weight lie side by side, because nearly all high bytes are zero and compress away
        delta = gaps.view(np.uint8).reshape(-1, 4).T.tobytes() + envelope.pack_codes(codes[changed], bits)
        if len(zlib.compress(delta, 9)) + 16 < len(content):
            body, flags, named_base = delta, flags | _DELTA, envelope.digest(base)
            content, deflated = envelope.deflate(delta, 9)
    content, flags = named_base + content, flags | deflated
    return envelope.seal_answer(
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
    known_flags = envelope.DEFLATED | _ABSTAINS | _DELTA
    arrays, (flags, rows, size, content) = envelope.unseal_answer(
        payload, _MAGIC, known_flags=known_flags, public=public, server_round=server_round
    )
    if arrays < 1 or (num_arrays is not None and arrays != num_arrays):
        wanted = "at least 1" if num_arrays is None else num_arrays
        raise envelope.reject("wrong-length", "payload", f"hold {wanted} label arrays", arrays)
    classes = public.num_classes
    bits = bits_per_label(classes, abstains=bool(flags & _ABSTAINS))
    count = arrays * rows
    full_size = envelope.packed_size(count, bits)
    if size > count * 4 + full_size:  # a change-only body that changes every label
        raise envelope.reject("bad-payload", "announced size", f"be at most {count * 4 + full_size}", size)
    if flags & _DELTA:
        named_base, content = content[:16], content[16:]
        if base is None or envelope.digest(base) != named_base:
            raise envelope.reject("stale-base", "payload base", "be an array the receiver holds", named_base.hex())
        if base.size != count:
            raise envelope.reject("stale-base", "payload base", f"hold {count} labels", base.size)
        codes = _apply_changes(envelope.unpack(content, flags=flags, size=size), base, bits, classes)
    else:
        body = envelope.unpack(content, flags=flags, size=size)
        if size != full_size:
            raise envelope.reject("wrong-length", "payload body", f"have {full_size} bytes", size)
        codes = envelope.unpack_codes(body, count, bits)
    limit = classes if flags & _ABSTAINS else classes - 1
    if codes.size and int(codes.max()) > limit:
        raise envelope.reject("class-out-of-range", "label code", f"be at most {limit}", int(codes.max()))
    labels = codes.astype(np.int16)
    labels[codes == classes] = ABSTAIN
    return labels.reshape(arrays, rows)


def _apply_changes(body: bytes, base: Labels, bits: int, num_classes: int) -> NDArray[np.uint16]:
    codes = np.where(base.reshape(-1) == ABSTAIN, num_classes, base.reshape(-1)).astype(np.uint16)
    # the body holds n gaps of 4 bytes and n codes of `bits` bits, so its length gives n
    num_changes = len(body) * 8 // (32 + bits)
    if num_changes * 4 + envelope.packed_size(num_changes, bits) != len(body):
        raise envelope.reject("wrong-length", "changes", "come as gaps and codes of one count", f"{len(body)} bytes")
    planes = np.frombuffer(body[: num_changes * 4], dtype=np.uint8).reshape(4, num_changes)
    gaps = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    positions = np.cumsum(gaps, dtype=np.int64)
    if num_changes and not (positions[-1] < codes.size and (gaps[1:] > 0).all()):
        raise envelope.reject(
            "wrong-length", "changed positions", f"rise and stay below {codes.size}", int(positions[-1])
        )
    codes[positions] = envelope.unpack_codes(body[num_changes * 4 :], num_changes, bits)
    return codes
