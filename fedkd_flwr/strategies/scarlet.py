"""SCARLET: FedMD's exchange in which a row's average is used for some rounds before parties are asked about it again.

Azuma et al., IEEE TMC, 2026. The whole round t:

    server   the rows of round t-1, a signal for each of them, averages of those that were asked;
             the rows of round t that must be asked                                       -> every party
    party    averages that came are kept, the others are taken from what it kept; digest, revisit (as FedMD);
             answer the rows asked: probabilities                                          -> reply
    server   mean of the rows asked, to the power b (enhanced ERA) -> kept for D rounds    -> averages of round t

A party that missed a round gets the whole cache with its next instruction. Which rows are asked follows from the seed
and the round alone, so noise at the parties, and what it costs, is as in FedMD: every row of a round counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.scarlet import CACHED, CARD, Cache, ScarletConfig, aggregate
from fedkd_flwr.algorithms.score_exchange import ScoreFacts
from fedkd_flwr.strategies.exchange import Arrays, Stage
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.strategies.score_exchange import ScoreExchange
from fedkd_flwr.wire.label_codec import PublicSpec, encode_labels
from fedkd_flwr.wire.score_codec import encode_rows

__all__ = ["SCARLET", "SCARLETExchange"]


class SCARLETExchange(ScoreExchange):
    """FedMD's exchange with a cache. Parameters as in `ScoreExchange`, with ``config`` a `ScarletConfig`.

    ``cache``: the averages in use. ``signals`` (num_rows,), int16: what parties are told of each row of the last round.
    """

    card = CARD
    config: ScarletConfig
    told_config: ScarletConfig
    keeps = (*ScoreExchange.keeps, "cache", "signals")

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.cache = Cache.empty(self.spec.num_public, self.spec.num_classes)
        self.signals: NDArray[np.int16] = np.zeros(0, dtype=np.int16)

    def asked_rows(self, server_round: int) -> NDArray[np.int64]:
        """Return the rows of a round whose average is missing or too old."""
        rows, rounds = self.rows(server_round), self.config.cache_rounds
        return self.cache.stale(rows, server_round=server_round, cache_rounds=rounds)

    def restore(self, result: Arrays, kept: Mapping[str, Any]) -> None:
        """Take up averages, cache and signals."""
        super().restore(result, {**kept, "cache": Cache(**kept["cache"])})

    def combine(self, scores: Sequence[NDArray[Any]], server_round: int) -> tuple[NDArray[np.float64], ScoreFacts]:
        """Average the rows asked, keep them, and return the averages of all rows of the round."""
        fresh, facts = aggregate(scores, config=self.told_config, num_classes=self.spec.num_classes)
        rows, asked = self.rows(server_round), self.asked_rows(server_round)
        self.signals = self.cache.signals(rows, asked)
        self.cache = self.cache.stored(asked, fresh, server_round=server_round)
        return self.cache.averages[rows].astype(np.float64), facts

    def lesson(self, average: NDArray[np.float64], server_round: int) -> dict[str, NDArray[Any]]:
        """Return the last rows, their signals, and the averages of those that were asked."""
        spec = PublicSpec(num_public=len(self.signals), num_classes=3, fingerprint=self.spec.fingerprint)
        return {
            "previous": encode_rows(self.average_rows, num_public=self.spec.num_public),
            "signals": encode_labels(self.signals, public=spec, server_round=server_round),
            self.config.kind: self.encode_averages(average[self.signals != CACHED], server_round),
        }

    def catching_up(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the whole cache, for a party that missed the last round."""
        rows = self.cache.rows
        if not len(rows):
            return {}
        averages = self.encode_averages(self.cache.averages[rows], server_round)
        return {"cached": encode_rows(rows, num_public=self.spec.num_public), "cache": averages}


class SCARLET(ExchangeStrategy[SCARLETExchange]):
    """FedMD's exchange with a cache of averages. Takes ``party_rows`` besides, as `ScoreExchange`."""
