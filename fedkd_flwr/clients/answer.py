"""What a party's algorithm hands back in one visit: its answer to a round, and what it is left with at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.models.classifier import Classifier

__all__ = ["Answer", "DumpedModel", "Finished"]


@dataclass(frozen=True)
class DumpedModel:
    """A model as the process that trained it wrote it; nothing needs to read it here."""

    data: bytes  # as `fedkd_flwr.models.serialize.dumps` writes them; empty for a model that no safe format holds
    weight: int = 0  # bytes of an upload; 0 where nobody asked


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a party learnt in one visit. None of it has left yet."""

    # what the reply is made from, by payload name: ``labels`` (num_arrays, num_rows), ``probs``, ``logits``, ...
    values: Mapping[str, NDArray[Any]]
    # as `Party.progress` makes them. They leave only if the party shares its accuracy.
    metrics: Mapping[str, float] = field(default_factory=dict)
    # codes of what the server should know (``fewer-subsets``, ``state-lost``); beside a claim made at the party they
    # stay
    notes: Sequence[str] = ()
    model: Classifier | DumpedModel | None = None  # kept for the next round
    # arrays kept for the next round: `Saved.arrays` holds them under these names
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)  # plain values kept for the next round
    failure: str = ""  # why this is a fixed answer. It leaves in simulation only.


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a party is left with at the end."""

    model: Classifier | DumpedModel  # its model
    # how good a model of the same kind is that learnt from its own rows alone (SOLO), by test rows
    solo: Mapping[str, Metrics]
    learnt: bool = True  # whether ``model`` learnt from the final labels; else it is the one trained alone
    federated: Mapping[str, Metrics] | None = None  # how good ``model`` is; None where nobody has measured it yet
    # the model that learnt from its own rows alone; None where ``model`` is that one
    alone: Classifier | DumpedModel | None = None
