"""What the averages of a round teach a party that sends scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.score_exchange import ScoreExchangeConfig
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.wire.score_codec import decode_scores

__all__ = ["Lesson", "averages", "nothing_more", "taught_by"]


class Lesson(NamedTuple):
    """What the last round's averages teach: public rows (n, d), targets (n, C), and the loss to compare with."""

    X: NDArray[Any]
    targets: NDArray[np.floating[Any]]
    loss: str


def nothing_more(instruction: Instruction) -> bool:
    """Tell whether the run is at its end: nothing more is asked."""
    return "indices" not in instruction.arrays


def averages(party: Party, instruction: Instruction, count: int, *, name: str = "") -> NDArray[np.float32]:
    """Return the averages of ``count`` rows that come under ``name``; by default under that of their kind."""
    kind = instruction.config.kind
    name = name or kind
    if name not in instruction.arrays:
        raise PayloadError(explain("payload", f"hold {name} of the last rows", sorted(instruction.arrays)))
    spec, at = party.spec.rows(count), instruction.server_round
    return decode_scores(instruction.arrays[name], public=spec, server_round=at, kind=kind)


def taught_by(
    party: Party, rows: NDArray[np.int64], targets: NDArray[np.float32], config: ScoreExchangeConfig
) -> Lesson:
    """Return the lesson of averages (num_rows, num_classes) of these public rows."""
    if config.kind == "logits" and config.loss != "l1-logits":
        shifted = np.exp(targets.astype(np.float64) - targets.max(axis=1, keepdims=True))
        targets = (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)
    return Lesson(X=party.public.X[rows], targets=targets, loss=config.loss)
