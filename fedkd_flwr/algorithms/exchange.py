"""Settings that several algorithms share and that mean the same in all of them; each algorithm takes what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import PAPER, ExchangeConfig, setting
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.density import Robust
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.labels.trust import TRUST_UNIT, label_trusts, steadied_weights, trusted_weights
from fedkd_flwr.labels.voting import (
    ABSTAIN,
    HALF,
    Labels,
    Ties,
    Uninformative,
    VoteCounter,
    consistent_labels,
    is_informative,
    voter_weights,
)
from fedkd_flwr.privacy.noise.labels import LabelNoise, label_mechanism
from fedkd_flwr.privacy.noise.none import NoNoise

__all__ = ["ClaimConfig", "EpsilonConfig", "LabelNoiseConfig", "LocalEpochsConfig", "StepsConfig", "TiesConfig"]
__all__ += ["VoteFacts", "VotersConfig", "epochs_on_pooled", "steps_on_pooled", "tally"]

LabelMechanism = Literal["none", "auto", "randomized-response", "xor"]
_DROP_IT = "It would be ignored: drop it, or choose a noise"
_NOISES = {"level": "L2 noise=gaussian", "noise": "gaussian", "score_noise": "gaussian"}
_NOISES["label_mechanism"] = "auto (for a whole party), algorithm=fedkt fedkt.level=L2 noise=gaussian (for a record)"


class TiesConfig(ExchangeConfig):
    """How equal votes are broken."""

    ties: Ties = setting("random", told=True, section=PAPER)
    """What an equal number of votes gives: a class drawn from the seed, or the lowest class number, as published codes
    do."""


class VotersConfig(TiesConfig):
    """What becomes of the votes of parties that give one class to every public row."""

    usual_rule: ClassVar[Uninformative] = "half"

    one_class_voters: Literal["auto", "half", "leave-out", "count"] = setting("auto", section=PAPER)
    """What the votes of a party that gives one class to all public rows weigh: half, nothing (leave-out), or as much as
    others' (count), as in the papers. auto: half in FedKT and PATE, nothing in FedCT."""

    distrust: Literal["auto", "none"] = setting("auto")
    """What a party counts whose answers others do not confirm: labels swapped, nearly all of one class, or random.
    auto: less, down to nothing, but not beside noise, where the claim rests on what each vote counts. none: as much as
    others, as in the papers."""

    known_rows: int = setting(0, ge=0, zero="none")
    """Public rows whose labels the server knows and parties do not: some 200, or 20 a class. With consensus auto they
    judge each party's labels, and which rule is best. At silos: rows with a label in the server's copy of the public
    file."""

    send: Literal["auto", "labels", "probabilities"] = setting("auto", only={"consensus": ("auto",)})
    """What parties send of each public row, where there is no noise. probabilities: how likely each class is, in 4 bits
    a class but one, and class counts; the consensus is then a probability, and learnt as one. A node sends them only if
    its allow-vote-rules names probabilities. auto: probabilities of rows drawn from noisy sums, else labels."""

    @property
    def vote_rule(self) -> str:
        """The vote rule of the run: the one that ``send`` takes, or ``consensus``."""
        return self.send if self.send == "probabilities" else getattr(self, "consensus", "majority")

    def on_drawn_rows(self) -> Self:
        """Return these settings where public rows are drawn from noisy sums: auto sends probabilities where it may."""
        free = self.send == self.vote_rule == "auto" and not (self.noisy or self.known_rows)
        return self.changed(send="probabilities") if free else self

    @property
    def weighs_by_trust(self) -> bool:
        """Whether parties' labels count by how far others confirm them."""
        return self.distrust != "none" and not self.noisy

    @property
    def robust_sum(self) -> Robust:
        """How density ratios are added up."""
        return "trust" if self.distrust == "auto" else "none"

    @property
    def voters_rule(self) -> Uninformative:
        """The rule in force."""
        return self.usual_rule if self.one_class_voters == "auto" else self.one_class_voters

    @property
    def unit(self) -> int:
        """How many counted units make one vote: votes are counted in halves where a party may cast half of one."""
        return HALF if self.voters_rule == "half" else 1

    @property
    def asked(self) -> str:
        """The vote rule whose needs parties are asked for; "" for labels alone, as always beside noise."""
        return "" if self.noisy else RULES[self.vote_rule].asks

    def check(self) -> None:
        """Refuse rules that need more than labels beside a claim, and known rows that would be ignored or break one."""
        super().check()
        consensus = getattr(self, "consensus", "")
        if self.noisy and self.send == "probabilities":
            way_out = "No noise on probabilities is proven: drop it, or the noise."
            raise ConfigError(explain(self.keys()["send"], 'be "labels" beside noise', self.send, way_out))
        if self.known_rows and (self.noisy or self.vote_rule != "auto"):
            beside = f"consensus {consensus!r}" if consensus != "auto" else f"send {self.send!r}"
            rule = "be 0 beside noise" if self.noisy else f"be 0 with {beside}, which would ignore it"
            alike = "A claim counts every vote alike: drop it."
            way_out = alike if self.noisy else 'Use consensus "auto" and send "labels".'
            raise ConfigError(explain(self.keys()["known_rows"], rule, self.known_rows, way_out))
        if self.privacy == "server" and consensus in RULES and RULES[consensus].of_order:
            way_out = 'Noise at the server finds the class with most votes: use "auto", or noise at the parties.'
            raise ConfigError(explain(self.keys()["consensus"], "be auto with noise at the server", consensus, way_out))
        if self.noisy and consensus in RULES and RULES[consensus].needs:
            key = self.keys()["consensus"]
            way_out = 'It needs more than labels, and no noise on that is proven: use "auto", or a run without noise.'
            raise ConfigError(explain(key, f"be another than {consensus} beside noise", consensus, way_out))


