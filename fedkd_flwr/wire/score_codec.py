"""Class probabilities, logits and scores as bytes.

The header's own number is the bits per number (low byte) and the kind (high byte). The numbers are float16 or float32,
row by row; or, with 8 bits or fewer, probabilities in steps (`fedkd_flwr.labels.scores.quantise`), class by class
without the last, which has the steps that are left.

| kind | a row is |
|---|---|
| `probs` | probabilities: each within [0, 1], their sum 1 |
| `logits` | any finite numbers |
| `scores` | any finite numbers, such as probabilities with noise added, which need not sum to 1 |
"""

from __future__ import annotations

import zlib
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import DataError, PayloadError, explain
from fedkd_flwr.labels.scores import dequantise, quantise
from fedkd_flwr.wire.label_codec import PublicSpec, inflate, reject, seal, unseal

__all__ = ["KINDS", "SoftKind", "check_scores", "decode_rows", "decode_scores", "encode_rows", "encode_scores"]

SoftKind = Literal["probs", "logits", "scores"]
KINDS: tuple[SoftKind, ...] = ("probs", "logits", "scores")
_MAGIC = b"FS"
_TYPES = {16: "<f2", 32: "<f4"}
_SLACK = {16: 2.0**-10, 32: 2.0**-20}  # upper bound of the rounding error of one probability


def check_scores(values: NDArray[Any], *, public: PublicSpec, kind: SoftKind, slack: float = 2.0**-20) -> None:
    """Raise `DataError`, naming the first rule they break, unless the values are of this kind for these rows.

    Floats of shape (num_public, num_classes) are wanted; ``slack`` bounds the rounding error of one probability.
    """
    check_choice("kind", kind, KINDS, error=DataError)
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
    allowed = min(slack * public.num_classes, 0.5)  # of 1,024 classes at 16 bits a sum of 0 would pass
    if not (np.abs(sums - 1) <= allowed).all():
        row = int(np.argmax(np.abs(sums - 1)))
        raise DataError(explain("probs", "sum to 1 in every row", f"{sums[row]:.6g} in row {row}"))


def encode_scores(
    values: NDArray[Any],
    *,
    public: PublicSpec,
    server_round: int,
    kind: SoftKind,
    bits: int = 32,
    base: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Return scores as bytes for the wire: (num_bytes,) uint8.

    ``values``, (num_public, num_classes), are finite floats; with 16 ``bits`` those beyond float16's range become its
    largest. 8 bits or fewer are for probabilities alone; of ``base`` then, steps of earlier answers that the receiver
    holds, (num_public, num_classes) uint8, only the differences are sent. Raises `DataError` for anything else.
    """
    check_scores(values, public=public, kind=kind)
    check_choice("bits", bits, (16, 32, *range(1, 9)) if kind == "probs" else (16, 32), error=DataError)
    own = KINDS.index(kind) << 8 | bits
    at: dict[str, Any] = {"public": public, "server_round": server_round, "own": own}
    if bits in _TYPES:
        limit = float(np.finfo(_TYPES[bits]).max)
        floats = np.clip(values, -limit, limit).astype(_TYPES[bits]).reshape(-1)
        return seal(_MAGIC, [(floats.view(f"<u{bits // 8}"), bits)], level=6, **at)
    known = None if base is None else [_but_last(base)]
    return seal(_MAGIC, [(_but_last(quantise(values, bits)), bits)], base=known, **at)


def _but_last(steps: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return steps class by class, flat, without those of the last class."""
    return steps.T[:-1].reshape(-1)


def decode_scores(
    payload: NDArray[np.uint8],
    *,
    public: PublicSpec,
    server_round: int,
    kind: SoftKind,
    base: NDArray[np.uint8] | None = None,
) -> NDArray[np.float32]:
    """Return the scores of a payload: (num_public, num_classes) float32; ``probs`` are scaled to a sum of 1.

    A payload of changes may refer to ``base``, steps of earlier answers. Raises `PayloadError` with a ``reason`` as
    `decode_labels`, or ``not-a-number``.
    """
    opened = unseal(payload, _MAGIC, public=public, server_round=server_round)
    number, bits = divmod(opened.own, 256)
    if number != KINDS.index(kind):
        raise reject("bad-payload", "payload", f"hold {kind}", number)
    rows, columns = public.num_public, public.num_classes - (bits not in _TYPES)
    if bits in _TYPES:
        [floats] = opened.numbers([(rows * columns, bits)])
        values = floats.view(_TYPES[bits]).reshape(rows, columns).astype(np.float32)
    elif kind == "probs" and 1 <= bits <= 8:
        [steps] = opened.numbers([(rows * columns, bits)], None if base is None else [_but_last(base)])
        steps = steps.reshape(columns, rows).T.astype(np.int64)
        values = dequantise(np.column_stack((steps, 2**bits - 1 - steps.sum(axis=1))), bits)
    else:
        raise reject("bad-payload", "bits per number", "be 16, 32, or for probabilities 1 to 8", bits)
    try:
        check_scores(values, public=public, kind=kind, slack=_SLACK.get(bits, 2.0**-20))
    except DataError as error:
        reason = "bad-payload" if np.isfinite(values).all() else "not-a-number"
        raise PayloadError(str(error), reason=reason) from None
    if kind == "probs":
        values = np.maximum(values, 0)
        values = values / values.sum(axis=1, keepdims=True)
    return values


def encode_rows(rows: NDArray[np.integer[Any]], *, num_public: int) -> NDArray[np.uint8]:
    """Return row numbers as bytes for the wire: (num_bytes,) uint8.

    ``rows`` are at least one, ascending and different, below ``num_public``, or `DataError` is raised.

    >>> decode_rows(encode_rows(np.array([1, 4]), num_public=6), num_public=6).tolist()
    [1, 4]
    """
    rows = np.asarray(rows)
    ascending = rows.ndim == 1 and rows.dtype.kind in "iu" and bool((np.diff(rows.astype(np.int64)) > 0).all())
    if not (ascending and len(rows) and rows[0] >= 0 and rows[-1] < num_public):
        raise DataError(explain("rows", f"be different numbers below {num_public}, ascending", f"{rows[:5]} ..."))
    meant = np.zeros(num_public, dtype=np.uint8)
    meant[rows] = 1
    return np.frombuffer(zlib.compress(np.packbits(meant).tobytes(), 9), dtype=np.uint8)


def decode_rows(payload: NDArray[np.uint8], *, num_public: int) -> NDArray[np.int64]:
    """Return the row numbers of a payload, (num_rows,) int64, ascending, or raise `PayloadError`."""
    if payload.dtype != np.uint8 or payload.ndim != 1:
        raise reject("bad-payload", "rows", "be a flat uint8 array", f"{payload.dtype} of shape {payload.shape}")
    size = (num_public + 7) // 8
    bitmap = inflate(payload.tobytes(), size)
    rows = np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8))).astype(np.int64)
    if len(bitmap) != size or not (len(rows) and rows[-1] < num_public):
        raise reject("wrong-length", "rows", f"be some of {num_public}", f"{len(rows)}, up to {rows[-1:].tolist()}")
    return rows
