"""What comes back teaches a party: the averages of a round of scores, or final labels with their probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.score_exchange import ScoreExchangeConfig
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.wire.score_codec import decode_scores

__all__ = ["Lesson", "averages", "fit_both", "nothing_more", "soft_labels", "taught_by"]


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


def soft_labels(party: Party, instruction: Instruction) -> NDArray[np.float64] | None:
    """Return the probability of each class in each public row, (num_public, num_classes), where they came along."""
    if "probs" not in instruction.arrays or instruction.labels is None:
        return None
    spec, at = party.spec, instruction.server_round
    probs = decode_scores(instruction.arrays["probs"], public=spec, server_round=at, kind="probs").astype(np.float64)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def fit_both(
    model: Classifier, party: Party, instruction: Instruction, probs: NDArray[np.float64] | None
) -> Classifier:
    """Fit a model on own rows and labelled public rows: with their probabilities where known, else their labels."""
    X, y, labels = party.X, party.y, instruction.labels
    if labels is None or not (labelled := labels != ABSTAIN).any():
        return model.fit(X, y)
    X = np.concatenate([X, party.public.X[labelled]])
    if probs is None:
        return model.fit(X, np.concatenate([y, labels[labelled]]))
    return model.fit_soft(X, np.concatenate([np.eye(model.num_classes)[y], probs[labelled]]))


def taught_by(
    party: Party, rows: NDArray[np.int64], targets: NDArray[np.float32], config: ScoreExchangeConfig
) -> Lesson:
    """Return the lesson of averages (num_rows, num_classes) of these public rows."""
    return Lesson(X=party.public.X[rows], targets=targets, loss=config.loss)
