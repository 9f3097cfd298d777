"""DP-FedAvg's settings and its card: a mean of clipped updates with noise at the server.

McMahan, Ramage, Talwar, Zhang, "Learning Differentially Private Recurrent Language Models", ICLR 2018 (arXiv
1710.06963), Algorithm 1 with flat clipping. The noise is `fedkd_flwr.privacy.noise.updates`; the whole round is told in
`fedkd_flwr.strategies.dp_fedavg`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from fedkd_flwr.algorithms.card import Card, Privacy, setting
from fedkd_flwr.algorithms.exchange import EpsilonConfig, LocalEpochsConfig, epochs_on_pooled
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.privacy.noise.updates import ClippedSum

__all__ = ["CARD", "DPFedAvgConfig"]


class DPFedAvgConfig(LocalEpochsConfig, EpsilonConfig):
    """Settings of DP-FedAvg."""

    section: ClassVar[str] = "dp-fedavg"

    clip: float = setting(1.0, ge=1e-6, le=1e6)
    """L2 norm to which the server scales a party's update (its weights minus those it got) down, if it is longer."""
    noise_multiplier: float = setting(1.0, ge=1e-3, le=1e6)
    """Standard deviation of the noise on the sum of the updates, in clipping norms; found where epsilon is given."""

    def check(self) -> None:
        """Refuse a noise that is given twice."""
        super().check()
        if self.epsilon and self.noise_multiplier != self.default("noise_multiplier"):
            rule, way_out = f"keep its default where epsilon is {self.epsilon!r}", "Drop one: epsilon finds the noise."
            raise ConfigError(explain(self.keys()["noise_multiplier"], rule, self.noise_multiplier, way_out))

    @property
    def privacy(self) -> Privacy:
        """The server adds the noise, always."""
        return "server"

    def mechanism(self, num_rounds: int) -> ClippedSum:
        """Return the noise of one round; found from ``epsilon``, where that is given, for a party asked in all."""
        if not self.epsilon:
            return ClippedSum(clip=self.clip, noise_multiplier=self.noise_multiplier)
        return _calibrated(self.clip, num_rounds, self.epsilon, self.delta)


@lru_cache(maxsize=16)
def _calibrated(clip: float, num_rounds: int, epsilon: float, delta: float) -> ClippedSum:
    from fedkd_flwr.privacy.cost.calibration import calibrate

    def make(multiplier: float) -> ClippedSum:
        return ClippedSum(clip=clip, noise_multiplier=multiplier)

    return calibrate(make, count=num_rounds, epsilon=epsilon, delta=delta)


CARD = Card(
    name="dp-fedavg",
    title="DP-FedAvg",
    paper='McMahan et al., "Learning Differentially Private Recurrent Language Models", ICLR 2018',
    config=DPFedAvgConfig,
    strategy="fedkd_flwr.strategies.dp_fedavg:DPFedAvg",
    client="fedkd_flwr.clients.dp_fedavg:DPFedAvgClient",
    sends="weights",
    default_rounds=10,
    noise=("server",),
    samples=True,
    train_pooled=epochs_on_pooled,
)
