"""The rounds and the parties of a run, as the run's record holds them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedkd_flwr.files import canonical, without_nan
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.json_text import Number, json_text
from fedkd_flwr.record.notes import DOUBTS, Note, NoteCode
from fedkd_flwr.record.publishable import WITHHELD

__all__ = ["NOT_READY", "PartyRecord", "Rejection", "RoundRecord"]

NOT_READY = "not ready: "
"""Stands before the code of a party that said before the first round that it would refuse it, and was not asked."""


@dataclass(kw_only=True)
class Rejection:
    """A reply that was left out of a round, or a party that did not answer, and the reason."""

    party: str  # "" if the sender gave no name
    node_id: str  # a string, because some JSON readers would round a number this large
    code: str  # a word from fixed lists: an error's code, or why the reply was not valid
    failure: str = ""  # the cause, with file and line of a user's model; simulation and operator only


@dataclass(kw_only=True)
class RoundRecord:
    """One round of the exchange.

    `RunRecord.publishable` says which of these fields may be published; all others are operator only.
    """

    server_round: int  # from 1
    asked: int = 0  # parties; their replies may have left them from then on, whatever became of the run
    asked_at: str = ""  # ISO 8601, UTC: just before the messages left
    ended: bool = True  # False from just before the messages leave until the answers are combined
    answered: list[str] = field(default_factory=list)  # parties whose answers counted
    rejected: list[Rejection] = field(default_factory=list)  # replies that did not, and parties that gave none
    agreement: float | None = None  # mean share of labelled public rows on which a party's label is the consensus
    labelled_share: float | None = None  # share of public rows with a consensus label
    changed_share: float | None = None  # share of labels that parties changed since their last reply
    consensus_accuracy: float | None = None  # share of labels right, where truth is known, but for known-rows
    server_accuracy: float | None = None  # of the server's model after this round, on the common test rows
    kept_share: float | None = None  # share of answers that noise did not change; operator only if it was measured
    accuracy: dict[str, Number] = field(default_factory=dict)  # party -> accuracy of its model this round
    tested: dict[str, int] = field(default_factory=dict)  # party -> number of test rows of that accuracy
    bytes_down: int = 0  # bytes of arrays, all parties together, without Flower's envelope
    bytes_up: int = 0  # the same, from the parties
    seconds: Number = 0.0  # from asking to the combined answer

    def publishable(self, *, covered: bool, at_party: bool) -> RoundRecord:
        """Return what `RunRecord.publishable` leaves of a round.

        ``covered``: a proven claim covers what is computed from the answers; ``at_party``: the answers themselves.
        """
        return RoundRecord(
            server_round=self.server_round,
            asked=self.asked,
            ended=self.ended,
            answered=list(self.answered),
            rejected=[Rejection(party=one.party, node_id="", code=WITHHELD) for one in self.rejected],
            labelled_share=self.labelled_share if covered else None,
            kept_share=self.kept_share if at_party else None,
            bytes_down=self.bytes_down if covered else 0,
            bytes_up=self.bytes_up if at_party else 0,
        )

    def to_json(self) -> tuple[str, bytes]:
        """Return the round as JSON text, indented as in a record, and as the bytes that its digest is made of."""
        values = without_nan(self)
        return textwrap.indent(json_text(values), "  "), canonical(values)

    def line(self, num_rounds: int) -> str:
        """Return the round as one line of the log."""
        count = max(len(self.answered), 1)
        parts = [f"round {self.server_round}/{num_rounds}: {len(self.answered)} of {self.asked} parties answered"]
        if self.agreement is not None:
            parts.append(f"agreement {self.agreement:.3f}")
        if self.labelled_share is not None:
            parts.append(f"labelled {self.labelled_share:.3f}")
        if self.server_accuracy is not None:
            parts.append(f"server's model {self.server_accuracy:.4f}")
        if self.consensus_accuracy is not None:
            parts.append(f"consensus accuracy {self.consensus_accuracy:.3f}")
        if self.accuracy:
            values = list(self.accuracy.values())
            parts.append(f"accuracy {sum(values) / len(values):.3f} ({min(values):.3f}-{max(values):.3f})")
        parts.append(f"{self.bytes_up / count / 1e3:.1f} KB up, {self.bytes_down / count / 1e3:.1f} KB down a party")
        parts.append(f"{self.seconds:.1f} s")
        return " | ".join(parts)


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
    class_agreement: list[Number] = field(default_factory=list)  # in that round, on the rows of each class

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
