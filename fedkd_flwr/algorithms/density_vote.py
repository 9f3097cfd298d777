"""Which consensus a round gets where parties may say how much public rows look like theirs: ratios, or labels alone.

The arithmetic is `fedkd_flwr.labels.density`; here stand what parties are asked for, which of them count, and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.density import DensityVote, ratios_of
from fedkd_flwr.labels.voting import Labels

__all__ = ["DENSITY_BITS", "DENSITY_RATIO", "Choice", "PartyRatios", "choose", "density_consensus"]

DENSITY_RATIO = "density-ratio"
"""The consensus, and the word in a node's ``allow`` that lets a party send what it needs."""
DENSITY_BITS = 3
"""Bits of one ratio on the wire."""
_FAR_OFF = 0.12


@dataclass(frozen=True, kw_only=True)
class PartyRatios:
    """What one party says beside its labels.

    Parameters
    ----------
    codes : ndarray of shape (num_public, num_classes), uint8
    bits : int
        Bits of a code.
    class_counts : ndarray of shape (num_classes,), int64
        Its rows of each class, at least one in all.
    """

    codes: NDArray[np.uint8]
    bits: int
    class_counts: NDArray[np.int64]

    @property
    def ratios(self) -> NDArray[np.float64]:
        """The ratios that the codes stand for: (num_public, num_classes)."""
        return ratios_of(self.codes, num_classes=len(self.class_counts), bits=self.bits)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How a consensus is formed, and why.

    Parameters
    ----------
    rule : str
        ``density-ratio``, or a rule on labels.
    reason : str
        Why, as one or more sentences.
    public_fit : mapping of str to float
        By party: how much the public rows resemble its own, 0 for not at all; of parties that sent ratios.
    left_out : tuple of str
        Parties that are so far from the public rows that their ratios do not count.
    """

    rule: str
    reason: str
    public_fit: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def choose(sent: Mapping[str, PartyRatios | None], *, wanted: str, num_classes: int, otherwise: str) -> Choice:
    """Return the rule of a run from what its parties sent in the first round.

    Parameters
    ----------
    sent : mapping of str to PartyRatios or None
        By party; None of a party that sent labels alone.
    wanted : {"auto", "density-ratio"}
        What the run asked for.
    num_classes : int
        Number of classes.
    otherwise : str
        The rule on labels to fall back to.
    """
    ratios = {name: one for name, one in sent.items() if one is not None}
    if not ratios:
        reason = f"None of {len(sent)} parties sent density ratios; a node sends them if its allow names density-ratio."
        return Choice(rule=otherwise, reason=reason)
    fits = {name: public_fit(one) for name, one in ratios.items()}
    far = tuple(name for name, fit in fits.items() if fit < _FAR_OFF)
    if len(far) * 2 > len(sent) or len(far) == len(ratios):
        reason = f"The public rows look like the private rows of {len(ratios) - len(far)} of {len(sent)} parties only."
        return Choice(rule=otherwise, reason=reason, public_fit=fits, left_out=far)
    reason = f"The public rows look like the private rows of {len(ratios) - len(far)} of {len(sent)} parties."
    return Choice(rule=DENSITY_RATIO, reason=reason, public_fit=fits, left_out=far)


def public_fit(said: PartyRatios) -> float:
    """Return how much the public rows resemble a party's own, on average."""
    shares = said.class_counts / said.class_counts.sum()
    return float((said.ratios @ shares).mean())


def density_consensus(sent: Sequence[PartyRatios]) -> tuple[Labels, NDArray[np.float64]]:
    """Return the consensus of parties' ratios, and the winner's share of each row.

    Examples
    --------
    >>> one = PartyRatios(codes=np.array([[7, 0], [0, 0]], np.uint8), bits=3, class_counts=np.array([9, 0]))
    >>> two = PartyRatios(codes=np.array([[0, 0], [0, 6]], np.uint8), bits=3, class_counts=np.array([0, 4]))
    >>> density_consensus([one, two])[0].tolist()
    [0, 1]
    """
    rows, classes = sent[0].codes.shape
    vote = DensityVote(num_public=rows, num_classes=classes)
    for one in sent:
        vote.add(one.ratios, one.class_counts)
    return vote.consensus()
