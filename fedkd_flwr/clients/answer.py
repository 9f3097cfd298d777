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
    """A model as the process that trained it wrote it; nothing needs to read it here.

    Parameters
    ----------
    data : bytes
        As `fedkd_flwr.models.serialize.dumps` writes them; empty for a model that no safe format holds.
    weight : int
        Bytes of an upload; 0 where nobody asked.
    """

    data: bytes
    weight: int = 0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a party learnt in one visit. None of it has left yet.

    Parameters
    ----------
    values : mapping of str to ndarray
        What the reply is made from, by payload name: ``labels`` (num_arrays, num_rows), ``probs``, ``logits``, ...
    metrics : mapping of str to float
        As `Party.progress` makes them. They leave only if the party shares its accuracy.
    notes : sequence of str
        Codes of what the server should know (``fewer-subsets``, ``state-lost``); beside a claim made at the party they
        stay.
    model : Classifier or DumpedModel, optional
        Kept for the next round.
    kept : mapping of str to ndarray
        Arrays kept for the next round: `Saved.arrays` holds them under these names.
    meta : mapping
        Plain values kept for the next round.
    failure : str
        Why this is a fixed answer. It leaves in simulation only.
    """

    values: Mapping[str, NDArray[Any]]
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    model: Classifier | DumpedModel | None = None
    kept: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a party is left with at the end.

    Parameters
    ----------
    model : Classifier or DumpedModel
        Its model.
    solo : mapping of str to Metrics
        How good a model of the same kind is that learnt from its own rows alone (SOLO), by test rows.
    learnt : bool
        Whether ``model`` learnt from the final labels; else it is the one trained alone.
    federated : mapping of str to Metrics, optional
        How good ``model`` is; None where nobody has measured it yet.
    alone : Classifier or DumpedModel, optional
        The model that learnt from its own rows alone; None where ``model`` is that one.
    """

    model: Classifier | DumpedModel
    solo: Mapping[str, Metrics]
    learnt: bool = True
    federated: Mapping[str, Metrics] | None = None
    alone: Classifier | DumpedModel | None = None
