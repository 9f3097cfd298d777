"""A party that answers public rows with scores and learns from their averages: what FedMD and DD have in common.

The other half is `fedkd_flwr.strategies.score_exchange`. Sending logits or probabilities tells more than labels: a
party takes part only where its own ``allow`` names the algorithm, and no default does.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.score_exchange import DigestConfig, Mechanism, ScoreExchangeConfig, with_answers
from fedkd_flwr.clients.answer import Answer, Finished
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.kept_model import restore
from fedkd_flwr.clients.party import Party
from fedkd_flwr.data.public import PublicLabels, PublicSet
from fedkd_flwr.errors import Code, ConfigError, DataError, PayloadError, RefusalError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.pretraining import pretrain
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.claims.claim import subsampling
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.none import NoNoise
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.rounding import bound_text
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.stores.nothing import NoLedger
from fedkd_flwr.stores.party_state import Saved
from fedkd_flwr.stores.subset import SubsetStore
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.row_codec import decode_rows
from fedkd_flwr.wire.score_codec import decode_scores, encode_scores

__all__ = ["DigestClient", "Lesson", "ScoreClient", "pretrain_on"]

logger = logging.getLogger("flwr.party")


class Lesson(NamedTuple):
    """What the last round's averages teach: public rows (n, d), targets (n, C), and the loss to compare with."""

    X: NDArray[Any]
    targets: NDArray[np.floating[Any]]
    loss: str


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
        way_out = "Give this node the public file with the column of labels that public-label names."
        raise DataError(explain("public rows", "have labels to pre-train on", "none", way_out))
    return public.labels


