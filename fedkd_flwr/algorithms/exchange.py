"""Settings that several algorithms share and that mean the same in all of them; each algorithm takes what it reads."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import ExchangeConfig, setting
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.consensus import Ties
from fedkd_flwr.labels.voting import Uninformative
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse, label_mechanism

__all__ = [
    "ClaimConfig",
    "EpsilonConfig",
    "LabelNoiseConfig",
    "LocalEpochsConfig",
    "StepsConfig",
    "TiesConfig",
    "VotersConfig",
    "epochs_on_pooled",
    "steps_on_pooled",
]


class TiesConfig(ExchangeConfig):
    """How equal votes are broken."""

    ties: Ties = setting(
        "random",
        told=True,
        help="Equal votes: drawn from the seed, or the lowest class number as published codes do.",
    )


class VotersConfig(TiesConfig):
    """What becomes of the votes of parties that give one class to every public row."""

    usual_rule: ClassVar[Uninformative] = "half"

    informative_voters_only: bool = setting(
        True, help="Discount the votes of a party that gives all public rows one class; false reproduces the papers."
    )
    uninformative_voters: Literal["auto", "half", "leave-out"] = setting(
        "auto",
        only={"informative_voters_only": (True,)},
        help="How: they cast half their votes, or none. auto: half in FedKT and PATE, none in FedCT.",
    )

    @property
    def voters_rule(self) -> Uninformative:
        """The rule in force."""
        if not self.informative_voters_only:
            return "count"
        return self.usual_rule if self.uninformative_voters == "auto" else self.uninformative_voters


class ClaimConfig(ExchangeConfig):
    """What every privacy claim needs."""

    delta: float = setting(
        1e-5, gt=0, lt=1, help="The delta that stands beside every epsilon of the run; less than 1 / number of records."
    )

    def check(self) -> None:
        """Refuse a delta of no claim."""
        super().check()
        if self.delta != self.default("delta") and self.privacy == "none":
            way_out = "It would be ignored: drop it, or choose a noise."
            raise ConfigError(explain("delta", "keep its default in a run without noise", self.delta, way_out))


class EpsilonConfig(ClaimConfig):
    """Noise that is found from what it may cost."""

    epsilon: float = setting(
        0.0, ge=0, help="What the noise of the whole run may cost: it is found from this. 0: the noise is given."
    )


class LabelNoiseConfig(EpsilonConfig):
    """What a party does to each label it sends."""

    label_mechanism: Literal["none", "auto", "randomized-response", "xor"] = setting(
        "none",
        told=True,
        help="What a party does to each label before it leaves; auto takes what leaves less noise in the votes. "
        'Where scores are exchanged: randomized-response alone, with share="argmax".',
    )
    label_epsilon: float = setting(0.0, ge=0, told=True, help="Epsilon of one label, in place of epsilon.")

    def label_noise(
        self, *, num_classes: int, num_labels: int, calibration: Literal["exact", "paper"] = "exact"
    ) -> RandomizedResponse | BitFlip | None:
        """Return what is done to each label; found from ``epsilon`` where no epsilon of a label is given.

        Parameters
        ----------
        num_classes : int
            Number of classes.
        num_labels : int
            Labels that ``epsilon`` covers together: those of all rounds.
        calibration : {"exact", "paper"}
            Of bit flips.
        """
        if self.label_mechanism == "none":
            return None
        if self.label_epsilon:
            return label_mechanism(
                self.label_mechanism, epsilon=self.label_epsilon, num_classes=num_classes, calibration=calibration
            )
        from fedkd_flwr.privacy.cost.calibration import calibrate_labels

        found: RandomizedResponse | BitFlip = calibrate_labels(
            self.label_mechanism,
            num_labels=num_labels,
            epsilon=self.epsilon,
            delta=self.delta,
            num_classes=num_classes,
            calibration=calibration,
        )
        return found

    def check_given(self, **given: float) -> None:
        """Refuse a noise with no strength or with two, and a strength without noise."""
        named = {name: value for name, value in given.items() if value}
        noisy = self.privacy == "party"
        if len(named) != noisy:
            keys = self.keys()
            seen = ", ".join(f"{keys[name]} {value:g}" for name, value in given.items())
            rule = "be given, exactly one of them, with noise" if noisy else "be 0 without noise"
            way_out = f"{keys['epsilon']} is for the whole run, the others for one answer."
            raise ConfigError(explain(" or ".join(keys[name] for name in given), rule, seen, way_out))


class StepsConfig(ExchangeConfig):
    """How long gradient learners train between two exchanges, in minibatch steps."""

    steps_per_round: int = setting(
        200,
        ge=1,
        told=True,
        help="Minibatch steps of torch nets between two exchanges; other models fit as they always do.",
    )


class LocalEpochsConfig(ExchangeConfig):
    """How long parties train the net that the server sent, in passes over their rows."""

    local_epochs: int = setting(5, ge=1, told=True, help="Passes of a party over its rows in each round.")
    solo_epochs: int = setting(
        0,
        ge=0,
        told=True,
        help="Passes of the net that a party trains alone for comparison. 0: as many as in its rounds.",
    )

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings with as many passes of SOLO as ``num_rounds`` rounds make."""
        return self.changed(solo_epochs=self.solo_epochs or self.local_epochs * max(num_rounds, 1))


def steps_on_pooled(model: Any, X: NDArray[Any], y: NDArray[Any], *, config: StepsConfig, rounds: int) -> object:
    """Train a model on pooled rows: gradient learners take the steps that parties took, others fit."""
    return model.update(X, y, steps=config.steps_per_round * (rounds + 1)) if model.continues else model.fit(X, y)


def epochs_on_pooled(model: Any, X: NDArray[Any], y: NDArray[Any], *, config: LocalEpochsConfig, rounds: int) -> object:
    """Train a net on pooled rows for as many passes as a party asked in each of ``rounds`` rounds."""
    return model.train_epochs(X, y, epochs=config.local_epochs * rounds)
