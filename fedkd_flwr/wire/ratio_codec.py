"""Codes of density ratios, labels and class counts as bytes, deflated; of an answer to a known base only what changed.

A payload is the envelope's header of an answer, whose own number is the bits of a code; 16 bytes that name the base,
where it holds changes (flag 2); 4 bytes for each class, where it brings class counts (flag 4); and the body: the label
of each row, then the codes class by class, packed to as few bits as they need. A body of changes holds the exclusive
or with the base, which is 0 wherever nothing changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.ratios import RATIO_BITS
from fedkd_flwr.labels.voting import ABSTAIN, Labels, check_labels
from fedkd_flwr.wire.label_codec import (
    DEFLATED,
    PublicSpec,
    bits_per_label,
    decode_labels,
    deflate,
    digest,
    encode_labels,
    pack_codes,
    packed_size,
    reject,
    seal_answer,
    unpack,
    unpack_codes,
    unseal_answer,
)

__all__ = ["MAX_COUNT", "RatioAnswer", "decode", "decode_ratios", "encode", "encode_ratios", "plausible"]

_MAGIC = b"FA"
_DELTA, _COUNTS = 2, 4
MAX_COUNT = 2**31 - 1
"""The largest class count that can be said."""

Base = tuple[NDArray[np.uint8], Labels]
"""Codes and labels that both ends hold."""


class RatioAnswer(NamedTuple):
    """What a payload says."""

    codes: NDArray[np.uint8]  # (num_public, num_classes), uint8: of `RATIO_BITS` bits
    labels: Labels  # (num_public,), int16
    # (num_classes,), int64, or None: The sender's rows of each class; None where the payload does not bring them
    class_counts: NDArray[np.int64] | None


def encode(
    values: Mapping[str, NDArray[Any]], *, public: PublicSpec, server_round: int, base: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return an answer with ``ratios``; the first label array travels with them.

    Class counts come with the first answer alone: the receiver keeps those of an answer that it holds.
    """
    first, *further = values["labels"]
    known = (base["ratios"], base["labels"][0]) if "ratios" in base else None
    counts = values["class-counts"] if known is None else None
    at: dict[str, Any] = {"public": public, "server_round": server_round}
    arrays = {"ratios": encode_ratios(values["ratios"], first, class_counts=counts, base=known, **at)}
    if further:  # the labels of other students are nearly the first's
        like = np.broadcast_to(first, (len(further), len(first)))
        arrays["labels"] = encode_labels(np.stack(further), base=like, **at)
    return arrays


