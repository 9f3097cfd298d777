"""One party of a run, as the run's record holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.notes import DOUBTS, Note, NoteCode

__all__ = ["PartyRecord"]


@dataclass(kw_only=True)
class PartyRecord:
    """How good one party's models are: alone (SOLO) and with the federation. Operator only, except for ``name, model``.

    The keys of ``solo`` and ``federated`` say on which test rows they were measured: ``"common"`` or ``"own"``.
    """

    name: str  # unique in the federation
    model: str = ""  # its model's name
    solo: dict[str, Metrics] = field(default_factory=dict)  # of its model trained alone, by test rows
    federated: dict[str, Metrics] = field(default_factory=dict)  # of its model with the federation, by test rows
    model_bytes: int | None = None  # size of its model as one upload
    class_counts: list[int] = field(default_factory=list)  # its private rows by class, where they are known
    notes: list[Note] = field(default_factory=list)  # warnings about this party
    public_fit: float | None = None  # how much of its rows the public rows show it, as its density ratios say
    trust: float | None = None  # the least that its answers counted in a round, 0 to 1; None: that could not be told
    agreement: float | None = None  # least share of labelled public rows on which its labels were a round's consensus
    class_agreement: list[float] = field(default_factory=list)  # in that round, on the rows of each class

    def report(self, metrics: Mapping[str, Any], *, num_classes: int) -> None:
        """Store what the party reported at the end. What has a wrong type, size or range is left out, with a note."""
        self.model = str(metrics.get("model", ""))[:200]
        for kind, measured in (("solo", self.solo), ("federated", self.federated)):
            for rows in ("common", "own"):
                if (sent := metrics.get(f"{kind}-{rows}")) is None:
                    continue
                if (found := Metrics.opened(sent, num_classes=num_classes)) is not None:
                    measured[rows] = found
                else:
                    self.notes.append(Note(NoteCode.BAD_METRICS, {"metrics": f"{kind}-{rows}"}))
        size = metrics.get("model-bytes")
        self.model_bytes = size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**50 else None

    def doubt(self, note: Note) -> None:
        """Note that its answers are not confirmed, in place of what an earlier round said of that (`DOUBTS`)."""
        self.notes = [*(old for old in self.notes if old.code not in DOUBTS), note]
