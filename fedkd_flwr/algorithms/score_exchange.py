"""The average of class scores on some public rows a round: what FedMD, DD and their kin have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import PAPER, Privacy, setting
from fedkd_flwr.algorithms.exchange import LabelNoiseConfig
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.scores import onto_simplex
from fedkd_flwr.labels.voting import Labels
from fedkd_flwr.privacy.noise.labels import RandomizedResponse, kept_share
from fedkd_flwr.privacy.noise.none import NoNoise
from fedkd_flwr.privacy.noise.scores import NoisyScores

__all__ = ["DISTILLATION_BATCH", "LOGIT_BOUND", "DigestConfig", "ScoreExchangeConfig", "ScoreFacts"]
__all__ += ["aggregate", "as_labels", "passes_on_pooled"]

USUAL_BATCH = 5000
LOGIT_BOUND = 10.0
"""Under noise, logits are clipped to plus or minus this."""
DISTILLATION_BATCH = 64
"""Rows of a minibatch when a net learns the averages; on its own rows it takes its own batch size."""
Mechanism = RandomizedResponse | NoisyScores | NoNoise


class ScoreExchangeConfig(LabelNoiseConfig):
    """What every exchange of scores has in common."""

    usual_loss: ClassVar[str] = "cross-entropy"
    sharpens: ClassVar[bool] = False  # whether the averages are sharpened: then they are probabilities

    answer_form: Literal["logits", "softmax", "argmax"] = setting("softmax", told=True)
    """What parties send of each public row, where scores are exchanged: a net's outputs (logits; not in DS-FL and
    SCARLET), class probabilities (softmax), or labels (argmax)."""
    public_rows_per_round: int = setting(0, ge=0, zero="auto")
    """How many public rows a round of scores asks for, drawn from the seed. auto: 5,000, or all where there are
    fewer."""
    score_bits: Literal[32, 16, 8, 4, 2, 1] = setting(32, told=True)
    """Precision of the scores that parties send: floats of 32 or 16 bits, or probabilities in steps of 8 to 1 bits
    (CFD)."""
    pretrain_epochs: int = setting(0, ge=0, le=1000, told=True, section=PAPER)
    """Passes over labelled public rows (paper.public-label-column) with which every torch net starts. 0: none."""
    subset_rows: int = setting(0, ge=0, told=True, zero="all")
    """NFDP: each party learns from so many of its rows only, drawn once for ever. all: no subset."""
    subset_replacement: bool = setting(True, told=True, section=PAPER)
    """NFDP: whether a row may be drawn several times into a party's subset (subset-rows)."""
    score_noise: Literal["none", "laplace", "gaussian"] = setting(
        "none", told=True, only={"answer_form": ("logits", "softmax")}
    )
    """Noise that a party puts on the logits or probabilities it sends."""

    @property
    def privacy(self) -> Privacy:
        """Parties add noise or learn from a subset, or nobody does anything."""
        return "party" if self.noisy or self.subset_rows else "none"

    @property
    def noisy(self) -> bool:
        """Whether parties add noise to their answers."""
        return self.score_noise != "none" or self.label_mechanism != "none"

    @property
    def kind(self) -> Literal["logits", "probs"]:
        """What the averages are."""
        return "logits" if self.answer_form == "logits" else "probs"

    @property
    def payload(self) -> Literal["labels", "probs", "logits", "scores"]:
        """What a reply carries: ``scores`` are probabilities with noise on them."""
        if self.answer_form == "softmax":
            return "scores" if self.noisy else "probs"
        return "logits" if self.answer_form == "logits" else "labels"

    @property
    def bits_down(self) -> int:
        """The precision of the averages."""
        return 16 if self.answer_form == "argmax" else self.score_bits

    @property
    def loss(self) -> str:
        """The loss with which nets learn averages."""
        return "l1-logits" if self.answer_form == "logits" else self.usual_loss

    def check(self) -> None:
        """Refuse noises that do not fit what is shared."""
        super().check()
        keys = self.keys()
        if self.sharpens and self.answer_form == "logits":
            rule = "be softmax or argmax where averages are sharpened"
            raise ConfigError(explain(keys["answer_form"], rule, self.answer_form, "Use fedmd for logits."))
        if self.label_mechanism != "none" and self.answer_form != "argmax":
            way_out = 'Use score-noise for logits and probabilities, or answer-form "argmax".'
            rule = f"be none for answer-form {self.answer_form!r}"
            raise ConfigError(explain(keys["label_mechanism"], rule, self.label_mechanism, way_out))
        if self.label_mechanism not in ("none", "randomized-response"):
            way_out = "A party answers too few rows a round for bits to pay."
            rule = "be none or randomized-response where scores are averaged"
            raise ConfigError(explain(keys["label_mechanism"], rule, self.label_mechanism, way_out))
        if self.score_bits <= 8 and (self.answer_form == "logits" or self.score_noise != "none"):
            rule, way_out = "be 16 or 32 for logits and noisy scores", "Only probabilities come in fewer bits."
            raise ConfigError(explain(keys["score_bits"], rule, self.score_bits, way_out))
        self.check_given()
        if self.noisy and self.subset_rows:
            way_out = "Use noise, or a subset without noise."
            raise ConfigError(explain(keys["subset_rows"], "be 0 with noise", self.subset_rows, way_out))
        if not self.subset_rows and not self.subset_replacement:
            way_out = f"It would be ignored: drop it, or set {keys['subset_rows']}."
            raise ConfigError(explain(keys["subset_replacement"], "be true without a subset", False, way_out))

    def batch(self, num_public: int) -> int:
        """Return how many public rows a round asks; raise `ConfigError` if there are fewer."""
        rows = self.public_rows_per_round or min(USUAL_BATCH, num_public)
        if not rows <= num_public:
            way_out = "Lower public-rows-per-round, or 0 for the usual number."
            raise ConfigError(explain("public-rows-per-round", f"be at most {num_public} (public rows)", rows, way_out))
        return rows

    def mechanism(self, *, num_classes: int, num_answers: int = 0) -> Mechanism:
        """Return what a party does to one row's answer.

        ``num_answers`` are the rows answered in all rounds, which ``epsilon`` covers together.
        """
        if self.label_mechanism != "none":
            found = self.label_noise(num_classes=num_classes, num_labels=num_answers)
            return found if isinstance(found, RandomizedResponse) else NoNoise()
        if self.score_noise == "none":
            return NoNoise()
        noise, bound = self.score_noise, LOGIT_BOUND if self.answer_form == "logits" else 0.0

        def make(scale: float) -> NoisyScores:
            return NoisyScores(noise=noise, kind=self.kind, num_classes=num_classes, scale=scale, bound=bound)

        if self.noise_strength:
            return make(self.noise_strength)
        from fedkd_flwr.privacy.cost.calibration import calibrate

        return calibrate(make, count=num_answers, epsilon=self.epsilon, delta=self.delta)

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings with the noise found: what parties are told."""
        found = self.mechanism(num_classes=num_classes, num_answers=self.batch(num_public) * num_rounds)
        if isinstance(found, NoNoise):
            return self
        strength = found.epsilon if isinstance(found, RandomizedResponse) else found.scale
        return self.changed(epsilon=0.0, noise_strength=strength)


class DigestConfig(ScoreExchangeConfig):
    """How parties learn the averages by themselves, before their own rows: FedMD's way."""

    initial_epochs: int = setting(20, ge=1, le=1000, told=True, section=PAPER)
    """FedMD's T1: passes over its own rows with which a party starts."""
    distillation_epochs: int = setting(2, ge=1, le=1000, told=True, section=PAPER)
    """FedMD's T2: passes over the last round's public rows and averages."""
    own_rows_epochs: int = setting(1, ge=0, le=1000, told=True, section=PAPER)
    """FedMD's T3: passes over its own rows after those over the averages. 0: none."""
    final_own_rows: bool = setting(True, told=True, section=PAPER)
    """FedMD: whether passes over own rows follow the very last averages too, as published; else parties end with what
    all agree on."""

    def revisited(self, rounds: int) -> int:
        """Return the passes over its own rows that a party makes after digesting in a run of so many rounds."""
        return self.own_rows_epochs * (rounds if self.final_own_rows else max(rounds - 1, 0))


