"""Density-ratio votes at the server: the parties' ratios add up to the density of a class among all private rows."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.confirmed import Said, alone, at_odds, can_tell, confirmed_by_ratios, contradicted, trusts
from fedkd_flwr.labels.ratios import check_counts
from fedkd_flwr.labels.voting import ABSTAIN, Labels

__all__ = ["POWER", "DensityVote", "Robust", "most_probable"]

Robust = Literal["trust", "none"]
"""Whether parties count by how far the others confirm them, or by their rows alone."""

_NOBODYS = 0.02  # the sum of all densities below which a row has no label
_FAMILIAR = 0.5  # of the public density: a row that is at least so dense among a party's own rows looks like them
_MOST_LIFT = 4.0  # of a class whose ratios are too small on average
_MOST_TOLD = 10.0  # times the median party's weight: what one party's counts may say of the class shares
# How much likelier a public row is under other class shares where it has them, in nats: at most .046 where it had not
# (22 tables of other people, seed 31, tried by hand), mostly more where .3 was added to a class's share.
_OTHER_SHARES = 0.05
_MIXTURE_STEPS = 100
_LEAST_LABELLED = 0.5  # of the rows that have a label without trust
# Added to the densities of all classes together, and the power that undoes what averaging parties takes from a row's
# odds: both chosen on 22 of the tables of benchmarks/others.py, seed 31.
_LEAST_DENSITIES, POWER = 0.2, 1.3
_MOST_BIAS, _FITTING_STEPS = float(np.log(1.25)), 20


class _Answer(NamedTuple):
    """A party's densities, ``share of c x ratio of c``: places in the flat (row, class) array, and values."""

    places: NDArray[np.signedinteger[Any]]
    values: NDArray[np.float32]
    class_counts: NDArray[np.int64]


