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
