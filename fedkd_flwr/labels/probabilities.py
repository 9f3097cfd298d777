"""Probabilities: a party also says how likely each class is in each public row, and what its own class shares are.

A model that learnt from rows of which a share q_c has class c answers ``p(c | x) ∝ q_c f_c(x)``. Divided by the shares,
what is left is about the densities f_c alone, which all parties estimate, each from its own rows. The server averages
their logarithms, each party by what its rows can tell: from n_c rows of each class the logarithm of a density ratio is
known up to a variance of about 1 / n_c + 1 / n_c', so the average is weighted by the Fisher information of the classes'
counts, ``diag(n) - n n' / sum(n)``. For two classes a party weighs ``n_0 n_1 / (n_0 + n_1)``. Who holds one class only
tells nothing, and a class that a party lacks is left to the others.

Where no party holds two classes, nobody knows their ratio. So parties that let out density ratios send them too, and
all density ratios together count as one more party: one that holds every class, and whose rows weigh three tenths of
all parties' rows, for they compare models of different parties. On even rows this changes little. Then the
federation's shares are put back once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.choice import MIN_COVERAGE
from fedkd_flwr.labels.density import POWER, DensityVote, mixture
from fedkd_flwr.labels.priors import PSEUDO_COUNT, class_shares, posteriors
from fedkd_flwr.labels.ratios import public_fit, ratios_of
from fedkd_flwr.labels.scores import dequantise, quantise
from fedkd_flwr.labels.trust import label_trusts
from fedkd_flwr.labels.voting import Ballot, Consensus, ConsensusRule, Labels, Majority, is_informative, majority

__all__ = ["BITS", "Probabilities", "home_labels", "joined", "likelihood_steps", "sharpened"]

BITS = 4
"""Of a probability that leaves."""
_LEAST = 0.25  # of a step: what all probabilities of no step together stand for
_MOST_TOLD = 10.0  # times the median party's rows: what one party's counts may weigh
_OTHER_SHARES = 0.2  # of the public rows of other classes than the parties tell: then both estimates count alike
# What density ratios weigh beside probabilities, and the density that is added to all, so that none is 0. Chosen on
# Adult and cod-rna, seeds 101 to 104: .1 and .03 were worse at Dirichlet .1, a density of .3 or 1 everywhere.
_RATIOS_WEIGH, _LEAST_DENSITY = 0.3, 0.1
_UNLABELLED = 0.1  # of the rows not of the commonest class (Adult, seeds 611 to 613: 0 cost forests accuracy)


def likelihood_steps(
    probs: NDArray[np.floating], *, taught: NDArray[np.floating], class_counts: NDArray[np.integer]
) -> NDArray[np.uint8]:
    """Return what a party says of public rows: probabilities as if its classes were equally frequent, in steps.

    Steps, (num_rows, num_classes) uint8, are those of `quantise` with `BITS`. A class of which it has no row gets none:
    what it says is about its other classes. ``probs``, (num_rows, num_classes), are its model's, which learnt with
    class shares ``taught``; ``class_counts`` are its rows of each class. Beside them `PSEUDO_COUNT` rows of each class
    are counted in every probability, so that 0 is rare and not impossible.

    One row in ten is ill, and a row that is ill with probability one half says a lot:

    >>> probs, taught = np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0.9, 0.1])
    >>> likelihood_steps(probs, taught=taught, class_counts=np.array([900, 100])).tolist()
    [[2, 13], [7, 8]]
    """
    own = posteriors(probs, taught=taught, shares=class_shares(class_counts))
    found = (own * class_counts.sum() + PSEUDO_COUNT) / (class_counts + PSEUDO_COUNT)
    found[:, class_counts == 0] = 0
    return quantise(found / found.sum(axis=1, keepdims=True), BITS)


def home_labels(steps: NDArray[np.integer], class_counts: NDArray[np.integer]) -> Labels:
    """Return the label of each row, (num_rows,) int16, that steps of `likelihood_steps` give among the party's own.

    >>> home_labels(np.array([[1, 14], [7, 8]]), np.array([900, 100])).tolist()
    [1, 0]
    """
    return np.asarray((_likelihoods(steps) * class_shares(class_counts)).argmax(axis=1).astype(np.int16))


def joined(
    likelihoods: Sequence[NDArray[np.floating]], class_counts: NDArray[np.floating], shares: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return the probability of each class in each row, (num_rows, num_classes), from what all parties say.

    ``likelihoods``, each (num_rows, num_classes), are > 0, in any unit a row; ``class_counts``, (num_parties,
    num_classes), what each party's rows of each class weigh; ``shares``, (num_classes,), those of the population that
    is asked about.

    The second party knows one class only, and changes nothing:

    >>> said = [np.array([[1.0, 6.0], [1.0, 1.0]]), np.array([[9.0, 1.0], [9.0, 1.0]])]
    >>> joined(said, np.array([[900.0, 100.0], [50.0, 0.0]]), np.array([0.9, 0.1])).round(2).tolist()
    [[0.6, 0.4], [0.9, 0.1]]
    """
    total, sums = np.zeros((len(shares), len(shares))), np.zeros(likelihoods[0].shape)
    for said, counts in zip(likelihoods, class_counts, strict=True):
        told = np.diag(counts) - np.outer(counts, counts) / max(counts.sum(), 1e-12)
        total += told
        sums += np.log(said) @ told
    odds = sums @ np.linalg.pinv(total, hermitian=True) + np.log(shares)
    found = np.exp(odds - odds.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def sharpened(probs: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities of drawn rows whose likelihoods are raised to the least power that labels enough rows.

    Columns that are drawn one by one seldom all point to the rarer class. Enough: the labels' class shares differ from
    ``shares`` by a tenth of what the commonest class leaves, or by as little as powers up to 4 can make it.
    """
    each = [_raised(probs, shares, power, shares) for power in np.linspace(1.0, 4.0, 31)]
    labelled = np.array([np.bincount(one.argmax(axis=1), minlength=len(shares)) / len(one) for one in each])
    apart = np.abs(labelled - shares).sum(axis=1) / 2
    return each[int(np.maximum(apart, _UNLABELLED * (1 - shares.max())).argmin())]


def _raised(
    probs: NDArray[np.float64], taught: NDArray[np.float64], power: float, shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the probabilities for these class shares whose likelihoods are raised to a power."""
    found = shares * (probs / taught) ** power
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _likelihoods(steps: NDArray[np.integer]) -> NDArray[np.float64]:
    least = _LEAST / (2**BITS - 1) / (steps.shape[1] - 1)
    return np.asarray(np.maximum(dequantise(steps, BITS).astype(np.float64), least))


@dataclass(frozen=True)
class Probabilities(ConsensusRule):
    """The most probable class, and how probable each is, for the federation's class shares."""

    name: ClassVar[str] = "probabilities"
    asks: ClassVar[str] = "probabilities"
    needs: ClassVar[tuple[str, ...]] = ("probs", "class-counts")
    speaker: ClassVar[str] = "fedkd_flwr.clients.rule_answers:say_probabilities"
    codec: ClassVar[str] = "fedkd_flwr.wire.prob_codec"
    of_model: ClassVar[bool] = True
    by_send: ClassVar[bool] = True
    shares: tuple[float, ...] = ()  # those with which public rows were drawn, where they were

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the posterior of the parties that sent probabilities; the majority where most sent labels alone."""
        said, num_parties = ballot.beside, len(ballot.parties)
        reason = f"{len(said)} of {num_parties} parties sent probabilities"
        if 2 * len(said) < max(num_parties, 1):
            reason += ", so the majority of the labels counts: a node's allow-vote-rules must name probabilities."
            found = Majority().combine(ballot, config=config, rng=rng).labels
            return Consensus(found, rule=Majority.name, reason=reason)
        likelihoods = [_likelihoods(one["probs"]) for one in said.values()]
        counts = np.array([one["class-counts"] for one in said.values()], dtype=np.float64)
        sizes = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        trusts = None
        if config.weighs_by_trust:
            counts *= np.minimum(1.0, _MOST_TOLD * np.median(sizes) / sizes)
            shares = class_shares(counts.sum(axis=0))
            heard = [(one * shares).argmax(axis=1).astype(np.int16) for one in likelihoods]
            trusts = label_trusts(heard, num_classes=len(shares))
        if trusts is not None:  # who gives one class to all rows cannot be judged, so it weighs no more than most
            usual = np.minimum(1.0, np.median(sizes) / np.maximum(counts.sum(axis=1), 1.0))
            counts *= np.where([is_informative(one) for one in heard], trusts, usual)[:, None]
        vote = DensityVote(num_public=len(ballot.votes), num_classes=counts.shape[1], robust=config.robust_sum)
        of_party: dict[str, dict[str, Any]] = {}
        for party, one in said.items():
            of_party[party] = {"class_counts": one["class-counts"].tolist()}
            if "ratios" in one:
                ratios = ratios_of(one["ratios"])
                vote.add(ratios, one["class-counts"])
                of_party[party]["public_fit"] = public_fit(ratios, one["class-counts"])
        if vote.coverage() >= MIN_COVERAGE:
            likelihoods.append(vote.densities() + _LEAST_DENSITY)
            counts = np.vstack((counts, _RATIOS_WEIGH * counts.sum(axis=0)))
        shares = np.array(self.shares) if self.shares else class_shares(counts.sum(axis=0))
        probs = joined(likelihoods, counts, shares)
        public_shares = mixture(probs / shares, shares)
        # what models say that are sure of nothing is most likely with a class or two alone: labels must differ too
        labelled = np.eye(len(shares))[probs.argmax(axis=1)].mean(axis=0)
        differ = min(np.abs(found - shares).sum() / 2 for found in (public_shares, labelled))
        if self.shares:
            probs = sharpened(probs, shares)
        else:
            others = config.weighs_by_trust and differ > _OTHER_SHARES
            probs = _raised(probs, shares, POWER, (shares + public_shares) / 2 if others else shares)
        return Consensus(
            majority(probs, ties=config.ties, rng=rng),
            rule=self.name,
            reason=f"{reason}; each party's class shares are divided out, and the federation's put back.",
            by_votes=False,
            of_party=of_party,
            trusts=None if trusts is None else dict(zip(said, trusts.tolist(), strict=True)),
            probs=probs,
        )
