"""A party that answers public rows with scores and learns from their averages: what FedMD and DD have in common.

The other half is `fedkd_flwr.strategies.score_exchange`. Sending logits or probabilities tells more than labels: a
party takes part only where its own ``allow-algorithms`` names the algorithm, and no default does.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.score_exchange import ScoreExchangeConfig
from fedkd_flwr.clients.answer import Answer, Finished
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.subset import charge_of_subset, claimed_subset, learnt_from, may_continue, own_rows
from fedkd_flwr.clients.targets import Lesson, averages, nothing_more, taught_by
from fedkd_flwr.clients.visit import kept_model
from fedkd_flwr.data.public import PublicLabels, PublicSet
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.pretraining import pretrain
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.none import NoNoise
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.score_codec import decode_rows, encode_scores

__all__ = ["ScoreClient", "pretrain_on"]

logger = logging.getLogger("flwr.party")


def pretrain_on(public: PublicSet, model: Classifier, *, epochs: int, seed: int) -> None:
    """Give a net the start that the run's seed makes at all parties alike; see `fedkd_flwr.models.pretraining`.

    Raises `DataError` if the public rows have no labels.
    """
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


class ScoreClient(PartyClient):
    """A party of an exchange of scores. Subclasses say how it starts, `begin`, and how it goes on, `improve`.

    Parameters as in `PartyClient`.
    """

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
        return taught_by(self.party, rows, averages(self.party, instruction, len(rows)), instruction.config)

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

    def num_rows(self, instruction: Instruction) -> int:
        """Return how many public rows are asked."""
        return len(self.asked_rows(instruction))

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
        return Charge.of_party(mechanism.dp_event(), self.num_rows(instruction), mechanism.words)


def _refit(
    model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson | None, *, weight: float, num_classes: int
) -> None:
    """Fit a model that takes no steps on own rows and, weighted, on the rows of a lesson."""
    if lesson is None or not weight:
        model.fit(X, y)
        return
    own = np.eye(num_classes)[y]
    model.fit_soft(np.concatenate([X, lesson.X]), np.concatenate([own, weight * lesson.targets]))
