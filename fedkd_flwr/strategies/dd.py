"""Distributed distillation (DD): parties train on their labels and towards the average of their answers, in one loss.

Bistritz, Mann and Bambos, NeurIPS 2020, with a server in place of the consensus among neighbours. The whole round t:

    server   averages of round t-1 on its rows (none in round 1); the rows of round t      -> every party
    party    steps on: loss on its own labels + weight * distance to the averages; answer the rows of round t -> reply
    server   mean in party-name order                                                      -> averages of round t

The distance is the mean squared difference of probabilities, or the L1 distance of logits where these are shared.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.dd import CARD
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.strategies.score_exchange import ScoreExchange

__all__ = ["DD", "DDExchange"]


class DDExchange(ScoreExchange):
    """The exchange of DD. Parameters as in `ScoreExchange`, with ``config`` a `DDConfig`."""

    card = CARD


class DD(ExchangeStrategy[DDExchange]):
    """Distributed distillation with a server. Takes ``party_rows`` besides, as `ScoreExchange`.

    After `start`: ``record``, and ``exchange.average`` with ``exchange.average_rows``: the last round's averages.
    """
