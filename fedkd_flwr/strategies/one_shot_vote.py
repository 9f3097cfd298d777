"""One round of votes that leaves the server a model of its own: what FedKT and PATE have in common.

server   which public rows are asked, chosen before any vote is seen
party    labels on all public rows                                          -> the server
server   votes (+ noise on the asked rows) -> consensus -> final model      -> labels of the public rows -> every party

How votes are counted and made noisy is `fedkd_flwr.algorithms.one_shot_vote`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from logging import INFO
from typing import Any

import numpy as np
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.algorithms.exchange import VoteFacts, tally
from fedkd_flwr.algorithms.one_shot_vote import OneShotVoteConfig, aggregate, kept
from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.labels import ABSTAIN, Ballot, Consensus, Labels
from fedkd_flwr.labels.priors import class_shares
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import Answering, weighs_classes
from fedkd_flwr.models.taught import teach
from fedkd_flwr.privacy.claims.claim import PrivacyClaim, noisy_max_at_server
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.plan import NoisyAnswers, NoisyVotes, QuietVotes
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import NO_LEDGER, NoLedger, StoredReply
from fedkd_flwr.strategies.exchange import checked_test
from fedkd_flwr.strategies.label_exchange import LabelExchange, PartyLabels

__all__ = ["OneShotVote"]

_FOLDS = 3


class OneShotVote(LabelExchange):
    """Base of the exchanges that leave a model at the server. Subclasses say what is claimed: `claim`.

    ``final_model``: ``final_model(seed=...)`` returns the fresh model the server trains. ``test``, optional: rows to
    measure the final model on. ``ledger``, ``budget``, optional: what noisy votes at the server have cost so far, over
    all runs on this public set, and the most they may. ``noise_rng``, optional: for tests: with it the run claims
    nothing ("none: seeded").

    ``model``: the final model F, after the round. ``votes`` (num_public, num_classes), int32: the true votes (operator
    only); halves where uninformative voters cast half.
    """

    config: OneShotVoteConfig
    takes = ("final_model", "test", "ledger", "budget")
    consistent = False  # whether a party has several label arrays, and counts only where all of them agree

    def __init__(
        self,
        *,
        final_model: Callable[..., Classifier],
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        ledger: LedgerStore | NoLedger = NO_LEDGER,
        budget: Budget | None = None,
        noise_rng: np.random.Generator | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        self.final_model = final_model
        self.test = checked_test(test, self.public)
        self.ledger, self.budget, self.noise_rng = ledger, budget or Budget(), noise_rng
        if ledger.keeps and not self.record.run_id:
            way_out = "Give record=RunRecord(run_id=..., algorithm=...): a ledger tells runs apart by it."
            raise ConfigError(explain("record", "name its run where a ledger is given", self.record.run_id, way_out))
        if not ledger.keeps and self.config.privacy == "server" and self.checkpoints.kept:
            way_out = "Give ledger=LedgerStore(...): a run that goes on must let the same noisy votes out again."
            raise ConfigError(explain("ledger", "be given where a noisy run is kept or continued", None, way_out))
        self.model: Classifier | None = None
        self.votes: NDArray[np.int32] | None = None

    @cached_property
    def noise(self) -> NoisyVotes | QuietVotes:
        """What the server does to the votes."""
        return self.config.server_plan(self.spec.num_public, self.spec.num_classes)

    # ---------------------------------------------------------------- the round

    def plan(self, num_rounds: int) -> None:
        """Take the number of rounds; refuse, before anybody is waited for, what could not be done or paid."""
        _ = self.noise
        self._require_final_model()
        lineage, ledger = self.checkpoints.lineage, self.ledger
        gone_out = lineage is not None and lineage.released
        if gone_out and isinstance(ledger, LedgerStore) and ledger.answered(self.charged_run, 1) is None:
            way_out = "Restore the server's ledger that the lost run wrote, or start a new run, which is charged."
            rule = f"hold the noisy votes of run {self.charged_run}, which had begun to go out"
            raise DataError(explain(f"ledger {ledger.path}", rule, "no such entry", way_out), code=Code.LEDGER_LOST)
        super().plan(num_rounds)

    def _require_final_model(self) -> None:
        """Refuse before parties spend their budgets what would fail after all have answered."""
        made = self.final_model(seed=0) if callable(self.final_model) else self.final_model
        if not (callable(self.final_model) and isinstance(made, Classifier)):
            rule = "be a function that makes a Classifier: final_model(seed=...)"
            way_out = "final_model=lambda *, seed: Classifier(MyEstimator(), num_classes=public.num_classes)."
            raise ConfigError(explain("final_model", rule, type(made).__name__, way_out))
        if made.num_classes != self.spec.num_classes:
            rule = f"have the schema's {self.spec.num_classes} classes"
            raise ConfigError(explain("final_model", rule, made.num_classes, "Give num_classes=public.num_classes."))

    def releasing(self) -> None:
        """Write down that noisy votes are about to leave."""
        if self.noise.adds_noise and self.vote is not None:
            self.checkpoints.releasing()

    @cached_property
    def queries(self) -> NDArray[np.int64]:
        """The public rows asked, drawn before any vote is seen: an array of shape (num_queries,), int64."""
        count = self.config.num_queries or self.spec.num_public
        return np.sort(self.rng("queries").permutation(self.spec.num_public)[:count]).astype(np.int64)

    def check_budget(self, server_round: int) -> None:
        """Refuse before anybody trains where the server's own budget does not cover the noisy votes."""
        # else the run that this one continues has paid
        if self.noise.adds_noise and self.ledger.answered(self.charged_run, server_round) is None:
            self.ledger.ask(self.noise.events(), self.budget)

    def combine(self, server_round: int, answers: Sequence[PartyLabels], this: RoundRecord) -> Labels:
        """Vote, train the final model on the answered public rows, and return its labels of all of them."""
        nobody = np.full((1, self.spec.num_public), ABSTAIN, dtype=np.int16)  # beside noise a vote all the same
        said = [answer.labels for answer in answers] or [nobody]
        self.votes, facts = tally(said, config=self.config, num_classes=self.spec.num_classes)
        answered, found = self._answers(self.votes, facts, answers, server_round, this)
        found = self.settled(found, facts, answers)
        judged, by_votes = self.judged(server_round, answers, found), found.by_votes
        if judged is not found.labels:
            answered, by_votes = NoisyAnswers(labels=judged), False
        elif self.probs is not None:
            answered = NoisyAnswers(labels=judged, counts=self.probs)
        rows = self.queries if self.noise.adds_noise else np.arange(self.spec.num_public)
        labelled = answered.labels != ABSTAIN
        if not labelled.any():
            one = "Ask one student per party: fedkt.students-per-party=1."
            way_out = "Lower the threshold, or ask more queries." if self.noise.adds_noise else one
            raise ConfigError(explain("the vote", "label at least one public row", 0, way_out))
        self.vote = np.full(self.spec.num_public, ABSTAIN, dtype=np.int16)
        self.vote[rows] = answered.labels
        if by_votes:
            self.note_votes(facts, answers, self.vote, rows)
        log(INFO, "\tfitting the final model on %d public rows", int(labelled.sum()))
        self.model = self._taught(rows, answered, "final-model")
        self._note_shares(self.model)
        if self.test is not None and len(self.test[1]):
            known = self.model.shares.get("common") if self.public.schema.class_shares else None
            self.record.server["common"] = Answering(self.model, known).metrics(*self.test)
            log(INFO, "\tfinal model: accuracy %.4f on common test rows", self.record.server_accuracy)
        labels = self.model.predict(self.public.X)
        if not by_votes or self.config.noise == "none":  # it makes fewer mistakes than the final model
            unlabelled = self.vote == ABSTAIN
            if self.probs is not None and unlabelled.any():
                self.probs[unlabelled] = self.model.predict_proba(self.public.X[unlabelled])
            return np.where(unlabelled, labels, self.vote)
        return self._cross_fitted(labels, rows, answered) if self.config.party_models else labels

    def _answers(
        self,
        votes: NDArray[np.int32],
        facts: VoteFacts,
        said: Sequence[PartyLabels],
        server_round: int,
        this: RoundRecord,
    ) -> tuple[NoisyAnswers, Consensus]:
        """Return what the server learns from; noisy answers to queries are charged before anything is made of them."""
        if not self.noise.adds_noise:
            ballot = Ballot(
                parties=[answer.party for answer in said],
                labels=[answer.labels for answer in said],
                votes=votes,
                true_votes=votes,
                num_votes=facts.num_votes,
                counted=[True] * len(said),
                beside={answer.party: answer.beside for answer in said if answer.beside},
                last=True,
            )
            found = self.rule.combine(ballot, config=self.config, rng=self.rng("ties", 1))
            dropped = int((found.labels == ABSTAIN).sum())
            if found.by_votes and dropped and self.known is None:  # else known rows may label them
                rows = {"rows": dropped, "of": self.spec.num_public, "consistent": self.consistent}
                self.note(Note(NoteCode.UNUSED_ROWS, rows))
            return NoisyAnswers(labels=found.labels), found
        answers = aggregate(
            votes, config=self.config, rng=self.rng("ties", 1), queries=self.queries, noise_rng=self.noise_rng
        )
        arrays = {"labels": answers.labels} | ({} if answers.counts is None else {"counts": answers.counts})
        stored = self.ledger.charge(
            run_id=self.charged_run,
            server_round=server_round,
            algorithm=self.card.name,
            mechanism=self.noise.words,
            unit="party",
            adversary="everyone who sees the result",
            neighbouring_relation="replace one party",
            events=self.noise.events(),
            reply=StoredReply(arrays=arrays, metrics={}),
            budget=self.budget,
        )
        answers = NoisyAnswers(labels=stored.arrays["labels"], counts=stored.arrays.get("counts"))
        this.kept_share = kept(votes[self.queries], answers)
        return answers, Consensus(answers.labels)

    def _taught(self, rows: NDArray[np.int64], answered: NoisyAnswers, *stream: str | int) -> Classifier:
        seed = int(self.rng(*stream).integers(2**31))
        return teach(lambda: self.final_model(seed=seed), self.public.X, rows, answered.labels, answered.counts)

    def _note_shares(self, model: Classifier) -> None:
        """Write the class shares of what it learnt from into the final model: those of the answers, and no more."""
        if self.vote is not None and not weighs_classes(model):
            labelled = self.vote[self.vote != ABSTAIN]
            answered: NDArray[Any] = np.bincount(labelled, minlength=self.spec.num_classes)
            if self.probs is not None:
                answered = self.probs[self.vote != ABSTAIN].sum(axis=0)
            taught, known = class_shares(answered), self.public.schema.class_shares
            model.shares = {"taught": taught, "common": np.array(known) if known else taught}

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
        if not (self.roster.times_asked and (plan := self.noise).adds_noise):
            return []
        votes = None if self.votes is None or plan.release != "labels" else self.votes[self.queries]
        parties, seeded = len(self.roster.times_asked), self.noise_rng is not None
        return [*noisy_max_at_server(plan, delta=self.config.delta, num_parties=parties, counts=votes, seeded=seeded)]
