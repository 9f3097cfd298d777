"""Codes of density ratios, labels and class counts as bytes.

The header's own number is the bits of a code. The numbers are the label of each row, the codes class by class, and with
flag 8 the class counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.ratios import RATIO_BITS
from fedkd_flwr.labels.voting import Labels, check_labels
from fedkd_flwr.wire.label_codec import (
    PublicSpec,
    bits_per_label,
    decode_labels,
    encode_labels,
    label_codes,
    labels_of,
    reject,
    seal,
    unseal,
)

__all__ = ["MAX_COUNT", "RatioAnswer", "decode", "decode_ratios", "encode", "encode_ratios", "plausible"]

_MAGIC = b"FA"
_COUNTS = 8
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
    one row; ``base`` is what the receiver holds, where no counts are to be said. Raises `DataError` for anything else.
    """
    shape, bits = (public.num_public, public.num_classes), RATIO_BITS
    if codes.shape != shape or codes.dtype != np.uint8 or int(codes.max(initial=0)) >= 2**bits:
        rule = f"be uint8 below {2**bits} of shape {shape}"
        raise DataError(explain("codes", rule, f"{codes.dtype} of shape {codes.shape}, up to {codes.max(initial=0)}"))
    labels = check_labels(labels, num_rows=shape[0], num_classes=shape[1])
    parts, flags = _parts(codes, labels), 0
    if class_counts is not None:
        counts = np.asarray(class_counts)
        if counts.shape != shape[1:] or counts.dtype.kind not in "iu" or not plausible(counts):
            rule = f"be {shape[1]} whole numbers within 0..{MAX_COUNT}, one of them above 0"
            raise DataError(explain("class_counts", rule, f"{counts.dtype} of shape {counts.shape}"))
        parts, flags, base = [*parts, (counts, 32)], _COUNTS, None
    known = None if base is None else [numbers for numbers, _ in _parts(*base)]
    return seal(_MAGIC, parts, public=public, server_round=server_round, own=bits, base=known, flags=flags)


def _parts(codes: NDArray[np.uint8], labels: Labels) -> list[tuple[NDArray[Any], int]]:
    classes = codes.shape[1]
    width = bits_per_label(classes, abstains=True)
    return [(label_codes(labels, classes), width), (codes.T.reshape(-1), RATIO_BITS)]


def decode_ratios(
    payload: NDArray[np.uint8], *, public: PublicSpec, server_round: int, base: Base | None = None
) -> RatioAnswer:
    """Return what a payload of `encode_ratios` says; one of changes may refer to ``base``.

    Raises `PayloadError` with a ``reason`` as `decode_labels`.
    """
    rows, classes = public.num_public, public.num_classes
    opened = unseal(payload, _MAGIC, public=public, server_round=server_round, flags=_COUNTS)
    bits, counted = RATIO_BITS, bool(opened.flags & _COUNTS)
    if opened.own != bits:
        raise reject("bad-payload", "bits of a code", f"be {bits}", opened.own)
    sizes = [(rows, bits_per_label(classes, abstains=True)), (rows * classes, bits), *[(classes, 32)] * counted]
    known = None if base is None else [numbers for numbers, _ in _parts(*base)]
    numbers, codes, *counts = opened.numbers(sizes, known)
    if counts and not plausible(counts[0].astype(np.int64)):
        raise reject("bad-payload", "class counts", f"lie within 0..{MAX_COUNT}, one of them above 0", "others")
    labels = labels_of(numbers, classes, abstains=True)
    codes = codes.reshape(classes, rows).T.astype(np.uint8)
    return RatioAnswer(codes, labels, counts[0].astype(np.int64) if counts else None)


def plausible(counts: NDArray[np.integer[Any]]) -> bool:
    """Tell whether these may be a party's rows of each class."""
    return bool(int(counts.min()) >= 0 and int(counts.max()) <= MAX_COUNT and counts.any())