def decode(
    arrays: Mapping[str, NDArray[Any]],
    *,
    public: PublicSpec,
    server_round: int,
    base: Mapping[str, NDArray[Any]],
    num_arrays: int | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the values of such an answer, as `fedkd_flwr.wire.label_codec.decode_answer` does."""
    known = (base["ratios"], base["labels"][0]) if "ratios" in base else None
    said = decode_ratios(arrays["ratios"], public=public, server_round=server_round, base=known)
    labels, further = said.labels[None], (num_arrays or 1) - 1
    if further:
        if "labels" not in arrays:
            raise reject("bad-payload", "reply", f"hold {num_arrays} label arrays", 1)
        like = np.repeat(labels, further, axis=0)
        at: dict[str, Any] = {"public": public, "server_round": server_round}
        labels = np.concatenate((labels, decode_labels(arrays["labels"], num_arrays=further, base=like, **at)))
    counts = {} if said.class_counts is None else {"class-counts": said.class_counts}
    return {"labels": labels, "ratios": said.codes, **counts}


def encode_ratios(
    codes: NDArray[np.uint8],
    labels: Labels,
    *,
    public: PublicSpec,
    server_round: int,
    class_counts: NDArray[np.integer[Any]] | None = None,
    base: Base | None = None,
) -> NDArray[np.uint8]:
    """Return codes and labels as bytes for the wire: (num_bytes,) uint8.

    ``codes``, (num_public, num_classes) uint8, have `RATIO_BITS` bits; ``labels``,
    (num_public,) int16, ``ABSTAIN`` where there is none; ``class_counts``, (num_classes,), 0 to 2^31 - 1, and at least
    one row. Of ``base``, which the receiver holds, rows that did not change are said to be so. Raises `DataError` for
    anything else.
    """
    shape, bits = (public.num_public, public.num_classes), RATIO_BITS
    if codes.shape != shape or codes.dtype != np.uint8 or int(codes.max(initial=0)) >= 2**bits:
        rule = f"be uint8 below {2**bits} of shape {shape}"
        raise DataError(explain("codes", rule, f"{codes.dtype} of shape {codes.shape}, up to {codes.max(initial=0)}"))
    labels = check_labels(labels, num_rows=shape[0], num_classes=shape[1])
    front, flags = b"", 0
    if class_counts is not None:
        counts = np.asarray(class_counts)
        if counts.shape != shape[1:] or counts.dtype.kind not in "iu" or not plausible(counts):
            rule = f"be {shape[1]} whole numbers within 0..{MAX_COUNT}, one of them above 0"
            raise DataError(explain("class_counts", rule, f"{counts.dtype} of shape {counts.shape}"))
        front, flags = counts.astype("<u4").tobytes(), _COUNTS
    if base is not None:
        if base[0].shape != shape or base[1].shape != labels.shape:
            raise DataError(explain("base", f"have shape {shape}", f"shape {base[0].shape}"))
        front, flags = _named(base) + front, flags | _DELTA
    body = _packed(codes, labels, base, bits)
    content, deflated = deflate(body, 9)
    content, flags = front + content, flags | deflated
    return seal_answer(_MAGIC, content, flags=flags, size=len(body), public=public, server_round=server_round, own=bits)


def decode_ratios(
    payload: NDArray[np.uint8], *, public: PublicSpec, server_round: int, base: Base | None = None
) -> RatioAnswer:
    """Return what a payload of `encode_ratios` says; one of changes may refer to ``base``.

    Raises `PayloadError` with a ``reason`` as `decode_labels`.
    """
    rows, classes = public.num_public, public.num_classes
    bits, (flags, _, size, content) = unseal_answer(
        payload, _MAGIC, known_flags=DEFLATED | _DELTA | _COUNTS, public=public, server_round=server_round
    )
    if bits != RATIO_BITS:
        raise reject("bad-payload", "bits of a code", f"be {RATIO_BITS}", bits)
    known = None
    if flags & _DELTA:
        named, content, known = content[:16], content[16:], base
        if known is None or _named(known) != named:
            raise reject("stale-base", "payload base", "be an answer that the receiver holds", named.hex())
    counts = None
    if flags & _COUNTS:
        front, content = content[: 4 * classes], content[4 * classes :]
        if len(front) < 4 * classes:
            raise reject("wrong-length", "class counts", f"take {4 * classes} bytes", len(front))
        counts = np.frombuffer(front, dtype="<u4").astype(np.int64)
        if not plausible(counts):
            raise reject("bad-payload", "class counts", f"lie within 0..{MAX_COUNT}, one of them above 0", "others")
    width = bits_per_label(classes, abstains=True)
    said = packed_size(rows, width)
    if size != said + packed_size(rows * classes, bits):
        raise reject("wrong-length", "payload body", f"have {said + packed_size(rows * classes, bits)} bytes", size)
    body = unpack(content, flags=flags, size=size)
    numbers = unpack_codes(body[:said], rows, width)
    codes = unpack_codes(body[said:], rows * classes, bits).reshape(classes, rows).T.astype(np.uint8)
    if known is not None:
        codes, numbers = codes ^ known[0], numbers ^ _numbers(known[1], classes)
    if numbers.max(initial=0) > classes:
        raise reject("class-out-of-range", "label code", f"be at most {classes}", int(numbers.max()))
    labels = np.where(numbers == classes, ABSTAIN, numbers.astype(np.int16)).astype(np.int16)
    return RatioAnswer(codes, labels, counts)


def _packed(codes: NDArray[np.uint8], labels: Labels, base: Base | None, bits: int) -> bytes:
    classes = codes.shape[1]
    numbers = _numbers(labels, classes)
    if base is not None:
        codes, numbers = codes ^ base[0], numbers ^ _numbers(base[1], classes)
    return pack_codes(numbers, bits_per_label(classes, abstains=True)) + pack_codes(codes.T.reshape(-1), bits)


def _numbers(labels: Labels, num_classes: int) -> NDArray[np.uint16]:
    """Return labels as numbers of which the number of classes stands for no label."""
    return np.where(labels == ABSTAIN, num_classes, labels).astype(np.uint16)


def _named(base: Base) -> bytes:
    return digest(np.concatenate((base[0].reshape(-1).astype(np.int16), base[1])))


def plausible(counts: NDArray[np.integer[Any]]) -> bool:
    """Tell whether these may be a party's rows of each class."""
    return bool(int(counts.min()) >= 0 and int(counts.max()) <= MAX_COUNT and counts.any())