class ScoreClient(PartyClient):
    """A party of an exchange of scores. Subclasses say how it starts, `begin`, and how it goes on, `improve`.

    Parameters
    ----------
    party : Party
        What it holds and allows.
    noise_rng : Generator, optional
        For tests: seeded noise, and a seeded subset, protect nothing.
    """

    heard = frozenset({"answered", "cached", "cache"})

    def __init__(self, party: Party, *, noise_rng: np.random.Generator | None = None) -> None:
        super().__init__(party)
        self.noise_rng = noise_rng

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
        self._asked(instruction)
        self.lesson(instruction)
        fresh = self.party.model(seed=instruction.seed("model"))
        if instruction.config.share == "logits" and not fresh.supports_soft_steps:
            way_out = 'Use share "softmax" or "argmax" for the run, or a torch net here (mlp, cnn-fedmd).'
            raise ConfigError(explain("model", "be a torch net to share logits", self.party.model_name, way_out))
        if instruction.config.pretrain_epochs and fresh.supports_soft_steps:
            _public_labels(self.party.public)
        self._subsampling(instruction)

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
        share = instruction.config.share
        if share == "argmax":
            return self._answer({"labels": np.zeros((1, shape[0]), dtype=np.int16)}, instruction)
        if share == "logits":
            return self._answer({"logits": np.zeros(shape, dtype=np.float32)}, instruction)
        return self._answer({"probs": np.full(shape, 1 / shape[1])}, instruction)

    def _answer(self, values: Mapping[str, NDArray[Any]], instruction: Instruction) -> Answer:
        """Return values with what is kept beside them, which no private row decides in any other way."""
        kept = self.memory(instruction) | self._answered(values, instruction)
        return Answer(values=values, kept=kept, meta={"learnt-from": self._source(instruction)})

    def finish(self, instruction: Instruction) -> Finished:
        """Learn from the final averages; SOLO sees the party's own rows for as long."""
        model, _ = self._taught(instruction)
        X, y = self._own_rows(instruction)
        alone = self.party.model(seed=instruction.seed("model"))
        self._start(alone, X, y, instruction)
        if alone.supports_soft_steps:
            self.practise(alone, X, y, instruction)
        return Finished(model=model, solo=self.party.metrics(alone), alone=alone)

    def _taught(self, instruction: Instruction) -> tuple[Classifier, list[str]]:
        fresh = self.party.model(seed=instruction.seed("model"))
        kept: Classifier | None = None
        notes: list[str] = []
        if fresh.supports_soft_steps and self._may_continue(instruction):
            kept, notes = restore(self.party, instruction)
        X, y = self._own_rows(instruction)
        lesson, model = self.lesson(instruction), kept or fresh
        if not model.supports_soft_steps:
            self._refit(model, X, y, lesson, self.weight(instruction))
            return model, notes
        if kept is None:
            self._start(model, X, y, instruction)
        if lesson is not None:
            self.improve(model, X, y, lesson, instruction)
        return model, notes

    def _source(self, instruction: Instruction) -> str:
        """Return which rows of its own a party learns from, in words."""
        subset = self._subsampling(instruction)
        return "all rows" if subset is None else subset.words

    def _may_continue(self, instruction: Instruction) -> bool:
        """Tell whether the kept model knows no row that this instruction's claim leaves out.

        A round under noise learns from all rows; a net kept from it would carry them into answers that a subset's claim
        lets out without noise.
        """
        saved, source = instruction.saved, self._source(instruction)
        if source == "all rows" or saved is None or saved.meta.get("learnt-from") == source:
            return True
        logger.warning("%s: the kept model learnt from other rows than %s: it starts afresh", self.party.name, source)
        return False

    def _start(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Give a net its first weights, from public labels where asked, and train it; fit any other learner."""
        if not model.supports_soft_steps:
            model.fit(X, y)
            return
        model.initialize()
        if epochs := instruction.config.pretrain_epochs:
            pretrain_on(self.party.public, model, epochs=epochs, seed=instruction.config.seed)
        self.begin(model, X, y, instruction)

    def _refit(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson | None, weight: float) -> None:
        if lesson is None or not weight:
            model.fit(X, y)
            return
        own = np.eye(self.party.public.num_classes)[y]
        model.fit_soft(np.concatenate([X, lesson.X]), np.concatenate([own, weight * lesson.targets]))

    def lesson(self, instruction: Instruction) -> Lesson | None:
        """Return what the last averages teach; None before there are any."""
        public, arrays = self.party.public, instruction.arrays
        if "previous" not in arrays:
            return None
        rows = decode_rows(arrays["previous"], num_public=public.num_rows)
        return self.taught_by(rows, self.averages(instruction, len(rows)), instruction)

    def memory(self, instruction: Instruction) -> dict[str, NDArray[Any]]:
        """Return the arrays that this party keeps for the next round."""
        return {}

    def averages(self, instruction: Instruction, count: int, *, name: str = "") -> NDArray[np.float32]:
        """Return the averages of ``count`` rows that come under ``name``; by default under that of their kind."""
        kind = instruction.config.kind
        name = name or kind
        if name not in instruction.arrays:
            raise PayloadError(explain("payload", f"hold {name} of the last rows", sorted(instruction.arrays)))
        spec, at = self.party.spec.rows(count), instruction.server_round
        return decode_scores(instruction.arrays[name], public=spec, server_round=at, kind=kind)

    def taught_by(self, rows: NDArray[np.int64], targets: NDArray[np.float32], instruction: Instruction) -> Lesson:
        """Return the lesson of averages (num_rows, num_classes) of these public rows."""
        config: ScoreExchangeConfig = instruction.config
        if config.kind == "logits" and config.loss != "l1-logits":
            shifted = np.exp(targets.astype(np.float64) - targets.max(axis=1, keepdims=True))
            targets = (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)
        return Lesson(X=self.party.public.X[rows], targets=targets, loss=config.loss)

    # ---------------------------------------------------------------- what leaves

    @staticmethod
    def is_last(instruction: Instruction) -> bool:
        """Tell whether the run is at its end: nothing more is asked."""
        return "indices" not in instruction.arrays

    def asked_rows(self, instruction: Instruction) -> NDArray[np.int64]:
        """Return the public rows that the server asks about."""
        return self._asked(instruction)

    def _asked(self, instruction: Instruction) -> NDArray[np.int64]:
        if self.is_last(instruction):
            return np.arange(self.party.public.num_rows)
        return decode_rows(instruction.arrays["indices"], num_public=self.party.public.num_rows)

    def asks(self, instruction: Instruction) -> Mapping[str, int]:
        """Return that a round asks about so many public rows."""
        return {} if self.is_last(instruction) else {"public-batch": self.num_rows(instruction)}

    def num_rows(self, instruction: Instruction) -> int:
        """Return how many public rows are asked."""
        return len(self._asked(instruction))

    def _answers(self, model: Classifier, instruction: Instruction) -> dict[str, NDArray[Any]]:
        X, share = self.party.public.X[self._asked(instruction)], instruction.config.share
        if share == "logits":
            return {"logits": model.logits(X)}
        if share == "argmax":
            return {"labels": model.predict(X)[None]}
        probs = model.predict_proba(X)
        return {"probs": probs / probs.sum(axis=1, keepdims=True)}

    def release(self, answer: Answer, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Add the noise that the run asks for."""
        mechanism = self._mechanism(instruction)
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
        bits, held = instruction.config.soft_bits, instruction.held
        return {
            name: encode_labels(array, public=spec, server_round=at)
            if name == "labels"
            else encode_scores(
                array,
                public=spec,
                server_round=at,
                kind=name,  # type: ignore[arg-type]
                bits=bits,
                base=held["answered"][self._asked(instruction)] if held else None,
            )
            for name, array in values.items()
        }

    def referable(self, saved: Saved, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Return this party's last answer on each public row, where changes alone are sent."""
        kept = saved.arrays.get("kept.answered") if instruction.config.delta_coding else None
        return {} if kept is None else {"answered": kept}

    def _answered(self, values: Mapping[str, NDArray[Any]], instruction: Instruction) -> dict[str, NDArray[Any]]:
        """Return what later answers may refer to, with this round's answers."""
        if not instruction.config.delta_coding:
            return {}
        base, total = instruction.held.get("answered"), self.party.public.num_rows
        bits, rows = instruction.config.soft_bits, self._asked(instruction)
        return {"answered": with_answers(base, rows, values["probs"], bits=bits, num_public=total)}

    # ---------------------------------------------------------------- what it costs

    def charge(self, instruction: Instruction) -> Charge | None:
        """Return the cost of a round's noisy answers; of one subset for ever, where it was not charged before."""
        if (subset := self._subsampling(instruction)) is not None:
            return self._charge_subset(subset)
        if not instruction.config.noisy:
            return None
        mechanism = self._mechanism(instruction)
        return Charge.of_party(mechanism.dp_event(), self.num_rows(instruction), mechanism.words)

    def _mechanism(self, instruction: Instruction) -> Mechanism:
        config: ScoreExchangeConfig = instruction.config
        return config.mechanism(num_classes=self.party.public.num_classes)

    def _subsampling(self, instruction: Instruction) -> Subsampling | None:
        """Return NFDP's draw as it is claimed: from as many rows as anybody may know that this party holds.

        Its true number of rows is private: with it a budget's refusal, or the refusal to draw more rows than there are,
        would tell two neighbouring data sets apart.
        """
        config: ScoreExchangeConfig = instruction.config
        if not config.subset_rows:
            return None
        if not self.party.whole:
            # held-out rows reorder the rest in each run, so stored row numbers would select other rows
            rule = "come with the same key in the run config, for parties to hold nothing out"
            raise PayloadError(explain("subset-rows", rule, config.subset_rows))
        claimed = Subsampling.claimed(
            rows_at_least=self.party.rows_at_least,
            subset_rows=config.subset_rows,
            replacement=config.subset_replacement,
        )
        return self._subsets().claimed(claimed)

    def _subsets(self) -> SubsetStore:
        if isinstance(self.party.ledger, NoLedger):
            way_out = "Give this party a ledger (a state-dir): a subset that nobody remembers would be drawn again."
            message = explain("ledger", "be given to learn from one subset for ever", None, way_out)
            raise DataError(message, code=Code.WRONG_CONFIG)
        return SubsetStore(self.party.ledger)

    def _charge_subset(self, subset: Subsampling) -> Charge:
        party = self.party
        if not subset.delta < 1 and party.demands_privacy:
            way_out = "Ask for fewer rows, or let this party say rows-at-least in its node config."
            known = f"all of the {subset.num_rows} that it is known to hold"
            message = explain("subset-rows", f"protect anybody at {party.name}", known, way_out)
            raise RefusalError(message, code=Code.PRIVACY_REQUIRED)
        paid = self._subsets().charged(subset)
        # all replies of all runs are computed from the one subset: only the first tells anything new
        event = dp.NoOpDpEvent() if paid else subset.dp_event()
        relation = "add, remove or replace one record"
        words = f"{subset.words}: charged before" if paid else subset.words
        return Charge(events=[(event, 1)], mechanism=words, neighbouring_relation=relation, once=True)

    def _drawn(self, instruction: Instruction) -> NDArray[np.int64] | None:
        """Return the slots of the party's one subset, drawn if this is the first time; None without NFDP.

        They are drawn from all rows of its file, or from as many as are claimed where it holds fewer: slots beyond its
        rows are empty, and what is learnt from then is less.
        """
        subset = self._subsampling(instruction)
        if subset is None:
            return None
        return self._subsets().rows(subset, num_rows=self.party.num_rows, rng=self.noise_rng)

    def _own_rows(self, instruction: Instruction) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the rows to learn from: all, or the party's one subset."""
        subset, slots, party = self._subsampling(instruction), self._drawn(instruction), self.party
        if subset is None or slots is None:
            return party.X, party.y
        if instruction.server_round == 1:
            claim = subsampling(subset)
            notes = " ".join(claim.notes)
            numbers = (
                f"epsilon {bound_text(claim.epsilon)}, delta {bound_text(claim.delta)} ({claim.neighbouring_relation})"
            )
            logger.info("%s learns from a %s: %s. %s", party.name, subset.words, numbers, notes)
        rows = party.rows_in(slots)
        if len(rows) < len(slots):
            words = "%s learns from %d rows only: %d of the %d drawn slots are empty, beyond its %d rows or unusable"
            logger.warning(words, party.name, len(rows), len(slots) - len(rows), len(slots), party.num_rows)
        others = np.setdiff1d(np.arange(len(party.y)), rows)
        # what it measures on them stays with it: beside a claim the base class lets no metric out
        tests = {**party.tests, "own": (party.X[others], party.y[others])}
        measured = replace(party, tests=tests)
        self.party = measured
        return party.X[rows], party.y[rows]


class DigestClient(ScoreClient):
    """A party that learns the averages by themselves, before or after its own rows. Parameters as in `ScoreClient`."""

    def begin(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train for T1 epochs."""
        model.train_epochs(X, y, epochs=instruction.config.initial_epochs)

    def improve(
        self, model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson, instruction: Instruction
    ) -> None:
        """Digest for T2 epochs and revisit for T3, in the order the run says; at the end, digest at least."""
        config: DigestConfig = instruction.config
        last = self.is_last(instruction) and not config.final_revisit
        revisit = 0 if last else config.revisit_epochs
        if revisit and config.digest_order == "revisit-first":
            model.train_epochs(X, y, epochs=revisit)
        digest, batch = config.digest_epochs, config.digest_batch
        model.digest(lesson.X, lesson.targets, epochs=digest, loss=lesson.loss, batch_size=batch)
        if revisit and config.digest_order == "digest-first":
            model.train_epochs(X, y, epochs=revisit)

    def practise(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train for T3 epochs as often as with the averages."""
        if epochs := instruction.config.revisited(instruction.server_round):
            model.train_epochs(X, y, epochs=epochs)
