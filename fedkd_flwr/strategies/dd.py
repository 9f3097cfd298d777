"""Distributed distillation (DD): parties train on their labels and towards the average of their answers, in one loss.

Bistritz, Mann and Bambos, "Distributed distillation for on-device learning", NeurIPS 2020, with a server in place of
the consensus among neighbours, as FedCT's authors compare with. The whole round t:

    server   averages of round t-1 on its rows (none in round 1); the rows of round t      -> every party
    party    minibatch steps on: loss on its own labels + weight * distance to the averages
             answer the rows of round t: logits | probabilities | labels                   -> reply
    server   mean in party-name order                                                      -> averages of round t
    end      the averages of the last round: the same steps once more; each party keeps its own model

The exchange, noise and subsets are those of `fedkd_flwr.strategies.score_exchange`, as for FedMD. The distance is the
mean squared difference of probabilities, the paper's squared distance up to a factor, or the L1 distance of logits
where these are shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from fedkd_flwr.errors import ConfigError, check_whole, explain
from fedkd_flwr.strategies.score_exchange import SoftConfig, SoftStrategy
from fedkd_flwr.wire.records import Scalar

__all__ = ["DD", "DDConfig"]


@dataclass(frozen=True, kw_only=True)
class DDConfig(SoftConfig):
    """Settings of distributed distillation. Further parameters as in `SoftConfig`.

    Parameters
    ----------
    steps_per_round : int
        Minibatch steps between two exchanges; half of each batch are own rows, half public ones.
    distillation_weight : float
        Weight of the distance to the averages, beside 1 for the party's own labels.
    """

    steps_per_round: int = 200
    distillation_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("steps_per_round", self.steps_per_round, 1)
        if not 0.0 <= self.distillation_weight < float("inf"):
            raise ConfigError(explain("distillation_weight", "be finite and >= 0", self.distillation_weight))


class DD(SoftStrategy):
    """Distributed distillation with a server. Parameters as in `SoftStrategy`.

    After `start`: ``record``, and ``average`` with ``average_rows``: the last round's averages.
    """

    algorithm: ClassVar[str] = "dd"

    def __init__(self, *args: Any, config: DDConfig | None = None, **keywords: Any) -> None:
        self.config = config if config is not None else DDConfig()
        super().__init__(*args, config=self.config, **keywords)

    @property
    def usual_loss(self) -> str:
        """The paper's squared distance, of probabilities."""
        return "mse-probs"

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return the joint loss beside what every exchange of scores says."""
        return {
            **super().instruction(server_round),
            "steps-per-round": self.config.steps_per_round,
            "distillation-weight": self.config.distillation_weight,
        }
