"""Noisy voting as one plan: which noise, how many queries, what is released, and what that costs together.

The same plan serves the server (FedKT L1, PATE: one party changes) and a party (FedKT L2: one record changes); only
the mechanism's ``votes`` differs: how many votes one neighbouring change moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice, check_whole
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.voting import Ties, majority
from fedkd_flwr.privacy.noise.none import NoNoise
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax

__all__ = ["NOISES", "NoisyAnswers", "NoisyVotes", "QuietVotes", "make_noise"]

NOISES = ("laplace", "gaussian", "confident-gaussian")
Noise = LaplaceMax | GaussianMax | ConfidentGaussianMax


@dataclass(frozen=True, kw_only=True)
class NoisyAnswers:
    """What noisy voting let out."""

    labels: NDArray[np.int16]  # (num_queries,): the noisy winners; ``ABSTAIN`` where no answer was given
    counts: NDArray[np.float64] | None = None  # (num_queries, num_classes): the noisy counts, where they are released


@dataclass(frozen=True, kw_only=True)
class NoisyVotes:
    """A plan made before any vote is seen.

    Formal guarantees: for two vote tables that differ, in each row, by at most ``mechanism.votes`` votes moved from
    one class to another (or withdrawn, or added), what `ask` returns is as private as `events` say. Queries must be
    chosen without looking at votes.

    Noisy counts tell more than the winners and cost the same, but for a `LaplaceMax` with ``winner_of_two``, which is
    cheaper and releases no counts.
    """

    adds_noise: ClassVar[Literal[True]] = True
    mechanism: Noise
    num_queries: int  # public rows asked, >= 1
    release: Literal["labels", "counts"] = "labels"  # the noisy winners, or the noisy counts

    def __post_init__(self) -> None:
        check_whole("num_queries", self.num_queries, 1)
        check_choice("release", self.release, ("labels", "counts"))
        if self.release == "counts":
            if isinstance(self.mechanism, ConfidentGaussianMax):
                way_out = 'Use noise "gaussian", or release "labels".'
                raise ConfigError(explain("release", 'be "labels" with confident-gaussian', self.release, way_out))
            if getattr(self.mechanism, "winner_of_two", False):
                way_out = 'Use a mechanism without it, or release "labels".'
                raise ConfigError(explain("release", 'be "labels" with winner_of_two', self.release, way_out))

    def events(self, times: int = 1) -> list[tuple[Any, int]]:
        """Return what is released, as (event, how often); ``times`` such plans on the same data compose."""
        return [(self.mechanism.dp_event(), self.num_queries * times)]

    @property
    def words(self) -> str:
        """The plan in words, for claims."""
        what = "noisy counts" if self.release == "counts" else "noisy winners"
        return f"{self.mechanism.words}, {self.num_queries} queries, {what} released"

    def ask(self, counts: NDArray[np.integer[Any]], *, rng: np.random.Generator | None = None) -> NoisyAnswers:
        """Answer the queries.

        ``counts``, of shape (num_queries, num_classes), integer, are the true votes on the queried rows,
        ``mechanism.counts_per_vote`` for each; `ConfigError` or `DataError` is raised for another number of rows, or
        anything but vote counts. ``rng`` is for tests: seeded noise protects nothing.
        """
        if len(counts) != self.num_queries:
            raise ConfigError(explain("counts", f"have {self.num_queries} rows", len(counts)))
        if self.release == "labels" or isinstance(self.mechanism, ConfidentGaussianMax):
            return NoisyAnswers(labels=self.mechanism.privatize(counts, rng=rng))
        noisy = self.mechanism.noisy_counts(counts, rng=rng)
        return NoisyAnswers(labels=noisy.argmax(axis=1).astype(np.int16), counts=noisy)


@dataclass(frozen=True, kw_only=True)
class QuietVotes:
    """The plan that adds nothing: every winner comes out as it is, and nothing is promised.

    >>> QuietVotes(num_queries=2, ties="lowest").ask(np.array([[1, 1], [0, 0]])).labels.tolist()
    [0, -1]
    """

    adds_noise: ClassVar[Literal[False]] = False
    mechanism: ClassVar[NoNoise] = NoNoise()
    release: ClassVar[Literal["labels"]] = "labels"
    words: ClassVar[str] = NoNoise.words
    num_queries: int
    ties: Ties

    def events(self, times: int = 1) -> list[tuple[Any, int]]:
        """Return what is released: answers that no bound holds for."""
        return [(self.mechanism.dp_event(), self.num_queries * times)]

    def ask(self, counts: NDArray[np.integer[Any]], *, rng: np.random.Generator | None = None) -> NoisyAnswers:
        """Return the winners; ``rng`` breaks ties."""
        return NoisyAnswers(labels=majority(counts, ties=self.ties, rng=rng))


def make_noise(
    noise: str,
    *,
    strength: float,
    votes: int = 1,
    counts_per_vote: int = 1,
    threshold: float = 0.0,
    winner_of_two: bool = False,
) -> Noise:
    """Return the mechanism called ``noise``, one of `NOISES`; parameters it does not take are ignored.

    ``strength`` is `LaplaceMax`'s gamma or the others' sigma; the noise on the threshold is three times the answers',
    as PATE 2018 uses about 3 to 4 times. The others are as in these classes, in whole votes. Raises `ConfigError` if
    the name is unknown, or a parameter it takes is out of range.

    >>> make_noise("laplace", votes=2, strength=0.04).words
    'noisy max, Laplace noise of scale 25 votes (gamma 0.04), 2 votes may move'
    """
    check_choice("noise", noise, NOISES)
    counted = {"votes": votes, "counts_per_vote": counts_per_vote}
    if noise == "laplace":
        return LaplaceMax(gamma=strength, winner_of_two=winner_of_two, **counted)
    if noise == "gaussian":
        return GaussianMax(sigma=strength, **counted)
    return ConfidentGaussianMax(threshold=threshold, sigma_threshold=3 * strength, sigma=strength, **counted)