class DensityVote:
    """Takes the ratios of one party after the other, then finds the class that is densest at each public row.

    ``S_c = sum_k w_k share_kc g_k r_kc / sum_k w_k share_kc g_k``, and the label is the most probable class
    (`probabilities`). What one of three parties or more can gain by lying is bounded (of two, the one that says it has
    many more rows decides wherever they differ):

    - its weight ``w_k`` is the root of its number of rows, and at most that of the median party;
    - a class's ratios are divided by their mean over the public rows, which is 1 for honest ones (where the mean is
      below 1 they are raised, at most fourfold);
    - its trust ``g_k`` is ``min(1, 2 t_k / median t)^2``, where t_k is how far the others, weighed by their own t,
      confirm its densities (`confirmed_by_ratios` in `fedkd_flwr.labels.confirmed`). Whom most others contradict about
      rows that they are sure of has none (`contradicted` there), or where nobody is, who is at odds with most judges
      (`at_odds`). Who alone knows a class that is an equal share of its rows, or more, keeps its trust (`alone`). Where
      less than half of those not contradicted are confirmed, or more than half of the rows would have no label, only
      the contradicted lose it, and nobody does where more than half of the rows would have no label because of these.

    The class shares are those of the rows, of which no party counts for more than ten times the median weight. When the
    shares of the public rows are estimated is told in docs/understand/density-ratios.md: of more than two classes
    never, for the ratios decide nearly alone, and liars could move the estimate. Memory is 8 bytes for each ratio above
    0 in the codes, because trust looks at all answers often.

    With ``robust="none"`` weights are the numbers of rows and every trust is 1: for parties that cannot lie.

    The first party holds class 0 alone and knows the first row; the second holds class 1 and knows the second row.
    Nobody knows the third:

    >>> vote = DensityVote(num_public=3, num_classes=2)
    >>> vote.add(np.array([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), np.array([30, 0]))
    >>> vote.add(np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([0, 10]))
    >>> most_probable(vote.probabilities()).tolist()
    [0, 1, -1]
    """

    def __init__(self, *, num_public: int, num_classes: int, robust: Robust = "trust") -> None:
        self._shape = num_public, num_classes
        self._robust = check_choice("robust", robust, get_args(Robust))
        self._answers: list[_Answer] = []
        self._familiar = np.zeros(num_public, dtype=np.bool_)  # rows about as dense among a party's as among the public
        self._place_type = np.int32 if num_public * num_classes < 2**31 else np.int64
        self._trusts: NDArray[np.float64] | None = None  # of the answers so far, once asked for
        self._tells = True  # whether enough was confirmed then to estimate class shares of two

    def add(self, ratios: NDArray[np.floating], class_counts: NDArray[np.integer]) -> None:
        """Add one party's ratios (num_public, num_classes) and its rows of each class (num_classes,).

        Raises `DataError` if shapes do not fit, a ratio is not within 0..2 C, or a count is negative.
        """
        num_classes = self._shape[1]
        counts = check_counts(class_counts, num_classes)
        ratios = np.asarray(ratios, dtype=np.float64)
        if ratios.shape != self._shape:
            raise DataError(explain("ratios", f"have shape {self._shape}", f"shape {ratios.shape}"))
        places = np.flatnonzero(ratios)  # few: all that follows is about them
        values = ratios.reshape(-1)[places]
        if not ((values >= 0) & (values <= 2.0 * num_classes)).all():
            raise DataError(explain("ratios", f"lie within 0..{2 * num_classes}", "a value outside, or NaN"))
        self._trusts = None
        rows, classes = np.divmod(places, num_classes)
        means = np.bincount(classes, weights=values, minlength=num_classes) / len(ratios)
        factors = np.minimum(1.0 / np.maximum(means, 1.0 / _MOST_LIFT), _MOST_LIFT)
        shares = counts / max(counts.sum(), 1)
        alike = np.bincount(rows, values * (np.minimum(factors, 1.0) * shares)[classes], minlength=len(ratios))
        self._familiar |= alike >= _FAMILIAR
        held = shares[classes] > 0
        self._answers.append(
            _Answer(
                places=places[held].astype(self._place_type),
                values=(values * (factors * shares)[classes])[held].astype(np.float32),
                class_counts=counts,
            )
        )

    def coverage(self) -> float:
        """Return the share of the public rows that look like the rows of at least one party: the guard's figure.

        It was at least 0.79 on rows from the parties' domain, whatever the learner and the skew, and 0 for forests on
        digits whose pixels are scaled by 0.7. A liar can raise it.
        """
        return float(self._familiar.mean())

    def trusts(self) -> NDArray[np.float64]:
        """Return what each party's answers count, in the order of `add`: (num_parties,), within [0, 1]."""
        if self._trusts is None:
            self._trusts, self._tells = self._found_trusts()
        return self._trusts

    def _found_trusts(self) -> tuple[NDArray[np.float64], bool]:
        if self._robust != "trust" or len(self._answers) < 3:
            return np.ones(len(self._answers)), True  # two that contradict each other accuse each other alike
        num_public, num_classes = self._shape
        # who has an equal share of its rows in a class judges it fully
        shares = [num_classes * one.class_counts / max(one.class_counts.sum(), 1) for one in self._answers]
        said = [Said(one.places, one.values, np.minimum(s, 1.0)) for one, s in zip(self._answers, shares, strict=True)]
        weights = self._weights() / max(float(np.median(self._weights())), 1e-12)
        surely = contradicted(said, num_public=num_public, weights=weights)
        said, own = [one.capped() for one in said], alone(said)
        outvoted = surely if surely.any() else at_odds(said, num_public=num_public, weights=weights)
        found = confirmed_by_ratios(said, num_public=num_public, weights=np.where(outvoted, 0.0, weights))
        counted, heads, everybody = np.zeros(len(found)), np.where(surely, 0.0, 1.0), np.ones(len(found))
        counted[~outvoted] = trusts(found[~outvoted])
        counted[own] = heads[own] = 1.0
        tells = can_tell(np.where(outvoted, 0.0, found)[~surely])
        if not tells or self._labelled(counted) < _LEAST_LABELLED * self._labelled(heads):
            counted = heads
        if self._labelled(counted) < _LEAST_LABELLED * self._labelled(everybody):
            counted = everybody
        return counted, tells

    def _labelled(self, counted: NDArray[np.float64]) -> float:
        """Return the share of rows that have a label where parties count so much."""
        num_public, num_classes = self._shape
        total, weights = np.zeros(num_public), self._weights() * counted
        for weight, answer in zip(weights, self._answers, strict=True):
            total += weight * np.bincount(answer.places // num_classes, answer.values, minlength=num_public)
        return float((total > _NOBODYS * weights.sum()).mean())

    def densities(self) -> NDArray[np.float64]:
        """Return S_c of each row: (num_public, num_classes) float64, 0 or more, about 1 on average."""
        return self._found()[0]

    def probabilities(self) -> NDArray[np.float64]:
        """Return the probability of each class in each row, (num_public, num_classes), with the parties' class shares.

        It is ``m_c b_c (S_c + .2 / C)^1.3`` over its sum. m_c is the share of class c in all rows; b_c, .8 to 1.25,
        brings the mean of its probabilities to that. In a row without a label all classes are alike.
        """
        densities, shares = self._found()
        if len(shares) == 2 and self._tells:
            # a density has mean 1 over the public rows, whatever they are: of two, the larger would pass for the share
            even = densities / np.maximum(densities.mean(axis=0), 1e-300)
            public_shares, known = mixture(even, shares), even[even.sum(axis=1) > 0]
            gains = np.log(np.maximum(known @ public_shares, 1e-3) / np.maximum(known @ shares, 1e-3))
            if gains.sum() > _OTHER_SHARES * len(known):
                shares = (shares + public_shares) / 2
        labelled = (densities * shares).sum(axis=1) > _NOBODYS
        found = np.full(self._shape, 1 / len(shares))
        if labelled.any():
            found[labelled] = _with_shares((densities[labelled] + _LEAST_DENSITIES / len(shares)) ** POWER, shares)
        return found

    def _found(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each class's density S_c at each row, and its bounded share of rows."""
        num_public, num_classes = self._shape
        sums = np.zeros(num_public * num_classes)
        weights, trusts = self._weights(), self.trusts()
        class_weights, told = np.zeros(num_classes), np.zeros(num_classes)
        for weight, trust, answer in zip(weights, trusts, self._answers, strict=True):
            size = max(int(answer.class_counts.sum()), 1)
            sums[answer.places] += weight * trust * answer.values
            class_weights += weight * trust * answer.class_counts / size
            told += min(size, _MOST_TOLD * float(np.median(weights))) * trust * answer.class_counts / size
        ratios = sums.reshape(self._shape) / np.maximum(class_weights, 1e-300)  # S_c
        return ratios, told / max(told.sum(), 1e-300)

    def _weights(self) -> NDArray[np.float64]:
        sizes = np.array([answer.class_counts.sum() for answer in self._answers], dtype=np.float64)
        if self._robust == "none" or not sizes.size:
            return sizes
        median = float(np.median(sizes))
        return np.minimum(np.sqrt(sizes * median), median)


def mixture(ratios: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the class shares under which the public rows are most likely (EM from ``shares``)."""
    ratios = ratios[ratios.sum(axis=1) > 0]
    if not len(ratios):
        return shares
    found = np.where(shares > 0, np.maximum(shares, 1e-6), 0.0)
    for _ in range(_MIXTURE_STEPS):
        parts = found * ratios
        found = (parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
    return found


def most_probable(probs: NDArray[np.float64]) -> Labels:
    """Return the most probable class of each row, (num_public,) int16; ``ABSTAIN`` where all are equally probable."""
    labelled = probs.max(axis=1) > probs.min(axis=1)
    return np.where(labelled, probs.argmax(axis=1), ABSTAIN).astype(np.int16)


def _with_shares(densities: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return densities as probabilities of mean ``shares``, as far as factors of .8 to 1.25 make it."""
    densities = densities * shares
    bias = np.zeros(len(shares))
    for _ in range(_FITTING_STEPS):
        found = densities * np.exp(bias)
        found /= found.sum(axis=1, keepdims=True)
        gap = np.log(np.maximum(shares, 1e-12) / np.maximum(found.mean(axis=0), 1e-12))
        bias = np.clip(bias + gap, -_MOST_BIAS, _MOST_BIAS)
    return np.asarray(found)
