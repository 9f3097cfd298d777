"""One round of votes that leaves the server a model of its own: what FedKT and PATE have in common."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import PAPER, setting
from fedkd_flwr.algorithms.exchange import EpsilonConfig, VotersConfig
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.rules import LastRuleName
from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.privacy.noise.plan import NOISES, NoisyAnswers, NoisyVotes, QuietVotes, make_noise

__all__ = ["OneShotVoteConfig", "aggregate", "fit_as_long", "fit_pooled", "kept"]


class OneShotVoteConfig(VotersConfig, EpsilonConfig):
    """Settings of an exchange that ends in a model at the server."""

    consensus: LastRuleName = setting("auto", first=True)
    """How the parties' answers become the server's labels, in FedKT and PATE. density-ratio also needs the parties'
    ratios and class counts, which a node sends only if its allow-vote-rules names density-ratio. auto: density-ratio
    where the public rows resemble the parties' own; majority elsewhere, and beside noise. With known-rows these choose
    between that rule, the vote by known rows and the server's own forest. median and mean are for grades and numbers,
    for which auto takes the mean in place of the majority."""
    party_models: bool = setting(True, told=True, section=PAPER)
    """Whether parties fit models of their own on the final labels. The papers of FedKT and PATE have the server's model
    alone."""
    noise: Literal["none", "laplace", "gaussian", "confident-gaussian"] = setting("none", told=True, first=True)
    """Noise on the counts of votes: in FedKT and PATE."""
    threshold: float = setting(0.0, ge=0, told=True, only={"noise": ("confident-gaussian",)}, zero="none")
    """With confident-gaussian noise: a public row gets a label where its largest count, plus three times as much noise,
    reaches so many votes."""
    num_queries: int = setting(0, ge=0, told=True, only={"noise": NOISES}, zero="all")
    """With noise on votes: how many public rows are asked, drawn before any vote is seen. all: each one."""
    learn_from: Literal["labels", "counts"] = setting("labels", told=True, only={"noise": ("laplace", "gaussian")})
    """With noise on votes: learn from the noisy winners (labels) or the noisy counts, which tell more. They cost the
    same; with Laplace noise on two classes winners cost less."""

    @property
    def votes_per_party(self) -> int:
        """How many votes one party casts on a row."""
        return 1

    def check(self) -> None:
        """Refuse a noise without a strength, or without the threshold it takes."""
        super().check()
        if self.noise == "confident-gaussian" and not self.threshold:
            way_out = "Give the votes a class must have to be answered, say 0.6 of all."
            raise ConfigError(explain(self.keys()["threshold"], f"be > 0 with noise {self.noise!r}", 0.0, way_out))
        if self.noise != "none":  # an algorithm says itself where it lacks one
            self.check_given()

    def plan(self, *, votes: int, num_public: int, num_classes: int, times: int = 1, unit: int = 1) -> NoisyVotes:
        """Return the noisy vote these settings ask for, where one neighbouring change moves ``votes`` votes.

        With two classes, Laplace noise and labels alone released, a query costs less. ``epsilon`` covers ``times`` such
        votes on the same data together; ``unit`` counted units make one vote.
        """
        queries = self.num_queries or num_public
        if not queries <= num_public:
            way_out = f"Lower num-queries to at most {num_public}."
            raise ConfigError(explain("num-queries", f"be at most {num_public} (public rows)", queries, way_out))
        counted: dict[str, Any] = {"votes": votes, "counts_per_vote": unit, "threshold": self.threshold}
        if self.noise == "laplace":
            counted["winner_of_two"] = num_classes == 2 and self.learn_from == "labels"
        if self.noise_strength:  # always so at a party, which is told no epsilon
            mechanism: Any = make_noise(self.noise, strength=self.noise_strength, **counted)
        else:
            from fedkd_flwr.privacy.cost.calibration import calibrate_votes

            counted |= {"epsilon": self.epsilon, "delta": self.delta}
            mechanism = calibrate_votes(self.noise, num_queries=queries * times, **counted)
        return NoisyVotes(mechanism=mechanism, num_queries=queries, release=self.learn_from)

    def server_plan(self, num_public: int, num_classes: int) -> NoisyVotes | QuietVotes:
        """Return what the server does to the parties' votes."""
        if self.privacy != "server":
            return QuietVotes(num_queries=num_public, ties=self.ties)
        return self.plan(votes=self.votes_per_party, num_public=num_public, num_classes=num_classes, unit=self.unit)

    def quiet(self) -> dict[str, Any]:
        """Return the default of every setting that speaks of noise."""
        names = ("noise", "noise_strength", "threshold", "num_queries", "learn_from", "epsilon", "delta")
        return {name: self.default(name) for name in names}

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings as parties are told them: noise at the server is the server's own affair."""
        return self.changed(**self.quiet())


def aggregate(
    votes: NDArray[np.int32],
    *,
    config: OneShotVoteConfig,
    rng: np.random.Generator,
    queries: NDArray[np.int64] | None = None,
    noise_rng: np.random.Generator | None = None,
) -> NoisyAnswers:
    """Return what the server learns from: the winner of each asked row, or noisy counts.

    Without noise the answers are of all rows, ``ABSTAIN`` where a row has no vote, and ``rng`` breaks ties. ``votes``,
    (num_public, num_classes), are as `fedkd_flwr.algorithms.exchange.tally` counts them; ``queries``, (num_queries,),
    are the rows asked where the server adds noise, chosen before any vote was seen. ``noise_rng`` is for tests.

    >>> votes = np.array([[4, 0], [0, 2], [0, 0]], np.int32)
    >>> aggregate(votes, config=OneShotVoteConfig(), rng=np.random.default_rng(1)).labels.tolist()
    [0, 1, -1]
    """
    plan = config.server_plan(*votes.shape)
    return plan.ask(votes if queries is None else votes[queries], rng=noise_rng if plan.adds_noise else rng)


def kept(counts: NDArray[np.integer[Any]], answers: NoisyAnswers) -> float | None:
    """Return the share of answered queries whose winner the noise left as it was; None where none is answered.

    ``counts``, (num_queries, num_classes), are the true votes.
    """
    answered = answers.labels != ABSTAIN
    if not answered.any():
        return None
    return float((answers.labels[answered] == counts[answered].argmax(axis=1)).mean())


def fit_as_long(model: Any, X: NDArray[Any], y: NDArray[Any], *, num_rows: int) -> Any:
    """Fit a model; a net takes at least the steps that it would take over the ``num_rows`` rows of another model.

    A net makes a number of passes, so over few rows it takes few steps, and what a model of more rows gains on it would
    partly be longer training.
    """
    steps_of_fit = getattr(model.template, "steps_of_fit", None)  # a user's own net need not say it
    if num_rows > len(X) and steps_of_fit is not None:
        return model.update(X, y, steps=steps_of_fit(num_rows))
    return model.fit(X, y)


def fit_pooled(
    model: Any, X: NDArray[Any], y: NDArray[Any], *, config: OneShotVoteConfig, rounds: int, num_public: int
) -> object:
    """Fit a model on pooled rows, a net for as long at least as one takes over all public rows."""
    return fit_as_long(model, X, y, num_rows=num_public)
