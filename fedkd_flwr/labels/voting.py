"""From label arrays to votes, and what a rule makes of them: the form of all rules, and the simplest one, majority.

Votes are counted streaming: memory is O(num_public * num_classes), whatever the number of parties.

A rule is one file of this room and one name in `fedkd_flwr.labels.rules`: a class with `ConsensusRule.combine`. One
that needs more than labels says under which names it travels (`ConsensusRule.needs`), and which function makes it at a
party (`ConsensusRule.speaker`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, ConfigError, DataError, explain

__all__ = [
    "ABSTAIN",
    "HALF",
    "Ballot",
    "Consensus",
    "ConsensusRule",
    "Labels",
    "Majority",
    "Ties",
    "Uninformative",
    "VoteCounter",
    "agreement",
    "check_labels",
    "consistent_labels",
    "is_informative",
    "majority",
    "voter_weights",
]

ABSTAIN = -1
"""The label of a public row on which somebody has no vote."""

Uninformative = Literal["count", "half", "leave-out"]
"""What becomes of the votes of a party that gives one class to every public row."""

HALF = 2
"""Votes are counted in halves: this many make one."""

Labels = NDArray[np.int16]
"""Integer class labels of public rows, ``ABSTAIN`` where there is none."""


def check_labels(
    labels: NDArray[Any],
    *,
    num_classes: int,
    num_rows: int | None = None,
    name: str = "labels",
    least: int = ABSTAIN,
    way_out: str = "Use the schema's classes.",
) -> Labels:
    """Return ``labels`` as int16 after checking shape, type and range: the one check of label arrays.

    They are of shape (num_rows,) or (num_arrays, num_rows), of any shape where ``num_rows`` is None, and within
    ``least``..num_classes-1: `ABSTAIN` where a row may have no label, else 0. ``name`` is what messages call the array,
    ``way_out`` what those on a wrong type or class advise.

    Raises `DataError` if the array has another length, holds something other than whole numbers, or a class out of
    range; then with the code ``class-outside-schema``, and naming the first such row.
    """
    array = np.asarray(labels)
    if num_rows is not None and (array.ndim not in (1, 2) or array.shape[-1] != num_rows):
        rule = f"be {num_rows} labels, one for each row in their order"
        raise DataError(explain(name, rule, f"shape {array.shape}"))
    if array.dtype.kind not in "iu":
        raise DataError(explain(name, "hold integers", f"dtype {array.dtype}", way_out))
    if array.size and not (array.min() >= least and array.max() < num_classes):
        outside = np.argwhere((array < least) | (array >= num_classes))
        count = len(outside)
        seen = f"{array[tuple(outside[0])]} at row {outside[0][-1]} ({count} such row{'s' * (count > 1)})"
        rule = f"lie within {least}..{num_classes - 1}"
        raise DataError(explain(name, rule, seen, way_out), code=Code.CLASS_OUTSIDE_SCHEMA)
    return array.astype(np.int16, copy=False)


def consistent_labels(students: NDArray[np.integer[Any]]) -> Labels:
    """Keep the label of a row where all of one party's students agree, else abstain (FedKT, Algorithm 1).

    >>> consistent_labels(np.array([[0, 1, 2], [0, 2, 2]])).tolist()
    [0, -1, 2]
    """
    first = students[0]
    return np.where((students == first).all(axis=0), first, ABSTAIN).astype(np.int16)


def is_informative(labels: NDArray[np.integer[Any]]) -> bool:
    """Tell whether a party's labels say anything: at least two different classes among its votes.

    A party whose private rows are nearly all of one class gives that class to every public row. This looks at
    the party's own labels only, so leaving it out changes no other party's votes.
    """
    cast = labels[labels != ABSTAIN]
    return bool(cast.size and (cast != cast.flat[0]).any())


def voter_weights(answers: Sequence[NDArray[np.integer[Any]]], *, uninformative: Uninformative) -> list[int]:
    """Return the weight of each party's votes, in half votes: a function of its own labels alone.

    A party without information shifts every row's vote by the same amount. Counting it in full drowns a rare class,
    leaving it out lets that class win where many such parties hold the frequent one; half is steadier than either on
    the published Adult partitions (10 seeds: 81.3, 81.4 and 81.8 %, and the worst of the ten 81.1, 79.0 and 81.6 %).

    >>> votes = [np.array([[0, 1]]), np.array([[1, 1]])]
    >>> [voter_weights(votes, uninformative=rule) for rule in ("count", "half", "leave-out")]
    [[2, 2], [2, 1], [2, 0]]
    """
    weight = {"count": HALF, "half": 1, "leave-out": 0}[uninformative]
    return [HALF if is_informative(labels) else weight for labels in answers]


def agreement(labels: Labels, consensus: Labels) -> float:
    """Return the share of labelled rows on which ``labels`` give the consensus; NaN if no row is labelled."""
    labelled = consensus != ABSTAIN
    return float((labels[labelled] == consensus[labelled]).mean()) if labelled.any() else float("nan")


def share_right(labels: NDArray[np.integer[Any]], truth: Labels) -> float | None:
    """Return the share of labels that are true; None where that is known of none. Labels below 0 are left out."""
    both = (labels >= 0) & (truth != ABSTAIN)
    return float((labels[both] == truth[both]).mean()) if both.any() else None


_MOST_GATHERED = 255  # votes that one byte holds


class VoteCounter:
    """Counts votes per public row and class, one party after the other.

    ``votes``, (num_public, num_classes) int32, are those so far; ``class_voters``, (num_classes,) int32, how many
    parties gave each class to at least one row. Three voters, three rows:

    >>> counter = VoteCounter(num_public=3, num_classes=2)
    >>> for labels in ([0, 1, 1], [0, 0, 1], [0, 1, -1]):
    ...     counter.add(np.array(labels, dtype=np.int16))
    >>> counter.votes.tolist()
    [[3, 0], [1, 2], [0, 2]]
    """

    def __init__(self, *, num_public: int, num_classes: int) -> None:
        if not num_public >= 1:
            raise DataError(explain("num_public", "be >= 1", num_public, "Give a public set with rows."))
        if not num_classes >= 2:
            raise DataError(explain("num_classes", "be >= 2", num_classes, "One class leaves nothing to learn."))
        self.class_voters = np.zeros(num_classes, dtype=np.int32)
        self._votes = np.zeros((num_public, num_classes), dtype=np.int32)
        # Votes of one weight gather in one byte for each class and row, class by class: numpy adds many of those at a
        # time, which is several times as fast as finding the place of each vote (benchmarks/aggregation.py).
        self._gathered = np.zeros((num_classes, num_public), dtype=np.uint8)
        self._gave = np.empty(num_public, dtype=np.bool_)
        self._voters_gathered, self._weight = 0, 1

    @property
    def votes(self) -> NDArray[np.int32]:
        """Votes so far: (num_public, num_classes)."""
        self._settle()
        return self._votes

    def add(self, labels: Labels, *, weight: int = 1) -> None:
        """Count one label array; ``weight`` votes for each label that is not ``ABSTAIN``."""
        num_public, num_classes = self._votes.shape
        labels = check_labels(labels, num_rows=num_public, num_classes=num_classes)
        if weight != self._weight or self._voters_gathered == _MOST_GATHERED:
            self._settle()
            self._weight = weight
        for c, votes in enumerate(self._gathered):
            np.equal(labels, c, out=self._gave)
            if self._gave.any():
                self.class_voters[c] += 1
                votes += self._gave.view(np.uint8)
        self._voters_gathered += 1

    def _settle(self) -> None:
        if self._voters_gathered:
            self._votes += self._gathered.T * np.int32(self._weight)
            self._gathered.fill(0)
            self._voters_gathered = 0


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """What the parties of one round said, and how it was counted."""

    parties: Sequence[str]  # their names, in their order
    labels: Sequence[Labels]  # each party's label arrays, (num_arrays, num_public), as they came
    votes: NDArray[Any]  # (num_public, num_classes): as they were counted, whatever one party's vote counts
    true_votes: NDArray[Any]  # the same without what the parties' noise adds; `votes` themselves where there is none
    num_votes: int  # what all parties together cast on a row
    counted: Sequence[bool]  # whose votes count for anything
    # by party: what it sent beside its labels, by payload name; of those that did
    beside: Mapping[str, Mapping[str, NDArray[Any]]] = field(default_factory=dict)
    last: bool = False  # whether a row that gets no label now never gets one, because no round follows


@dataclass(frozen=True, kw_only=False)
class Consensus:
    """What a rule makes of a ballot."""

    labels: Labels  # (num_public,): the consensus; ``ABSTAIN`` where a row has no label
    rule: str = ""  # the rule that was taken, where the ballot decided between several
    reason: str = ""  # why, as sentences
    by_votes: bool = True  # whether the votes made it, so that what happened to them is worth a note
    # by party: what the rule found about it, by the names of the run record's fields
    of_party: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trusts: Mapping[str, float] | None = None  # by party: how far the others confirm it, 0 to 1; None: not asked
    probs: NDArray[np.float64] | None = None  # (num_public, num_classes): of rows with a label; None: not known


class ConsensusRule(ABC):
    """One way in which answers become a consensus."""

    name: ClassVar[str]
    """Its name in run configs; where it needs more than labels also in a node's ``allow-vote-rules``."""
    asks: ClassVar[str] = ""
    """The rule whose needs parties are asked for: its own name, that of another rule, or "" for labels alone."""
    needs: ClassVar[tuple[str, ...]] = ()
    """What a party sends beside its labels, by payload name."""
    once: ClassVar[tuple[str, ...]] = ()
    """What of it a party says once: the first holds for the whole run."""
    speaker: ClassVar[str] = ""
    """Makes it at a party: a function ``package.module:name``, see `fedkd_flwr.clients.rule_answers`."""
    codec: ClassVar[str] = ""
    """Turns it into bytes with the labels: a module, see `fedkd_flwr.wire.label_codec`."""
    of_model: ClassVar[bool] = False
    """Whether what is needed is what the party's own model says, of whatever kind that is."""
    by_send: ClassVar[bool] = False
    """Whether the setting ``send`` of its name takes it, and ``consensus`` does not name it."""
    abstains: ClassVar[bool] = False
    """Whether it leaves rows for a later round, so that algorithms of one round do not take it."""
    of_order: ClassVar[bool] = False
    """Whether it reads classes as ordered, the lowest first."""
    reads_labels: ClassVar[bool] = False
    """Whether it needs each party's labels, and not only how many votes a class has."""

    @abstractmethod
    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the consensus; ``config.ties`` says how ``rng`` breaks equal votes."""

    def also_named(self, beside: Mapping[str, NDArray[Any]]) -> Labels | None:
        """Return labels that what a party sent beside its own names, (num_public,); None where it names none."""
        return None


Ties = Literal["random", "lowest"]


def majority(votes: NDArray[Any], *, ties: Ties = "random", rng: np.random.Generator | None = None) -> Labels:
    """Return the class with most votes for each row, (num_public,) int16; ``ABSTAIN`` where a row has no votes.

    ``votes``, (num_public, num_classes), are counts, or any scores >= 0. Ties are broken at random with ``rng``, or by
    the lowest class index, as published codes do.

    >>> majority(np.array([[2, 1], [0, 3], [0, 0], [1, 1]]), ties="lowest").tolist()
    [0, 1, -1, 0]
    """
    top = votes.max(axis=1)
    labels: Labels = votes.argmax(axis=1).astype(np.int16)
    if ties == "random":
        if rng is None:
            raise ConfigError(explain("rng", "be a numpy Generator for random ties", rng, 'Or use ties="lowest".'))
        is_top = votes == top[:, None]
        tied = np.flatnonzero(is_top.sum(axis=1) > 1)
        # among tied classes the one with the largest uniform draw wins: each is equally likely
        draws = rng.random((tied.size, votes.shape[1]))
        labels[tied] = np.where(is_top[tied], draws, -1.0).argmax(axis=1)
    elif ties != "lowest":
        raise ConfigError(explain("ties", 'be "random" or "lowest"', ties))
    labels[top <= 0] = ABSTAIN
    return labels


class Majority(ConsensusRule):
    """The class with most votes, of whatever number. Noise adds the same to all classes, so it decides nothing here."""

    name: ClassVar[str] = "majority"

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the majority of the votes as they came."""
        return Consensus(majority(ballot.votes, ties=config.ties, rng=rng))
