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

__all__ = ["STRENGTHS", "OneShotVoteConfig", "aggregate", "fit_as_long", "fit_pooled", "kept"]

STRENGTHS = ("gamma", "sigma", "threshold", "sigma_threshold")
_TAKES = {
    "none": (),
    "laplace": ("gamma",),
    "gaussian": ("sigma",),
    "confident-gaussian": ("threshold", "sigma_threshold", "sigma"),
}


class OneShotVoteConfig(VotersConfig, EpsilonConfig):
    """Settings of an exchange that ends in a model at the server."""

    consensus: LastRuleName = setting("auto", first=True)
    """How the parties' answers become the server's labels, in FedKT and PATE. density-ratio also needs the parties'
    ratios and class counts, which a node sends only if its allow-vote-rules names density-ratio. auto: density-ratio
    where the public rows resemble the parties' own; majority elsewhere, and beside noise. With known-rows these choose
    between that rule, the vote by known rows and the server's own forest. median and mean are for grades and numbers,
    and what auto is there."""
    party_models: bool = setting(True, told=True, section=PAPER)
    """Whether parties fit models of their own on the final labels. The papers of FedKT and PATE have the server's model
    alone."""
    noise: Literal["none", "laplace", "gaussian", "confident-gaussian"] = setting("none", told=True, first=True)
    """Noise on the counts of votes: in FedKT and PATE."""
    gamma: float = setting(0.0, ge=0, told=True, only={"noise": ("laplace",)}, zero="auto", section=PAPER)
    """Laplace noise on vote counts: its scale is 1 / gamma votes, in place of epsilon. auto: found from epsilon."""
    sigma: float = setting(
        0.0, ge=0, told=True, only={"noise": ("gaussian", "confident-gaussian")}, zero="auto", section=PAPER
    )
    """Gaussian noise on vote counts: its standard deviation in votes, in place of epsilon. auto: found from epsilon."""
    threshold: float = setting(0.0, ge=0, told=True, only={"noise": ("confident-gaussian",)}, zero="none")
    """With confident-gaussian noise: a public row gets a label where its largest count, plus noise, reaches so many
    votes."""
    sigma_threshold: float = setting(
        0.0, ge=0, told=True, only={"noise": ("confident-gaussian",)}, zero="auto", section=PAPER
    )
    """With confident-gaussian noise: its standard deviation, in votes, on the count that threshold judges. auto: three
    times that of other counts, found from epsilon."""
    num_queries: int = setting(0, ge=0, told=True, only={"noise": NOISES}, zero="all")
    """With noise on votes: how many public rows are asked, drawn before any vote is seen. all: each one."""
    max_answers: int = setting(0, ge=0, told=True, only={"noise": ("confident-gaussian",)}, zero="all", section=PAPER)
    """With confident-gaussian noise: asking ends after so many answers. all: no end before num-queries."""
    learn_from: Literal["labels", "counts"] = setting("labels", told=True, only={"noise": ("laplace", "gaussian")})
    """With noise on votes: learn from the noisy winners (labels) or from the noisy counts, which tell more. They cost
    the same, but for Laplace noise on two classes, where winners cost less."""
    unanswered_rows: Literal["unused", "self-training"] = setting("unused", told=True, section=PAPER)
    """Public rows to which a noisy vote gave no answer: not used, or labelled by a first model for a second one."""

    @property
    def votes_per_party(self) -> int:
        """How many votes one party casts on a row."""
        return 1

    def check(self) -> None:
        """Refuse a noise without a strength, or with two."""
        super().check()
        keys = self.keys()
        takes = _TAKES[self.noise]
        found = [name for name in takes if name != "threshold"]  # a threshold is a choice, not a noise
        if self.epsilon:
            if any(getattr(self, name) for name in found):
                rule = f"be given without {', '.join(keys[name] for name in found)}"
                raise ConfigError(explain(keys["epsilon"], rule, self.epsilon, "Give one."))
            if "threshold" in takes and not self.threshold:
                way_out = "Give the votes a class must have to be answered, say 0.6 of all."
                raise ConfigError(explain(keys["threshold"], f"be > 0 with noise {self.noise!r}", 0.0, way_out))
        elif not all(getattr(self, name) for name in takes):
            way_out = "Give epsilon instead to have the noise found."
            name = " and ".join(keys[name] for name in takes)
            raise ConfigError(explain(name, f"be > 0 with noise {self.noise!r}", 0.0, way_out))

    def plan(self, *, votes: int, num_public: int, num_classes: int, times: int = 1, unit: int = 1) -> NoisyVotes:
        """Return the noisy vote these settings ask for, where one neighbouring change moves ``votes`` votes.

        With two classes, Laplace noise and labels alone released, a query costs less. ``epsilon`` covers ``times`` such
        votes on the same data together; ``unit`` counted units make one vote.
        """
        queries = self.num_queries or num_public
        if not queries <= num_public:
            way_out = f"Lower num-queries to at most {num_public}."
            raise ConfigError(explain("num-queries", f"be at most {num_public} (public rows)", queries, way_out))
        counted: dict[str, Any] = {"votes": votes, "counts_per_vote": unit}
        if self.noise == "laplace":
            counted["winner_of_two"] = num_classes == 2 and self.learn_from == "labels"
        strength = {name: getattr(self, name) for name in STRENGTHS}
        if all(strength[name] for name in _TAKES[self.noise]):  # always so at a party, which is told no epsilon
            mechanism: Any = make_noise(self.noise, **counted, **strength)
        else:
            from fedkd_flwr.privacy.cost.calibration import calibrate_votes

            counted |= {"epsilon": self.epsilon, "delta": self.delta, "threshold": self.threshold}
            mechanism = calibrate_votes(self.noise, num_queries=queries * times, **counted)
        return NoisyVotes(
            mechanism=mechanism, num_queries=queries, max_answers=self.max_answers, release=self.learn_from
        )

    def server_plan(self, num_public: int, num_classes: int) -> NoisyVotes | QuietVotes:
        """Return what the server does to the parties' votes."""
        if self.privacy != "server":
            return QuietVotes(num_queries=num_public, ties=self.ties)
        return self.plan(votes=self.votes_per_party, num_public=num_public, num_classes=num_classes, unit=self.unit)

    def quiet(self) -> dict[str, Any]:
        """Return the default of every setting that speaks of noise."""
        names = ("noise", *STRENGTHS, "num_queries", "max_answers", "learn_from", "epsilon", "delta")
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

    >>> kept(np.array([[2, 1], [0, 3]]), NoisyAnswers(labels=np.array([0, 0], np.int16)))
    0.5
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
