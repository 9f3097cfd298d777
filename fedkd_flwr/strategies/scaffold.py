"""SCAFFOLD: averaging whose parties correct their steps for what makes their rows unlike the others'.

Karimireddy et al., ICML 2020 (arXiv 1910.06378), Algorithm 1, option II. The whole round t:

    server   weights x and control c                                                        -> a group S of N parties
    party    steps y <- y - lr (g - c_i + c); c_i+ = c_i - c + (x - y) / (K lr), kept  -> y and c_i+ - c_i
    server   x <- x + mean(y - x); c <- c + (|S| / N) mean(c_i+ - c_i)                      -> x and c of round t+1

All controls are zero at first, so one round alone is FedAvg with equal parties. The server keeps c in its checkpoint,
a party c_i in its own state. The rule for c_i+ holds for plain SGD: another optimiser is refused. What is averaged of
buffers, such as running means, has no control. The arithmetic is `fedkd_flwr.algorithms.scaffold`.

A change of control is a mean gradient on the party's rows: it leaves without noise, like the weights. No claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.algorithms.scaffold import CARD, SCAFFOLDConfig, aggregate
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.base import Stage
from fedkd_flwr.strategies.weight_exchange import PartyWeights, WeightExchange
from fedkd_flwr.wire.records import numbered

__all__ = ["SCAFFOLD"]


class SCAFFOLD(WeightExchange):
    """SCAFFOLD with option II. Parameters as in `WeightExchange`; the net's optimiser must be plain SGD.

    Attributes
    ----------
    control : list of ndarray, float32
        The server's control c, one array for each of the net.

    Raises
    ------
    ConfigError
        If the net has another optimiser, or momentum.
    """

    card = CARD
    config: SCAFFOLDConfig
    parts = ("model", "control")
    warning = (
        "Weights of nets trained on private rows, and mean gradients on them (changes of control variates), left the "
        "parties as they are, without noise."
    )

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        _ = self.model.sgd_rate
        self.control: list[NDArray[np.float32]] = [np.zeros_like(array) for array in self.model.arrays()]

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the weights and, in a round, the control."""
        arrays = super().outgoing(stage, server_round)
        return {**arrays, **numbered("control", self.control)} if stage == "fit" else arrays

    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Average the weights, and move the control by what the parties' controls changed."""
        replies = [(answer.parts["model"], answer.parts["control"]) for answer in answers]
        weights, self.control = aggregate(
            self.model.arrays(), self.control, replies, num_parties=max(len(self._nodes), len(answers))
        )
        return self.take_up(weights)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the control."""
        return dict(numbered("control", self.control)), {}

    def restore(
        self, result: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]
    ) -> None:
        """Take up the weights and the control."""
        super().restore(result, arrays, plain)
        self.control = [arrays[name] for name in numbered("control", self.control)]
