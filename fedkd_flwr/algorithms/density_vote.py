"""Which consensus a round gets where parties may say how much public rows look like theirs: ratios, or labels alone.

The arithmetic is `fedkd_flwr.labels.density`; here stand what parties are asked for, which of them count, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.auto import choose_rule, label_skew
from fedkd_flwr.labels.density import DensityVote, Robust, default_ratio_bits, public_fit, ratios_of
from fedkd_flwr.labels.voting import ABSTAIN, Labels

__all__ = ["DENSITY_RATIO", "Choice", "PartyRatios", "choose"]

DENSITY_RATIO = "density-ratio"
"""The consensus, and the word in a node's ``allow`` that lets a party send what it needs."""


@dataclass(frozen=True, kw_only=True)
class PartyRatios:
    """What one party says beside its labels.

    Parameters
    ----------
    codes : ndarray of shape (num_public, num_classes), uint8
        Of `default_ratio_bits` bits.
    class_counts : ndarray of shape (num_classes,), int64
        Its rows of each class, at least one in all.
    """

    codes: NDArray[np.uint8]
    class_counts: NDArray[np.int64]

    @property
    def labels(self) -> Labels:
        """The class that each public row most looks like, ``ABSTAIN`` where it looks like none: (num_public,)."""
        return np.where(self.codes.any(axis=1), self.codes.argmax(axis=1), ABSTAIN).astype(np.int16)

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The ratios that the codes stand for: (num_public, num_classes)."""
        count = len(self.class_counts)
        return ratios_of(self.codes, num_classes=count, bits=default_ratio_bits(count))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which rule a consensus takes, and why.

    Parameters
    ----------
    rule : str
        ``density-ratio``, ``dawid-skene`` or ``majority``.
    reason : str
        Why, as sentences.
    labels : ndarray of shape (num_public,), int16, or None
        The consensus, where the rule is ``density-ratio``; ``ABSTAIN`` where a row looks like nobody's data.
    public_fit : mapping of str to float
        By party: how much of its rows the public rows show it, 0 to 1; of parties that sent ratios.
    trust : mapping of str to float
        By party: how far the others confirm it, 0 to 1; where the rule is ``density-ratio``.
    """

    rule: str
    reason: str
    labels: Labels | None = None
    public_fit: Mapping[str, float] = field(default_factory=dict)
    trust: Mapping[str, float] = field(default_factory=dict)


def choose(
    sent: Mapping[str, PartyRatios],
    *,
    num_parties: int,
    votes: NDArray[np.integer],
    may_estimate: bool,
    demanded: bool = False,
    robust: Robust = "trust",
) -> Choice:
    """Return the rule that a round's answers support, and the consensus where it is that of ratios.

    Parameters
    ----------
    sent : mapping of str to PartyRatios
        By party, in the order of names, of those that sent ratios.
    num_parties : int
        Parties that answered, with ratios or without.
    votes : ndarray of shape (num_classes,), int
        Labels of each class, of all parties together: what is known of class shares where nobody sent counts.
    may_estimate : bool
        Whether the algorithm can take Dawid-Skene.
    demanded : bool
        Whether the run asks for density ratios, so that they vote wherever the public rows allow it.
    robust : {"trust", "trimmed", "none"}
        As in `fedkd_flwr.labels.density.DensityVote`.

    Examples
    --------
    Two parties of one class each; two bits a ratio, because there are two classes:

    >>> one = PartyRatios(codes=np.array([[3, 0], [0, 0]], np.uint8), class_counts=np.array([9, 0]))
    >>> two = PartyRatios(codes=np.array([[0, 0], [0, 3]], np.uint8), class_counts=np.array([0, 4]))
    >>> found = choose({"a": one, "b": two}, num_parties=2, votes=np.array([2, 2]), may_estimate=True)
    >>> found.rule, found.labels.tolist()
    ('density-ratio', [0, 1])
    >>> choose({}, num_parties=2, votes=np.array([2, 2]), may_estimate=True).rule
    'majority'
    """
    num_classes, vote = len(votes), None
    fits: dict[str, float] = {}
    for name, said in sent.items():
        ratios = said.ratios
        if vote is None:
            vote = DensityVote(num_public=len(ratios), num_classes=num_classes, robust=robust)
        vote.add(ratios, said.class_counts)
        fits[name] = public_fit(ratios, said.class_counts)
    enough = vote is not None and 2 * len(sent) >= num_parties
    counts = np.array([said.class_counts for said in sent.values()]) if enough else None
    rule, reason = choose_rule(
        num_classes=num_classes,
        class_counts=votes if counts is None else counts.sum(axis=0),
        skew=None if counts is None or demanded else label_skew(counts),
        coverage=vote.coverage() if vote is not None and enough else None,
        may_estimate=may_estimate,
        some_ratios=bool(sent),
    )
    if silent := num_parties - len(sent):
        reason += f" {silent} of {num_parties} parties sent no density ratios: a node's allow must name density-ratio."
    if rule != DENSITY_RATIO or vote is None:
        return Choice(rule=rule, reason=reason, public_fit=fits)
    labels, _ = vote.consensus()
    trust = dict(zip(sent, vote.trusts().tolist(), strict=True))
    return Choice(rule=rule, reason=reason, labels=labels, public_fit=fits, trust=trust)
