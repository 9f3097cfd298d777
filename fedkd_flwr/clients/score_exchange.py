"""A party that answers public rows with scores and learns from their averages: what FedMD and DD have in common.

The other half is `fedkd_flwr.strategies.score_exchange`. Sending logits or probabilities tells more than labels: a
party takes part only where its own ``allow-algorithms`` names the algorithm, and no default does.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.score_exchange import ScoreExchangeConfig
from fedkd_flwr.clients.answer import Answer, Finished
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.clients.visit import kept_model
from fedkd_flwr.data.public import PublicLabels, PublicSet
from fedkd_flwr.errors import Code, ConfigError, DataError, PayloadError, RefusalError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.taught import pretrain
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.none import NoNoise
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.stores.party_state import NoLedger
from fedkd_flwr.stores.subset import SubsetStore
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.score_codec import decode_rows, decode_scores, encode_scores

__all__ = ["Lesson", "ScoreClient", "averages", "nothing_more", "pretrain_on"]

logger = logging.getLogger("flwr.party")


def pretrain_on(public: PublicSet, model: Classifier, *, epochs: int, seed: int) -> None:
    """Give a net the start that the run's seed makes at all parties alike (`fedkd_flwr.models.taught.pretrain`)."""
    labels = _public_labels(public)
    pretrain(
        model,
        public.X,
        labels.y,
        num_classes=labels.num_classes,
        same_classes=labels.of_schema,
        epochs=epochs,
        seed=derive_seed(seed, "pretrain"),
        name=public.fingerprint,
    )


def _public_labels(public: PublicSet) -> PublicLabels:
    if public.labels is None:
        way_out = "Give this node the public file with the column of labels that paper.public-label-column names."
        raise DataError(explain("public rows", "have labels to pre-train on", "none", way_out))
    return public.labels


class Lesson(NamedTuple):
    """What the last round's averages teach: public rows (n, d), targets (n, C), and the loss to compare with."""

    X: NDArray[Any]
    targets: NDArray[np.floating[Any]]
    loss: str


def nothing_more(instruction: Instruction) -> bool:
    """Tell whether the run is at its end: nothing more is asked."""
    return "indices" not in instruction.arrays


def averages(party: Party, instruction: Instruction, count: int, *, name: str = "") -> NDArray[np.float32]:
    """Return the averages of ``count`` rows that come under ``name``; by default under that of their kind."""
    kind = instruction.config.kind
    name = name or kind
    if name not in instruction.arrays:
        raise PayloadError(explain("payload", f"hold {name} of the last rows", sorted(instruction.arrays)))
    spec, at = party.spec.rows(count), instruction.server_round
    return decode_scores(instruction.arrays[name], public=spec, server_round=at, kind=kind)