class ClaimConfig(ExchangeConfig):
    """What every privacy claim needs."""

    delta: float = setting(1e-5, gt=0, lt=1)
    """The delta that stands beside every epsilon of the run; less than 1 / number of records."""

    def check(self) -> None:
        """Refuse a delta of no claim."""
        super().check()
        if self.delta != self.default("delta") and self.privacy == "none":
            raise ConfigError(explain("delta", "keep its default in a run without noise", self.delta, f"{_DROP_IT}."))


class EpsilonConfig(ClaimConfig):
    """Noise that is found from what it may cost."""

    epsilon: float = setting(0.0, ge=0, first=True, zero="none")
    """What the noise of the whole run may cost: its strength is found from this. none: no noise, or
    paper.noise-strength."""
    noise_strength: float = setting(0.0, ge=0, told=True, zero="auto", section=PAPER)
    """The noise in place of epsilon. On labels: epsilon of one label. On votes: gamma of Laplace noise (of scale 1 /
    gamma votes), or standard deviation in votes. On scores: scale or standard deviation. In DP-FedAvg and noisy sums:
    standard deviation, in clipping norms or what one record moves. auto: found from epsilon; without one 1 in
    DP-FedAvg, that of epsilon 1 in noisy sums."""

    def check(self) -> None:
        """Refuse a strength of no noise, and two of one noise."""
        super().check()
        keys = self.keys()
        for name in ("epsilon", "noise_strength"):
            if (seen := getattr(self, name)) and not self.noisy:
                rule, ways = f"be {self.zeros()[keys[name]]} without noise", [one for one in _NOISES if one in keys]
                raise ConfigError(explain(keys[name], rule, seen, f"{_DROP_IT}: {keys[ways[0]]}={_NOISES[ways[0]]}."))
        if self.epsilon and self.noise_strength:
            rule, way_out = f"be none beside {keys['noise_strength']}", "Give one: epsilon is for the whole run."
            raise ConfigError(explain(keys["epsilon"], rule, self.epsilon, way_out))

    def check_given(self) -> None:
        """Refuse a noise without a strength."""
        if self.noisy and not (self.epsilon or self.noise_strength):
            rule, way_out = "be given with noise", "Epsilon is for the whole run; the strength is found from it."
            keys = self.keys()
            raise ConfigError(explain(f"{keys['epsilon']} or {keys['noise_strength']}", rule, "none", way_out))


class LabelNoiseConfig(EpsilonConfig):
    """What a party does to each label it sends."""

    label_mechanism: LabelMechanism = setting("none", told=True, first=True)
    """Noise that a party puts on each label before it leaves; auto: what leaves less noise in the votes. For scores:
    randomized-response, with answer-form argmax."""

    def label_noise(self, *, num_classes: int, num_labels: int) -> LabelNoise:
        """Return what is done to each label; found from ``epsilon`` where no strength is given.

        ``num_labels`` are those that ``epsilon`` covers together: of all rounds.
        """
        if self.label_mechanism == "none":
            return NoNoise()
        if self.noise_strength:
            return label_mechanism(self.label_mechanism, epsilon=self.noise_strength, num_classes=num_classes)
        from fedkd_flwr.privacy.cost.calibration import calibrate_labels

        given: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "num_classes": num_classes}
        return calibrate_labels(self.label_mechanism, num_labels=num_labels, **given)


class StepsConfig(ExchangeConfig):
    """How long gradient learners train between two exchanges, in minibatch steps."""

    steps_per_round: int = setting(200, ge=1, le=100_000, told=True)
    """Minibatch steps that a torch net trains between two exchanges; other models fit as they always do."""


