"""Probabilities in steps and class counts as named wire arrays: what `fedkd_flwr.labels.probabilities` needs.

Labels do not travel beside them: they are those that the probabilities give among the sender's own class shares. Codes
of density ratios may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.probabilities import BITS, home_labels
from fedkd_flwr.labels.scores import dequantise, quantise
from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.wire.label_codec import PublicSpec, reject
from fedkd_flwr.wire.ratio_codec import MAX_COUNT, decode_ratios, encode_ratios, plausible
from fedkd_flwr.wire.score_codec import decode_scores, encode_scores

__all__ = ["decode", "encode"]

Arrays = Mapping[str, NDArray[Any]]


def encode(values: Arrays, *, public: PublicSpec, server_round: int, base: Arrays) -> dict[str, NDArray[Any]]:
    """Return an answer with ``probs``, steps of `BITS`, as `fedkd_flwr.wire.label_codec.encode_answer` does."""
    at: dict[str, Any] = {"public": public, "server_round": server_round}
    probs = dequantise(values["probs"], BITS)
    arrays = {"probs": encode_scores(probs, kind="probs", bits=BITS, base=base.get("probs"), **at)}
    if "ratios" in values:
        arrays["ratios"] = encode_ratios(values["ratios"], _none(public), base=_codes(base, public), **at)
    return {**arrays, "class-counts": values["class-counts"]}


def decode(
    arrays: Arrays, *, public: PublicSpec, server_round: int, base: Arrays, num_arrays: int | None = None
) -> dict[str, NDArray[Any]]:
    """Return the values of such an answer, as `fedkd_flwr.wire.label_codec.decode_answer` does."""
    at: dict[str, Any] = {"public": public, "server_round": server_round}
    steps = quantise(decode_scores(arrays["probs"], kind="probs", base=base.get("probs"), **at), BITS)
    counts = np.asarray(arrays.get("class-counts"))
    if counts.shape != (public.num_classes,) or counts.dtype.kind not in "iu" or not plausible(counts):
        rule = f"be {public.num_classes} whole numbers within 0..{MAX_COUNT}, one of them above 0"
        raise reject("bad-payload", "class counts", rule, f"{counts.dtype} of shape {counts.shape}")
    counts = counts.astype(np.int64)
    labels = np.repeat(home_labels(steps, counts)[None], num_arrays or 1, axis=0)
    values: dict[str, NDArray[Any]] = {"labels": labels, "probs": steps, "class-counts": counts}
    if "ratios" in arrays:
        values["ratios"] = decode_ratios(arrays["ratios"], base=_codes(base, public), **at).codes
    return values


def _none(public: PublicSpec) -> NDArray[np.int16]:
    return np.full(public.num_public, ABSTAIN, dtype=np.int16)


def _codes(base: Arrays, public: PublicSpec) -> tuple[NDArray[np.uint8], NDArray[np.int16]] | None:
    return (base["ratios"], _none(public)) if "ratios" in base else None