class ScoreClient(PartyClient):
    """A party of an exchange of scores. Subclasses say how it starts, `begin`, and how it goes on, `improve`."""

    heard = frozenset({"cached", "cache"})

    @abstractmethod
    def begin(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train a net, which has its first weights, on a party's own rows for the first time."""

    @abstractmethod
    def improve(
        self, model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson, instruction: Instruction
    ) -> None:
        """Train a net on from where it is, on a party's own rows and a lesson."""

    def weight(self, instruction: Instruction) -> float:
        """Return what the averages of a row weigh beside an own label, where a model is refitted on both."""
        return 1.0

    @abstractmethod
    def practise(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train a net that has begun as long on its own rows as `improve` did in all rounds (SOLO)."""

    # ---------------------------------------------------------------- one visit

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse averages and rows that cannot be read, a model that has no logits, and a subset that is not there."""
        self.asked_rows(instruction)
        self.lesson(instruction)
        fresh = self.party.model(seed=instruction.seed("model"))
        if instruction.config.answer_form == "logits" and not fresh.supports_soft_steps:
            way_out = 'Use answer-form "softmax" or "argmax" for the run, or a torch net here (mlp, cnn-fedmd).'
            raise ConfigError(explain("model", "be a torch net to share logits", self.party.model_name, way_out))
        if instruction.config.pretrain_epochs and fresh.supports_soft_steps:
            _public_labels(self.party.public)
        claimed_subset(self.party, instruction.config)

    def learn(self, instruction: Instruction) -> Answer:
        """Learn from the last averages; return the answers for the rows asked next."""
        model, notes = self._taught(instruction)
        values = self._answers(model, instruction)
        # a subset's claim is about the rows left out: they are not even measured on, which may fail or take long
        untold = instruction.config.subset_rows and not self.party.simulated
        progress = {} if untold else self.party.progress(model)
        return replace(
            self._answer(values, instruction),
            metrics=progress,
            notes=notes,
            model=model if model.supports_soft_steps else None,
        )

    def fixed(self, instruction: Instruction) -> Answer:
        """Return the same score for each class of each row; the lowest class where labels are shared."""
        shape = self.num_rows(instruction), self.party.public.num_classes
        form = instruction.config.answer_form
        if form == "argmax":
            return self._answer({"labels": np.zeros((1, shape[0]), dtype=np.int16)}, instruction)
        if form == "logits":
            return self._answer({"logits": np.zeros(shape, dtype=np.float32)}, instruction)
        return self._answer({"probs": np.full(shape, 1 / shape[1])}, instruction)

    def _answer(self, values: Mapping[str, NDArray[Any]], instruction: Instruction) -> Answer:
        """Return values with what is kept beside them, which no private row decides in any other way."""
        meta = {"learnt-from": learnt_from(self.party, instruction.config)}
        return Answer(values=values, kept=self.memory(instruction), meta=meta)

    def finish(self, instruction: Instruction) -> Finished:
        """Learn from the final averages; SOLO sees the party's own rows for as long."""
        model, _ = self._taught(instruction)
        self.party, X, y = own_rows(self.party, instruction, rng=self.noise_rng)
        alone = self.party.model(seed=instruction.seed("model"))
        self._start(alone, X, y, instruction)
        if alone.supports_soft_steps:
            self.practise(alone, X, y, instruction)
        return Finished(model=model, solo=self.party.metrics(alone), alone=alone)

    def _taught(self, instruction: Instruction) -> tuple[Classifier, list[str]]:
        fresh = self.party.model(seed=instruction.seed("model"))
        kept: Classifier | None = None
        notes: list[str] = []
        if fresh.supports_soft_steps and may_continue(self.party, instruction):
            kept, notes = kept_model(self.party, instruction)
        self.party, X, y = own_rows(self.party, instruction, rng=self.noise_rng)
        lesson, model = self.lesson(instruction), kept or fresh
        if not model.supports_soft_steps:
            _refit(model, X, y, lesson, weight=self.weight(instruction), num_classes=self.party.public.num_classes)
            return model, notes
        if kept is None:
            self._start(model, X, y, instruction)
        if lesson is not None:
            self.improve(model, X, y, lesson, instruction)
        return model, notes

    def _start(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Give a net its first weights, from public labels where asked, and train it; fit any other learner."""
        if not model.supports_soft_steps:
            model.fit(X, y)
            return
        model.initialize()
        if epochs := instruction.config.pretrain_epochs:
            pretrain_on(self.party.public, model, epochs=epochs, seed=instruction.config.seed)
        self.begin(model, X, y, instruction)

    def lesson(self, instruction: Instruction) -> Lesson | None:
        """Return what the last averages teach; None before there are any."""
        public, arrays = self.party.public, instruction.arrays
        if "previous" not in arrays:
            return None
        rows = decode_rows(arrays["previous"], num_public=public.num_rows)
        targets = averages(self.party, instruction, len(rows))
        return Lesson(X=public.X[rows], targets=targets, loss=instruction.config.loss)

    def memory(self, instruction: Instruction) -> dict[str, NDArray[Any]]:
        """Return the arrays that this party keeps for the next round."""
        return {}

    # ---------------------------------------------------------------- what leaves

    def asked_rows(self, instruction: Instruction) -> NDArray[np.int64]:
        """Return the public rows that the server asks about; all at the end of a run."""
        if nothing_more(instruction):
            return np.arange(self.party.public.num_rows)
        return decode_rows(instruction.arrays["indices"], num_public=self.party.public.num_rows)

    def asks(self, instruction: Instruction) -> Mapping[str, int]:
        """Return that a round asks about so many public rows."""
        return {} if nothing_more(instruction) else {"public-rows-per-round": self.num_rows(instruction)}

    def _answers(self, model: Classifier, instruction: Instruction) -> dict[str, NDArray[Any]]:
        X, form = self.party.public.X[self.asked_rows(instruction)], instruction.config.answer_form
        if form == "logits":
            return {"logits": model.logits(X)}
        if form == "argmax":
            return {"labels": model.predict(X)[None]}
        probs = model.predict_proba(X)
        return {"probs": probs / probs.sum(axis=1, keepdims=True)}

    def release(self, answer: Answer, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Add the noise that the run asks for."""
        config: ScoreExchangeConfig = instruction.config
        mechanism = config.mechanism(num_classes=self.party.public.num_classes)
        if isinstance(mechanism, NoNoise):
            return answer.values
        if isinstance(mechanism, RandomizedResponse):
            return {"labels": mechanism.privatize(answer.values["labels"], rng=self.noise_rng)}
        name = mechanism.kind
        noisy = mechanism.privatize(answer.values[name], rng=self.noise_rng)
        return {"scores" if name == "probs" else name: noisy}

    def encode(self, values: Mapping[str, NDArray[Any]], instruction: Instruction) -> dict[str, NDArray[Any]]:
        """Return labels packed, and scores at the run's precision."""
        spec, at = self.party.spec.rows(self.num_rows(instruction)), instruction.server_round
        bits = instruction.config.score_bits
        return {
            name: encode_labels(array, public=spec, server_round=at)
            if name == "labels"
            else encode_scores(array, public=spec, server_round=at, kind=name, bits=bits)  # type: ignore[arg-type]
            for name, array in values.items()
        }

    # ---------------------------------------------------------------- what it costs

    def charge(self, instruction: Instruction) -> Charge | None:
        """Return the cost of a round's noisy answers; of one subset for ever, where it was not charged before."""
        config: ScoreExchangeConfig = instruction.config
        if (subset := claimed_subset(self.party, config)) is not None:
            return charge_of_subset(self.party, subset)
        if not config.noisy:
            return None
        mechanism = config.mechanism(num_classes=self.party.public.num_classes)
        return Charge.of_labels(mechanism, self.num_rows(instruction), mechanism.words)


def _refit(
    model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson | None, *, weight: float, num_classes: int
) -> None:
    """Fit a model that takes no steps on own rows and, weighted, on the rows of a lesson."""
    if lesson is None or not weight:
        model.fit(X, y)
        return
    own = np.eye(num_classes)[y]
    model.fit_soft(np.concatenate([X, lesson.X]), np.concatenate([own, weight * lesson.targets]))


_ALL = "all rows"


def claimed_subset(party: Party, config: ScoreExchangeConfig) -> Subsampling | None:
    """Return NFDP's draw as it is claimed: from as many rows as anybody may know that this party holds.

    Its true number of rows is private: with it a budget's refusal, or the refusal to draw more rows than there are,
    would tell two neighbouring data sets apart. None without NFDP.
    """
    if not config.subset_rows:
        return None
    if not party.whole:
        # held-out rows reorder the rest in each run, so stored row numbers would select other rows
        rule = "come with the same key in the run config, for parties to hold nothing out"
        raise PayloadError(explain("subset-rows", rule, config.subset_rows))
    claimed = Subsampling.claimed(
        rows_at_least=party.rows_at_least, subset_rows=config.subset_rows, replacement=config.subset_replacement
    )
    return _store(party).claimed(claimed)


def learnt_from(party: Party, config: ScoreExchangeConfig) -> str:
    """Return which rows of its own a party learns from, in words."""
    subset = claimed_subset(party, config)
    return _ALL if subset is None else subset.words


def may_continue(party: Party, instruction: Instruction) -> bool:
    """Tell whether the kept model knows no row that this instruction's claim leaves out.

    A round under noise learns from all rows; a net kept from it would carry them into answers that a subset's claim
    lets out without noise.
    """
    saved, rows = instruction.saved, learnt_from(party, instruction.config)
    if rows == _ALL or saved is None or saved.meta.get("learnt-from") == rows:
        return True
    logger.warning("%s: the kept model learnt from other rows than %s: it starts afresh", party.name, rows)
    return False


def charge_of_subset(party: Party, subset: Subsampling) -> Charge:
    """Return what learning from the subset costs: nothing more where it was charged before."""
    if not subset.delta < 1 and party.demands_privacy:
        way_out = "Ask for fewer rows, or let this party say rows-at-least in its node config."
        known = f"all of the {subset.num_rows} that it is known to hold"
        message = explain("subset-rows", f"protect anybody at {party.name}", known, way_out)
        raise RefusalError(message, code=Code.PRIVACY_REQUIRED)
    paid = _store(party).charged(subset)
    # all replies of all runs are computed from the one subset: only the first tells anything new
    event = dp.NoOpDpEvent() if paid else subset.dp_event()
    relation = "add, remove or replace one record"
    words = f"{subset.words}: charged before" if paid else subset.words
    return Charge(events=[(event, 1)], mechanism=words, neighbouring_relation=relation, once=True)


def own_rows(
    party: Party, instruction: Instruction, *, rng: np.random.Generator | None
) -> tuple[Party, NDArray[Any], NDArray[Any]]:
    """Return the rows to learn from, all or the party's one subset, and the party with the other rows to measure on.

    The subset is drawn if this is the first time: from all rows of its file, or from as many as are claimed where it
    holds fewer. Slots beyond its rows are empty, and what is learnt from then is less.
    """
    subset = claimed_subset(party, instruction.config)
    if subset is None:
        return party, party.X, party.y
    slots = _store(party).rows(subset, num_rows=party.num_rows, rng=rng)
    rows = party.rows_in(slots)
    if len(rows) < len(slots):
        words = "%s learns from %d rows only: %d of the %d drawn slots are empty, beyond its %d rows or unusable"
        logger.warning(words, party.name, len(rows), len(slots) - len(rows), len(slots), party.num_rows)
    others = np.setdiff1d(np.arange(len(party.y)), rows)
    # what it measures on them stays with it: beside a claim a visit lets no metric out
    tests = {**party.tests, "own": (party.X[others], party.y[others])}
    return replace(party, tests=tests), party.X[rows], party.y[rows]


def _store(party: Party) -> SubsetStore:
    if isinstance(party.ledger, NoLedger):
        way_out = "Give this party a ledger (a state-dir): a subset that nobody remembers would be drawn again."
        message = explain("ledger", "be given to learn from one subset for ever", None, way_out)
        raise DataError(message, code=Code.WRONG_CONFIG)
    return SubsetStore(party.ledger)
