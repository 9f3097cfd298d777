"""FedKT-Prox's settings and its card: those of FedKT at level L0 and of FedProx together.

Li, He, Song, IJCAI 2021, Section 4.3. The whole run is told in `fedkd_flwr.strategies.fedkt_prox`.
"""

from __future__ import annotations

from typing import Any, Self

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.algorithms.exchange import LocalEpochsConfig, epochs_on_pooled
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.algorithms.fedprox import FedProxConfig
from fedkd_flwr.errors import ConfigError, explain

__all__ = ["CARD", "FedKTProxConfig"]


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
            raise ConfigError(explain("party-models", "keep its default: parties get FedProx's net", False, way_out))

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings with as many passes of SOLO as FedProx's rounds make."""
        return LocalEpochsConfig.resolved(self, num_public=num_public, num_classes=num_classes, num_rounds=num_rounds)

    @property
    def first(self) -> FedKTConfig:
        """The settings of the first round; parties finish once, on what comes out at the end."""
        values = {name: getattr(self, name) for name in FedKTConfig.model_fields}
        return FedKTConfig(**{**values, "party_models": False})


def train_pooled(model: Any, X: Any, y: Any, *, config: FedKTProxConfig, rounds: int, num_public: int) -> object:
    """Train a net on pooled rows for as many passes as FedProx's rounds, which are all but the first."""
    return epochs_on_pooled(model, X, y, config=config, rounds=rounds - 1, num_public=num_public)


CARD = Card(
    name="fedkt-prox",
    title="FedKT-Prox",
    paper='Li, He, Song, "Practical One-Shot Federated Learning for Cross-Silo Setting", IJCAI 2021, Section 4.3',
    config=FedKTProxConfig,
    strategy="fedkd_flwr.strategies.fedkt_prox:FedKTProx",
    client="fedkd_flwr.clients.fedkt_prox:FedKTProxClient",
    sends="weights",
    default_rounds=10,
    roles=("teacher", "student"),
    samples=True,
    train_pooled=train_pooled,
)
