"""The cards and settings of the baselines. Reading them imports no Flower: both sides are in a file each."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from fedkd_flwr.algorithms.card import PAPER, Card, ExchangeConfig, Privacy, fit, setting
from fedkd_flwr.algorithms.dd import DDConfig
from fedkd_flwr.algorithms.exchange import EpsilonConfig, LocalEpochsConfig, epochs_on_pooled, steps_on_pooled
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.privacy.noise.sums import ClippedSum

__all__ = ["DP_FEDAVG", "FEDAVG", "FEDDF", "FEDKT_PROX", "FEDPROX", "FEDXGB_BAGGING", "PFNM", "POOLED_FOREST"]
__all__ += ["SCAFFOLD", "STACKED", "DPFedAvgConfig", "FedKTProxConfig", "FedProxConfig", "FedXGBBaggingConfig"]
__all__ += ["StackedConfig"]


class FedProxConfig(LocalEpochsConfig):
    """Settings of FedProx."""

    section: ClassVar[str] = "fedprox"

    proximal_mu: float = setting(0.1, ge=0, told=True)
    """Weight of FedProx's term that holds a party's net near the server's; 0 is FedAvg."""


class FedXGBBaggingConfig(ExchangeConfig):
    """Settings of FedXGB-Bagging."""

    section: ClassVar[str] = "fedxgb-bagging"

    leaves: Literal["mean", "sum"] = setting("mean", section=PAPER)
    """How new trees of FedXGB-Bagging's parties count: each leaf divided by how many parties answered (mean), or as
    they are (sum), which overshoots where many parties are alike."""


class StackedConfig(DDConfig):
    """Settings of Stacked."""

    section: ClassVar[str] = "stacked"
    sharpens: ClassVar[bool] = True  # what is learnt are probabilities, so they are not made of logits

    known_rows: ClassVar[int] = 200  # or half of the public ones, whose labels teach the server

    def check(self) -> None:
        """Refuse answers about some rows alone."""
        super().check()
        if seen := self.public_rows_per_round:
            rule, way_out = "be auto: all public rows are stacked", "Drop it, or use dd."
            raise ConfigError(explain(self.keys()["public_rows_per_round"], rule, seen, way_out))


class DPFedAvgConfig(LocalEpochsConfig, EpsilonConfig):
    """Settings of DP-FedAvg."""

    section: ClassVar[str] = "dp-fedavg"

    clip: float = setting(1.0, ge=1e-6, le=1e6)
    """L2 norm to which DP-FedAvg's server scales a party's update (its weights minus those it got) down, if it is
    longer."""

    @property
    def privacy(self) -> Privacy:
        """The server adds the noise, always."""
        return "server"

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings as parties are told them: the noise is the server's own affair."""
        found = super().resolved(num_public=num_public, num_classes=num_classes, num_rounds=num_rounds)
        return found.changed(noise_strength=0.0)

    def mechanism(self, num_rounds: int) -> ClippedSum:
        """Return the noise of one round; found from ``epsilon``, where that is given, for a party asked in all."""
        if not self.epsilon:
            return ClippedSum(clip=self.clip, noise_multiplier=self.noise_strength or 1.0)
        from fedkd_flwr.privacy.cost.calibration import calibrate

        def make(multiplier: float) -> ClippedSum:
            return ClippedSum(clip=self.clip, noise_multiplier=multiplier)

        return calibrate(make, count=num_rounds, epsilon=self.epsilon, delta=self.delta)


