"""PFNM: one round of weights, whose hidden units the server matches before it averages them.

Yurochkin et al., ICML 2019 (arXiv 1905.12022). The whole round:

    server   nothing                                                              -> every party
    party    epochs on its rows, from first weights of its own  -> weights of its net, and its rows of each class
    server   units matched by a beta-Bernoulli process and the Hungarian algorithm -> a wider net -> every party

Fully connected nets alone: the zoo's ``mlp``; all others are refused by name, because a unit of theirs is more than a
row of weights. The server's net has as many hidden units as the matching finds, at least those of one party. The
arithmetic is `fedkd_flwr.algorithms.pfnm`.

Weights and class counts leave the parties without noise, and there is no claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.algorithms.pfnm import CARD, PFNMConfig, aggregate
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.base import Stage
from fedkd_flwr.strategies.weight_exchange import MAX_ROWS, PartyWeights, WeightExchange
from fedkd_flwr.wire.records import Reply

__all__ = ["PFNM"]


class PFNM(WeightExchange):
    """One-shot matching of fully connected nets. Parameters as in `WeightExchange`.

    Raises
    ------
    ConfigError
        If the net is not the zoo's ``mlp``.
    """

    card = CARD
    config: PFNMConfig
    warning = (
        "Weights of nets trained on private rows, and numbers of rows of each class, left the parties as they are, "
        "without noise."
    )

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.model.with_widths(self._widths(self.model.arrays()))  # another net is refused now

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return nothing in the round: parties start from weights of their own."""
        return super().outgoing(stage, server_round) if stage == "evaluate" else {}

    def read(self, reply: Reply, server_round: int) -> PartyWeights:
        """Check a party's weights, and its rows of each class."""
        arrays = dict(reply.arrays)
        counts = arrays.pop("class-counts", np.zeros(0))
        num_classes = self.spec.num_classes
        if counts.dtype.kind not in "iu" or counts.shape != (num_classes,):
            raise PayloadError(explain("class-counts", f"be {num_classes} whole numbers", f"{counts.dtype}"))
        if not (counts.min() >= 0 and counts.max() < MAX_ROWS):
            raise PayloadError(explain("class-counts", "be within 0..2^31", int(counts.min())))
        answer = super().read(replace(reply, arrays=arrays), server_round)
        return replace(answer, parts={**answer.parts, "class-counts": [counts.astype(np.int64)]})

    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Match the units, and make the net of what they have in common."""
        counts = np.array([answer.parts["class-counts"][0] for answer in answers])
        nets = [answer.parts["model"] for answer in answers]
        arrays = aggregate(nets, counts, config=self.config, rng=self.rng("order", server_round))
        widths = self._widths(arrays)
        self.note(f"PFNM's net has {', '.join(map(str, widths))} hidden units, the parties' {self._own_words}.")
        self.model = self.model.with_widths(widths)
        return self.take_up(arrays)

    @property
    def _own_words(self) -> str:
        return ", ".join(map(str, self._widths(self._spare_arrays)))

    @staticmethod
    def _widths(arrays: Sequence[NDArray[Any]]) -> list[int]:
        return [len(bias) for bias in arrays[1:-1:2]]
