"""What one party's replies said, opened as the server opens them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.audit.membership import Answers, log_odds
from fedkd_flwr.baselines.trees import NAMES, Trees
from fedkd_flwr.errors import PayloadError
from fedkd_flwr.labels.probabilities import BITS
from fedkd_flwr.labels.scores import quantise
from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.wire.label_codec import PublicSpec, decode_labels
from fedkd_flwr.wire.ratio_codec import decode_ratios
from fedkd_flwr.wire.records import Reply, numbered_arrays
from fedkd_flwr.wire.score_codec import KINDS, decode_rows, decode_scores

__all__ = ["Transcript"]


@dataclass(kw_only=True)
class Transcript:
    """What left one party in a run; what its replies said of public rows is in ``answers``, ratios in ``ratios``."""

    spec: PublicSpec  # the public set its answers are about
    kinds: set[str] = field(default_factory=set)  # names of what its replies held; and ``control, not read``
    weights: list[list[NDArray[Any]]] = field(default_factory=list)  # the nets they held, in order
    trees: list[Trees] = field(default_factory=list)  # of each round
    class_counts: NDArray[np.float64] | None = None  # (num_classes,): its rows of each class, where it said so
    refused: list[str] = field(default_factory=list)  # the codes of replies that were none

    def __post_init__(self) -> None:
        shape = self.spec.num_public, self.spec.num_classes
        # a round may bring ratios and the next labels alone: of one kind, numbers can be compared between runs
        self.answers, self.ratios = Answers(*shape), Answers(*shape)
        self._base: dict[str, NDArray[Any]] = {}

    def add(self, reply: Reply, *, asked: dict[str, NDArray[Any]], server_round: int) -> None:
        """Open one reply to an instruction that brought the arrays ``asked``.

        Raises `PayloadError` if the reply cannot be opened, or is of a kind that this audit cannot read.
        """
        if reply.code:
            self.refused.append(reply.code)
            return
        if set(reply.arrays) == set(NAMES):
            self.kinds.add("trees")
            self.trees.append(dict(reply.arrays))
            return
        if "ratios" not in reply.arrays:
            self._base.pop("ratios", None)
        for name in dict.fromkeys(name.partition(".")[0] for name in reply.arrays):
            if name == _UNREAD:
                self.kinds.add(f"{name}, not read")
                continue
            self.kinds.add(name)
            if name == "class-counts":
                self._count(reply.arrays[name])
            elif name == "ratios":
                self._ratios(reply.arrays[name], server_round)
            elif name == "model":
                self.weights.append(numbered_arrays(reply.arrays, name))
            else:
                rows = _rows(asked, self.spec.num_public)
                try:
                    said = self._opened(name, reply.arrays[name], len(rows), server_round)
                except PayloadError as error:
                    if error.reason != "wrong-length" or len(rows) == self.spec.num_public:
                        raise
                    # FedKT's teachers are asked about these rows, and its students label all
                    rows = np.arange(self.spec.num_public)
                    said = self._opened(name, reply.arrays[name], len(rows), server_round)
                self.answers.add(rows, log_odds(said, name))

    def _count(self, counts: NDArray[Any]) -> None:
        if self.class_counts is None:  # as the server: the first holds
            self.class_counts = counts.astype(np.float64)

    def _ratios(self, payload: NDArray[Any], at: int) -> None:
        """Add the codes of density ratios, which are steps of their logarithm, and the labels beside them."""
        base = (self._base["ratios"], self._base["labels"][0]) if "ratios" in self._base else None
        said = decode_ratios(payload, public=self.spec, server_round=at, base=base)
        self._base |= {"ratios": said.codes, "labels": said.labels[None]}
        rows = np.arange(self.spec.num_public)
        if (said.labels != ABSTAIN).any():  # beside probabilities none come with them
            self.kinds.add("labels")
            self.answers.add(rows, self._votes(said.labels[None]))
        if said.class_counts is not None:
            self.kinds.add("class-counts")
            self._count(said.class_counts)
        self.ratios.add(rows, said.codes.astype(np.float64))

    def _opened(self, name: str, payload: NDArray[Any], count: int, at: int) -> NDArray[Any]:
        """Return the answers of one payload as numbers: (count, num_classes)."""
        spec = self.spec.rows(count)
        if name in KINDS:
            said = decode_scores(payload, public=spec, server_round=at, kind=name, base=self._base.get(name))
            if name == "probs" and count == self.spec.num_public:  # a later answer may give changes to it
                self._base[name] = quantise(said, BITS)
            return said
        if name not in ("labels", "bits"):
            raise PayloadError(f"This audit cannot read replies that hold {name!r}.")
        base = self._base.get(name)
        if name == "labels" and "ratios" in self._base:  # further students' labels, beside the first's
            base = None if base is None else np.repeat(base[:1], max(int(payload[10]), 1), axis=0)
        labels = decode_labels(payload, public=spec.bits if name == "bits" else spec, server_round=at, base=base)
        if "ratios" not in self._base:
            self._base[name] = labels
        if name == "bits":
            return labels.reshape(count, spec.num_classes).astype(np.float64)
        return self._votes(labels)

    def _votes(self, labels: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return labels as numbers: several students' count as their mean, no label as none of the classes."""
        return np.stack([(labels == c).mean(axis=0) for c in range(self.spec.num_classes)], axis=1)


_UNREAD = "control"
"""What leaves beside weights in SCAFFOLD and this audit does not use: its figures are those of the weights."""


def _rows(asked: dict[str, NDArray[Any]], num_public: int) -> NDArray[np.int64]:
    """Return the public rows that an instruction asks about; all where it names none."""
    if "indices" not in asked:
        return np.arange(num_public)
    rows = asked["indices"]
    return decode_rows(rows, num_public=num_public) if rows.dtype == np.uint8 else rows.astype(np.int64)
