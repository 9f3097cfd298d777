"""DS-FL: FedMD's exchange of probabilities, whose average the server makes more certain before it goes back.

Itahara et al., IEEE TMC, 2021 (arXiv 2008.06180), Algorithm 1. The whole round t:

    server   sharpened averages of round t-1 on its rows (none in round 1); the rows of round t  -> every party
    party    digest, revisit its own rows (as FedMD); answer the rows of round t: probabilities  -> reply
    server   mean, then softmax(mean / T): entropy reduction (ERA)                               -> averages of round t

Under label skew the mean of many parties is nearly flat, and a flat target teaches little: with T = 0.1 the largest
mean takes nearly all. Departure: the paper's server trains a model of its own on the averages too; here, as in FedMD,
each party's net is the result. The arithmetic is `fedkd_flwr.algorithms.dsfl`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.dsfl import CARD, DSFLConfig, aggregate
from fedkd_flwr.algorithms.score_exchange import ScoreFacts
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.strategies.score_exchange import ScoreExchange

__all__ = ["DSFL", "DSFLExchange"]


class DSFLExchange(ScoreExchange):
    """FedMD's exchange with sharpened averages. Parameters as in `ScoreExchange`, with ``config`` a `DSFLConfig`."""

    card = CARD
    told_config: DSFLConfig

    def combine(self, scores: Sequence[NDArray[Any]], server_round: int) -> tuple[NDArray[np.float64], ScoreFacts]:
        """Return the sharpened averages."""
        return aggregate(scores, config=self.told_config, num_classes=self.spec.num_classes)


class DSFL(ExchangeStrategy[DSFLExchange]):
    """FedMD's exchange with sharpened averages. Takes ``party_rows`` besides, as `ScoreExchange`."""