class LocalEpochsConfig(ExchangeConfig):
    """How long parties train the net that the server sent, in passes over their rows."""

    local_epochs: int = setting(5, ge=1, le=1000, told=True)
    """Passes of a party over its rows in each round, where a net goes round."""
    solo_epochs: int = setting(0, ge=0, le=100_000, told=True, section=PAPER, zero="auto")
    """Passes of the net that a party trains alone for comparison. auto: as many as in its rounds."""

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings with as many passes of SOLO as ``num_rounds`` rounds make."""
        return self.changed(solo_epochs=self.solo_epochs or self.local_epochs * max(num_rounds, 1))


@dataclass(frozen=True, kw_only=True)
class VoteFacts:
    """What a vote shows besides its result; computed from labels as they arrived, so for the operator alone."""

    discounted: int = 0  # parties that label every row alike and cast less than their full votes
    # (num_classes,): how many parties gave each class to a row; None under the parties' noise, where each gives all
    class_voters: NDArray[np.int32] | None = None
    kept_share: float | None = None  # expected share of answers that the parties' noise left as they were, if any
    trusts: NDArray[np.float64] | None = None  # (num_parties,): what each counted, 0 to 1; None: all alike
    steadied: bool = False  # whether parties of nearly one class cast less together, because trust cannot tell
    num_votes: int = 0  # what all parties together may cast on a row, in units of the votes


def _weights(
    answers: Sequence[Labels], config: VotersConfig, num_classes: int, alike: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], int, VoteFacts]:
    """Return how many units each party casts, how many units make one vote, and what decided that."""
    weights = voter_weights(answers, uninformative=config.voters_rule)
    facts = VoteFacts(discounted=sum(weight < HALF for weight in weights))
    if config.weighs_by_trust and (trusts := label_trusts(answers, num_classes=num_classes)) is not None:
        return trusted_weights(weights, trusts, alike), HALF * TRUST_UNIT, replace(facts, trusts=trusts)
    if config.weighs_by_trust and (units := steadied_weights(weights, answers)) is not None:
        return units, HALF * TRUST_UNIT, replace(facts, steadied=True)
    return np.array(weights, dtype=np.int64), HALF, facts


def tally(answers: Sequence[Labels], *, config: VotersConfig, num_classes: int) -> tuple[NDArray[np.int32], VoteFacts]:
    """Count the parties' votes: (num_public, num_classes) int32, in units of ``1 / config.unit`` votes.

    They are in hundredths of these where ``facts.trusts`` weigh or ``facts.steadied``. ``answers`` are each party's
    label arrays, (num_arrays, num_public) int16, one for each of its students; a party counts only where all of
    them agree, and it then casts a vote for each. What it counts goes by what its own labels tell, and by how far
    others confirm them. Where trust weighs, parties that label every row alike label no row on which nobody else votes.

    Two parties with two students each; the second's disagree on the last row:

    >>> answers = [np.array([[0, 1], [0, 1]], np.int16), np.array([[0, 1], [0, 0]], np.int16)]
    >>> config = VotersConfig(one_class_voters="count")
    >>> tally(answers, config=config, num_classes=2)[0].tolist()
    [[4, 0], [0, 2]]
    """
    alike = np.array([not is_informative(labels) for labels in answers])
    weights, unit, facts = _weights(answers, config, num_classes, alike)
    if not weights.any() and config.privacy != "server":
        weights = np.full_like(weights, unit)  # nobody tells classes apart (beside noise all parties would decide it)
    counter, idle = (VoteCounter(num_public=answers[0].shape[-1], num_classes=num_classes) for _ in range(2))
    class_voters, num_votes = np.zeros(num_classes, dtype=np.int32), 0
    for labels, weight, same in zip(answers, weights, alike, strict=True):
        if not (units := int(weight) * config.unit // HALF):
            continue
        cast = consistent_labels(labels)
        (idle if same else counter).add(cast, weight=units * len(labels))
        class_voters[np.unique(cast[cast != ABSTAIN])] += 1
        num_votes += units * len(labels)
    votes = counter.votes
    votes = votes + (idle.votes if facts.trusts is None else idle.votes * votes.any(axis=1, keepdims=True))
    return votes, replace(facts, class_voters=class_voters, num_votes=num_votes)


def steps_on_pooled(
    model: Any, X: NDArray[Any], y: NDArray[Any], *, config: StepsConfig, rounds: int, num_public: int
) -> object:
    """Train a model on pooled rows: nets take the steps that parties took, others fit."""
    return model.update(X, y, steps=config.steps_per_round * (rounds + 1)) if model.takes_steps else model.fit(X, y)


def epochs_on_pooled(
    model: Any, X: NDArray[Any], y: NDArray[Any], *, config: LocalEpochsConfig, rounds: int, num_public: int
) -> object:
    """Train a net on pooled rows for as many passes as a party asked in each of ``rounds`` rounds."""
    return model.train_epochs(X, y, epochs=config.local_epochs * rounds)
