"""FedMD, FedMD-NFDP and FedMD-LDP: parties learn from the average of their answers on a few public rows a round.

Li and Wang, 2019; Sun and Lyu, IJCAI 2021, Algorithm 1. The whole round t:

    server   averages of round t-1 on its rows (none in round 1); the rows of round t      -> every party
    party    first time: start from public labels (optional), T1 epochs on its own rows
             later: digest, T2 epochs on (rows of t-1, averages); revisit, T3 epochs on its own rows
             answer the rows of round t: logits | probabilities | labels                   -> reply
    server   mean in party-name order (labels: mean of one-hot)                            -> averages of round t
    end      the averages of the last round: digest, revisit (optional); each party keeps its own model

Its private variants are in docs/understand/algorithms/scores.md. A party that joins late, or has lost its state, starts
as in round 1 and then digests.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.fedmd import CARD
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.strategies.score_exchange import ScoreExchange

__all__ = ["FedMD", "FedMDExchange"]


class FedMDExchange(ScoreExchange):
    """The exchange of FedMD. Parameters as in `ScoreExchange`, with ``config`` a `FedMDConfig`."""

    card = CARD


class FedMD(ExchangeStrategy[FedMDExchange]):
    """Federated model distillation. Takes ``party_rows`` besides, as `ScoreExchange`.

    After `start`: ``record``, and ``exchange.average`` with ``exchange.average_rows``: the last round's averages.
    """
