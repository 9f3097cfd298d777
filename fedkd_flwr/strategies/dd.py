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

from fedkd_flwr.algorithms.dd import CARD
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.strategies.score_exchange import ScoreExchange

__all__ = ["DD", "DDExchange"]


class DDExchange(ScoreExchange):
    """The exchange of DD. Parameters as in `ScoreExchange`, with ``config`` a `DDConfig`."""

    card = CARD


class DD(ExchangeStrategy):
    """Distributed distillation with a server. Takes ``party_rows`` besides, as `ScoreExchange`.

    After `start`: ``record``, and ``exchange.average`` with ``exchange.average_rows``: the last round's averages.
    """

    exchange_type = DDExchange
    exchange: DDExchange
