"""The seam of a vote: what a rule sees of a round, what it returns, and what it may need beside labels.

A rule is one file of this room and one name in `fedkd_flwr.labels.rules`: a class with `ConsensusRule.combine`. One
that needs more than labels says under which names it travels (`ConsensusRule.needs`), and which function makes it at a
party (`ConsensusRule.speaker`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.voting import Labels

__all__ = ["Ballot", "Consensus", "ConsensusRule"]


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """What the parties of one round said, and how it was counted.

    Parameters
    ----------
    parties : sequence of str
        Their names, in their order.
    labels : sequence of ndarray of shape (num_arrays, num_public), int16
        Each party's label arrays, as they came.
    votes : ndarray of shape (num_public, num_classes)
        Votes as they were counted, whatever one party's vote counts.
    true_votes : ndarray of shape (num_public, num_classes)
        The same without what the parties' noise adds; `votes` themselves where there is none.
    num_votes : int
        What all parties together cast on a row.
    counted : sequence of bool
        Whose votes count for anything.
    beside : mapping of str to mapping
        By party: what it sent beside its labels, by payload name; of those that did.
    last : bool
        Whether a row that gets no label now never gets one, because no round follows.
    """

    parties: Sequence[str]
    labels: Sequence[Labels]
    votes: NDArray[Any]
    true_votes: NDArray[Any]
    num_votes: int
    counted: Sequence[bool]
    beside: Mapping[str, Mapping[str, NDArray[Any]]] = field(default_factory=dict)
    last: bool = False


@dataclass(frozen=True, kw_only=False)
class Consensus:
    """What a rule makes of a ballot.

    Parameters
    ----------
    labels : ndarray of shape (num_public,), int16
        The consensus; ``ABSTAIN`` where a row has no label.
    rule : str
        The rule that was taken, where the ballot decided between several; else "".
    reason : str
        Why, as sentences.
    by_votes : bool
        Whether the votes made it, so that what happened to them is worth a note.
    of_party : mapping of str to mapping
        By party: what the rule found about it, by the names of the run record's fields.
    trusts : mapping of str to float, optional
        By party: how far the others confirm it, 0 to 1; None where that was not asked.
    probs : ndarray of shape (num_public, num_classes), float64, optional
        The probability of each class in rows that have a label; None where the rule knows none.
    """

    labels: Labels
    rule: str = ""
    reason: str = ""
    by_votes: bool = True
    of_party: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trusts: Mapping[str, float] | None = None
    probs: NDArray[np.float64] | None = None


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
    """Turns it into bytes with the labels: a module, see `fedkd_flwr.wire.answer_codec`."""
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