class FedKTProxConfig(FedProxConfig, FedKTConfig):
    """Settings of FedKT-Prox: ``fedkt.*`` for its first round, ``fedprox.*`` for those after it."""

    def check(self) -> None:
        """Refuse noise: FedProx's weights carry none."""
        for name, alone in (("level", "L0"), ("noise", "none")):
            if (seen := getattr(self, name)) != alone:
                rule, way_out = f"be {alone}: FedProx's weights carry no noise", "Drop it, or use fedkt."
                raise ConfigError(explain(self.keys()[name], rule, seen, way_out))
        super().check()
        if not self.party_models:
            way_out = "It would be ignored: drop it."
            rule = "keep its default: parties get FedProx's net"
            raise ConfigError(explain(self.keys()["party_models"], rule, False, way_out))

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings with as many passes of SOLO as FedProx's rounds make."""
        return LocalEpochsConfig.resolved(self, num_public=num_public, num_classes=num_classes, num_rounds=num_rounds)

    @property
    def first(self) -> FedKTConfig:
        """The settings of the first round; parties finish once, on what comes out at the end."""
        values = {name: getattr(self, name) for name in FedKTConfig.model_fields}
        return FedKTConfig(**{**values, "party_models": False})


def _but_the_first_round(
    model: Any, X: Any, y: Any, *, config: FedKTProxConfig, rounds: int, num_public: int
) -> object:
    """Train a net on pooled rows for as many passes as FedProx's rounds, which are all but the first."""
    return epochs_on_pooled(model, X, y, config=config, rounds=rounds - 1, num_public=num_public)


def _card(title: str, config: type[ExchangeConfig], paper: str, **more: Any) -> Card:
    """Return the card of a baseline; its file and the classes of its two sides are named after its title."""
    name = title.lower()
    side = f"fedkd_flwr.baselines.{name.replace('-', '_')}:{title.replace('-', '')}"
    usual = {"default_rounds": 10, "samples": True, "train_pooled": epochs_on_pooled}
    ways = {"strategy": f"{side}Exchange", "client": f"{side}Client", "sends": "weights"}
    return Card(name=name, title=title, paper=paper, config=config, **{**ways, **usual, **more})


FEDAVG = _card(
    "FedAvg", LocalEpochsConfig, 'McMahan et al., "Communication-Efficient Learning of Deep Networks", AISTATS 2017'
)
FEDPROX = _card("FedProx", FedProxConfig, 'Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020')
SCAFFOLD = _card(
    "SCAFFOLD",
    LocalEpochsConfig,
    'Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020',
    model="mlp(optimizer='sgd', lr=0.1)",
)
FEDDF = _card(
    "FedDF",
    LocalEpochsConfig,
    'Lin et al., "Ensemble Distillation for Robust Model Fusion in Federated Learning", NeurIPS 2020',
)
PFNM = _card(
    "PFNM",
    LocalEpochsConfig,
    'Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks", ICML 2019',
    default_rounds=1,
    one_shot=True,
    samples=False,
)
DP_FEDAVG = _card(
    "DP-FedAvg",
    DPFedAvgConfig,
    'McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018',
    noise=("server",),
)
FEDXGB_BAGGING = _card(
    "FedXGB-Bagging",
    FedXGBBaggingConfig,
    "flwr.serverapp.strategy.FedXgbBagging, and Flower's XGBoost example",
    sends="trees",
    default_rounds=50,
    model="xgboost",
    train_pooled=fit,
)
POOLED_FOREST = _card(
    "Pooled-Forest",
    ExchangeConfig,
    "the trees of all parties' forests in one forest",
    sends="trees",
    default_rounds=1,
    one_shot=True,
    samples=False,
    train_pooled=fit,
)
STACKED = _card(
    "Stacked",
    StackedConfig,
    'Allouah et al., "Revisiting Ensembling in One-Shot Federated Learning", NeurIPS 2024',
    sends="scores",
    default_rounds=1,
    noise=("party",),
    one_shot=True,
    samples=False,
    train_pooled=steps_on_pooled,
)
FEDKT_PROX = _card(
    "FedKT-Prox",
    FedKTProxConfig,
    'Li, He, Song, "Practical One-Shot Federated Learning for Cross-Silo Setting", IJCAI 2021, Section 4.3',
    roles=("teacher", "student"),
    train_pooled=_but_the_first_round,
)