@dataclass(frozen=True, kw_only=True)
class ScoreFacts:
    """What an average of answers shows besides its result."""

    agreement: float  # mean share of rows on which a party gives the class of the largest average
    kept_share: float | None = None  # expected share of labels that noise left as they were; None for scores


def as_labels(answer: NDArray[Any]) -> Labels:
    """Return an answer's classes: labels (n,) as they are, of scores (n, C) the class of the largest."""
    return answer if answer.ndim == 1 else answer.argmax(axis=1).astype(np.int16)


def aggregate(
    answers: Sequence[NDArray[Any]],
    *,
    config: ScoreExchangeConfig,
    num_classes: int,
    rng: np.random.Generator | None = None,
) -> tuple[NDArray[np.float64], ScoreFacts]:
    """Return the average of the parties' answers: logits, or probabilities of sum 1, float64 (num_rows, num_classes).

    ``answers``, in party-name order, are logits or probabilities of shape (num_rows, num_classes), float, or labels of
    shape (num_rows,), int16, without `ABSTAIN`. The noise of ``config`` is found. ``rng`` is not used: averages have no
    ties.

    Labels average to shares:

    >>> answers = [np.array(labels, np.int16) for labels in ([0, 1], [0, 0], [0, 1], [0, 1])]
    >>> config = ScoreExchangeConfig(answer_form="argmax")
    >>> aggregate(answers, config=config, num_classes=2)[0].tolist()
    [[1.0, 0.0], [0.25, 0.75]]
    """
    matrix = np.stack([as_labels(answer) for answer in answers])
    weight = 1 / len(answers)  # every party counts alike, as published
    total = np.zeros((matrix.shape[1], num_classes))
    rows = np.arange(matrix.shape[1])
    for answer in answers:
        if answer.ndim == 1:
            total[rows, answer] += weight
        else:
            total += weight * answer.astype(np.float64)
    mechanism = config.mechanism(num_classes=num_classes)
    share = None
    if isinstance(mechanism, RandomizedResponse):
        counts = np.rint(total * len(answers)).astype(np.int64)
        total, share = mechanism.debias(counts, len(answers)) / len(answers), kept_share(mechanism)
    if config.kind == "probs":
        # noise leaves no probabilities: the closest ones are what can be learnt from
        total = onto_simplex(total) if config.noisy else total
        total = total / total.sum(axis=1, keepdims=True)
    return total, ScoreFacts(agreement=float((matrix == total.argmax(axis=1)).mean()), kept_share=share)


def passes_on_pooled(
    model: Any, X: NDArray[Any], y: NDArray[Any], *, config: DigestConfig, rounds: int, num_public: int
) -> object:
    """Train a model on pooled rows: nets make the passes that the parties made over their own rows, others fit."""
    epochs = config.initial_epochs + config.revisited(rounds)
    return model.train_epochs(X, y, epochs=epochs) if model.supports_soft_steps else model.fit(X, y)
