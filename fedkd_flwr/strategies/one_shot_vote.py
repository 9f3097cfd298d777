"""One round of votes that leaves the server a model of its own: what FedKT and PATE have in common.

server   which public rows are asked, chosen before any vote is seen
party    labels on all public rows                                          -> the server
server   votes (+ noise on the asked rows) -> consensus -> final model      -> labels of the public rows -> every party
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from logging import INFO
from typing import Any, Literal, Self

import numpy as np
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels import ABSTAIN, HALF, Labels, VoteCounter, majority, voter_weights
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.distillation import teach
from fedkd_flwr.privacy.claims.claim import PrivacyClaim, noisy_max_at_server
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.plan import NOISES, NoisyAnswers, NoisyVotes, make_noise
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import StoredReply
from fedkd_flwr.strategies.base import ExchangeConfig
from fedkd_flwr.strategies.label_exchange import LabelStrategy, PartyLabels
from fedkd_flwr.wire.records import Scalar

__all__ = ["ServerModelConfig", "ServerModelStrategy"]

_FOLDS = 3


@dataclass(frozen=True, kw_only=True)
class ServerModelConfig(ExchangeConfig):
    """Settings of an exchange that ends in a model at the server.

    Parameters
    ----------
    informative_voters_only : bool
        Discount parties that give one class to every public row: off reproduces the papers.
    uninformative_voters : {"half", "leave-out"}
        How: they cast half their votes, or none.
    party_models : bool
        Whether parties fit models of their own on the final labels. The papers' result is the server's model alone.
    noise : {"none", "laplace", "gaussian", "confident-gaussian"}
        What is added to vote counts.
    gamma : float
        Laplace: noise of scale 1 / gamma votes on each count.
    sigma : float
        Gaussian: standard deviation of the noise on each count, in votes.
    threshold, sigma_threshold : float
        Confident-GNMax: a query is answered where the largest count plus noise of ``sigma_threshold`` reaches
        ``threshold`` votes.
    epsilon : float
        Find gamma or sigma so that the whole run costs at most this epsilon (at ``delta``); 0: they are given. With
        Confident-GNMax the threshold is given, its noise is three times the answers', and every query is paid for.
    num_queries : int
        Public rows asked where there is noise, drawn before any vote is seen; 0: all.
    max_answers : int
        Confident-GNMax ends after so many answers; 0: no end before ``num_queries``.
    release : {"labels", "counts"}
        Learn from the noisy winners or from the noisy counts: they cost the same, and counts tell more.
    unqueried : {"unused", "self-training"}
        What becomes of public rows without an answer: nothing, or a first model labels them for a second one.
    """

    informative_voters_only: bool = True
    uninformative_voters: Literal["half", "leave-out"] = "half"
    party_models: bool = True
    noise: Literal["none", "laplace", "gaussian", "confident-gaussian"] = "none"
    gamma: float = 0.0
    sigma: float = 0.0
    threshold: float = 0.0
    sigma_threshold: float = 0.0
    epsilon: float = 0.0
    num_queries: int = 0
    max_answers: int = 0
    release: Literal["labels", "counts"] = "labels"
    unqueried: Literal["unused", "self-training"] = "unused"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.uninformative_voters not in ("half", "leave-out"):
            raise ConfigError(explain("uninformative_voters", 'be "half" or "leave-out"', self.uninformative_voters))
        if self.noise not in ("none", *NOISES):
            raise ConfigError(explain("noise", f"be one of none, {', '.join(NOISES)}", self.noise))
        if self.unqueried not in ("unused", "self-training"):
            raise ConfigError(explain("unqueried", 'be "unused" or "self-training"', self.unqueried))
        given = {n: getattr(self, n) for n in ("gamma", "sigma", "threshold", "sigma_threshold", "epsilon")}
        for name, value in given.items():
            if not (0.0 <= value < float("inf")):
                raise ConfigError(explain(name, "be finite and >= 0", value))
        takes = {
            "none": (),
            "laplace": ("gamma",),
            "gaussian": ("sigma",),
            "confident-gaussian": ("threshold", "sigma_threshold", "sigma"),
        }[self.noise]
        for name, value in given.items():
            if value and name not in takes and not (name == "epsilon" and self.noise != "none"):
                way_out = "It would be ignored: drop it, or choose the noise that takes it."
                raise ConfigError(explain(name, f"be 0 with noise {self.noise!r}", value, way_out))
        found = tuple(name for name in takes if name != "threshold")  # a threshold is a choice, not a noise
        if self.epsilon and any(given[name] for name in found):
            raise ConfigError(explain("epsilon", f"be given without {', '.join(found)}", self.epsilon, "Give one."))
        if self.epsilon and "threshold" in takes and not self.threshold:
            way_out = "Give the votes a class must have to be answered, say 0.6 of all."
            raise ConfigError(explain("threshold", f"be > 0 with noise {self.noise!r}", 0.0, way_out))
        if not self.epsilon and not all(given[name] for name in takes):
            way_out = "Give epsilon instead to have the noise found."
            raise ConfigError(explain(" and ".join(takes), f"be > 0 with noise {self.noise!r}", 0.0, way_out))
        if self.noise == "none" and (self.num_queries or self.max_answers or self.release != "labels"):
            raise ConfigError(explain("num_queries, max_answers and release", "come with noise", "noise 'none'"))

    def plan(self, *, votes: int, num_public: int, times: int = 1, unit: int = 1) -> NoisyVotes:
        """Return the noisy vote these settings ask for.

        Parameters
        ----------
        votes : int
            Votes that one neighbouring change moves.
        num_public : int
            Rows of the public set.
        times : int
            How many such votes on the same data the run makes: ``epsilon`` covers them together.
        unit : int
            How many counted units make one vote.
        """
        queries = self.num_queries or num_public
        if not queries <= num_public:
            way_out = f"Lower num-queries to at most {num_public}."
            raise ConfigError(explain("num_queries", f"be at most {num_public} (public rows)", queries, way_out))
        if self.epsilon:
            from fedkd_flwr.privacy.cost import calibration

            target: dict[str, Any] = {
                "num_queries": queries * times,
                "epsilon": self.epsilon,
                "delta": self.delta,
                "votes": votes * unit,
            }
            find: dict[str, Callable[..., Any]] = {
                "laplace": calibration.calibrate_laplace,
                "gaussian": calibration.calibrate_gaussian,
                "confident-gaussian": partial(calibration.calibrate_confident, threshold=self.threshold * unit),
            }
            mechanism: Any = find[self.noise](**target)
        else:
            mechanism = make_noise(
                self.noise,
                votes=votes * unit,
                gamma=self.gamma / unit,
                sigma=self.sigma * unit,
                threshold=self.threshold * unit,
                sigma_threshold=self.sigma_threshold * unit,
            )
        return NoisyVotes(
            mechanism=mechanism, num_queries=queries, max_answers=self.max_answers, release=self.release, unit=unit
        )

    def calibrate(self, *, epsilon: float, delta: float | None = None) -> Self:
        """Return these settings with the noise to be found for ``epsilon`` at ``delta``."""
        return replace(self, epsilon=epsilon, gamma=0.0, sigma=0.0, delta=self.delta if delta is None else delta)


class ServerModelStrategy(LabelStrategy):
    """Base of the strategies that leave a model at the server. Subclasses say how parties vote: `count`.

    Parameters
    ----------
    config : ServerModelConfig
        Settings.
    final_model : callable
        ``final_model(seed=...)`` returns the fresh model the server trains.
    test : (X, y), optional
        Rows to measure the final model on.
    ledger, budget : LedgerStore and Budget, optional
        What noisy votes at the server have cost so far, over all runs on this public set, and the most they may.
    noise_rng : Generator, optional
        For tests: with it the run claims nothing ("none: seeded").

    Attributes
    ----------
    model : Classifier or None
        The final model F, after `start`.
    votes : ndarray of shape (num_public, num_classes), int32
        The true votes (operator only); halves where uninformative voters cast half.
    """

    def __init__(
        self,
        *args: Any,
        config: ServerModelConfig,
        final_model: Callable[..., Classifier],
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        ledger: LedgerStore | None = None,
        budget: Budget | None = None,
        noise_rng: np.random.Generator | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(*args, config=config, **keywords)
        self.settings = config
        self.final_model = final_model
        self.test = test
        self.ledger, self.budget, self.noise_rng = ledger, budget or Budget(), noise_rng
        self.model: Classifier | None = None
        self.votes: NDArray[np.int32] | None = None
        self.unit = HALF if config.informative_voters_only and config.uninformative_voters == "half" else 1
        self._asked_rows: NDArray[np.int64] | None = None

    # ---------------------------------------------------------------- what an algorithm says

    @abstractmethod
    def count(self, counter: VoteCounter, answer: PartyLabels, weight: int) -> None:
        """Count one party; ``weight`` counted units make one of its votes."""

    @property
    @abstractmethod
    def votes_per_party(self) -> int:
        """How many votes one party casts on a row."""

    @property
    def server_plan(self) -> NoisyVotes | None:
        """The noise the server adds, if it does."""
        return None if self.settings.noise == "none" else self._plan

    @cached_property
    def _plan(self) -> NoisyVotes:
        return self.settings.plan(votes=self.votes_per_party, num_public=self.spec.num_public, unit=self.unit)

    # ---------------------------------------------------------------- the round

    def check_rounds(self, num_rounds: int) -> None:
        """Refuse any number of rounds but 1."""
        if num_rounds != 1:
            way_out = "It is one-shot; use FedCT for several rounds."
            raise ConfigError(explain("num_rounds", f"be 1 for {self.algorithm}", num_rounds, way_out))
        super().check_rounds(num_rounds)

    @property
    def queries(self) -> NDArray[np.int64]:
        """The public rows asked, drawn before any vote is seen."""
        if self._asked_rows is None:
            queries = self.settings.num_queries or self.spec.num_public
            chosen = self.rng("queries").permutation(self.spec.num_public)[:queries]
            self._asked_rows = np.sort(chosen).astype(np.int64)
        return self._asked_rows

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return what parties do with the final labels."""
        return {"party-models": self.settings.party_models}

    def check_budget(self, server_round: int) -> None:
        """Refuse before anybody trains where the server's own budget does not cover the noisy votes."""
        if self.ledger is not None and (plan := self.server_plan) is not None:
            self.ledger.ask(plan.events(), self.budget)

    def combine(self, server_round: int, answers: Sequence[PartyLabels]) -> Labels:
        """Vote, train the final model on the answered public rows, and return its labels of all of them."""
        self.votes = self._votes(answers)
        plan = self.server_plan
        rows = self.queries if plan is not None else np.arange(self.spec.num_public)
        answered = self._noisy(plan, server_round) if plan is not None else self._plain(self.votes)
        if not (answered.labels != ABSTAIN).any():
            way_out = "Lower the threshold, or ask more queries." if plan is not None else 'Set voting to "plain".'
            raise ConfigError(explain("the vote", "label at least one public row", 0, way_out))
        self.vote = np.full(self.spec.num_public, ABSTAIN, dtype=np.int16)
        self.vote[rows] = answered.labels
        log(INFO, "\tfitting the final model on %d public rows", int((answered.labels != ABSTAIN).sum()))
        self.model = self._taught(rows, answered, "final-model")
        if self.test is not None and len(self.test[1]):
            self.record.server_accuracy = self.model.accuracy(*self.test)
            log(INFO, "\tfinal model: accuracy %.4f on common test rows", self.record.server_accuracy)
        labels = self.model.predict(self.public.X)
        return self._cross_fitted(labels, rows, answered) if self.settings.party_models else labels

    def _votes(self, answers: Sequence[PartyLabels]) -> NDArray[np.int32]:
        settings = self.settings
        rule = settings.uninformative_voters if settings.informative_voters_only else "count"
        weights = voter_weights([a.labels for a in answers], uninformative=rule)
        discounted = sum(weight < HALF for weight in weights)
        if discounted:
            share = "half their votes" if rule == "half" else "no vote"
            note = f"{discounted} of {len(answers)} parties label every public row alike and cast {share}."
            log(INFO, "\t%s", note)
            self.record.notes.append(note)
        if not any(weights) and self.server_plan is None:
            weights = [HALF] * len(answers)  # nobody tells classes apart; under noise this would depend on all parties
        counter = VoteCounter(num_public=self.spec.num_public, num_classes=self.spec.num_classes)
        for answer, weight in zip(answers, weights, strict=True):
            if weight:
                self.count(counter, answer, weight * self.unit // HALF)
        self.note_classes(counter.class_voters)
        return counter.votes

    def _plain(self, votes: NDArray[np.int32]) -> NoisyAnswers:
        labels = majority(votes, ties=self.settings.ties, rng=self.rng("ties", 1))
        if dropped := int((labels == ABSTAIN).sum()):
            self.record.notes.append(f"{dropped} public rows had no vote and train nothing.")
        return NoisyAnswers(labels=labels)

    def _noisy(self, plan: NoisyVotes, server_round: int) -> NoisyAnswers:
        if self.votes is None:
            raise ConfigError(explain("votes", "be counted before noise is added", None))
        counts = self.votes[self.queries]
        answers = plan.ask(counts, rng=self.noise_rng)
        if self.ledger is not None:
            kept = {"labels": answers.labels} | ({} if answers.counts is None else {"counts": answers.counts})
            stored = self.ledger.charge(
                run_id=self.record.run_id,
                server_round=server_round,
                algorithm=self.algorithm,
                mechanism=plan.words,
                unit="party",
                adversary="everyone who sees the result",
                neighbouring_relation="replace one party",
                events=plan.events(),
                reply=StoredReply(arrays=kept, metrics={}),
                budget=self.budget,
            )
            answers = NoisyAnswers(labels=stored.arrays["labels"], counts=stored.arrays.get("counts"))
        answered = answers.labels != ABSTAIN
        if answered.any():
            kept_labels = answers.labels[answered] == counts[answered].argmax(axis=1)
            self.record.rounds[-1].kept_share = float(kept_labels.mean())
        return answers

    def _taught(self, rows: NDArray[np.int64], answered: NoisyAnswers, *stream: str | int) -> Classifier:
        seed = int(self.rng(*stream).integers(2**31))
        return teach(
            lambda: self.final_model(seed=seed),
            self.public.X,
            rows,
            answered.labels,
            answered.counts,
            self_training=self.settings.unqueried == "self-training",
        )

    def _cross_fitted(self, labels: Labels, rows: NDArray[np.int64], answered: NoisyAnswers) -> Labels:
        """Relabel each answered row by a final model that was not trained on it.

        The final model itself reproduces the vote on the rows it was trained on, mistakes included.
        """
        positions = np.flatnonzero(answered.labels != ABSTAIN)
        fold = self.rng("folds").permutation(len(positions)) % _FOLDS
        for k in range(_FOLDS if len(positions) >= 2 * _FOLDS else 0):
            inside, outside = positions[fold != k], rows[positions[fold == k]]
            part = NoisyAnswers(
                labels=answered.labels[inside], counts=None if answered.counts is None else answered.counts[inside]
            )
            labels[outside] = self._taught(rows[inside], part, "fold", k).predict(self.public.X[outside])
        return labels

    # ---------------------------------------------------------------- what may be claimed

    def server_claims(self) -> list[PrivacyClaim]:
        """Return the claims of noise at the server: for each party, against everyone who sees what comes out."""
        plan = self.server_plan
        if plan is None or not self.times_asked:
            return []
        labels_only = plan.release == "labels" and self.votes is not None
        claims = noisy_max_at_server(
            plan.mechanism,
            num_queries=plan.num_queries,
            delta=self.settings.delta,
            num_parties=len(self.times_asked),
            counts=self.votes[self.queries] if labels_only and self.votes is not None else None,
            max_answers=plan.max_answers,
            released=plan.release,
            seeded=self.noise_rng is not None,
        )
        # said in whole votes, where they are counted in halves
        return [
            replace(claim, mechanism=claim.mechanism.replace(plan.mechanism.words, plan.noise_words))
            for claim in claims
        ]
