"""What a caller of `start` hangs on the end of each round: ``evaluate_fn``, and ``should_stop`` of Flower 1.43."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result

from fedkd_flwr.errors import cause
from fedkd_flwr.record.notes import Note, NoteCode

__all__ = ["AfterRound", "EvaluateFn", "ShouldStop"]

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
ShouldStop = Callable[[int, Result], bool]


class AfterRound:
    """Stands in Flower's loop where ``evaluate_fn`` does, the last thing of a round; see `ExchangeStrategy.start`.

    ``result``: what the rounds gave so far, as Flower's loop gathers it.
    """

    def __init__(
        self,
        strategy: Any,  # an `ExchangeStrategy`, whose file imports this one
        evaluate_fn: EvaluateFn | None = None,
        should_stop: ShouldStop | None = None,
    ) -> None:
        self.strategy, self.evaluate_fn, self.should_stop = strategy, evaluate_fn, should_stop
        self.exchange, self.result = strategy.exchange, Result()

    def __call__(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        """Measure what the round left, and ask whether it was the last one."""
        at, own = self.exchange, self.exchange.measure()
        found = own if self.evaluate_fn is None else self._evaluated(server_round, arrays)
        if found is not None:
            self.result.evaluate_metrics_serverapp[server_round] = found
        now = server_round + at.rounds_done
        if self.should_stop is None or not server_round > 0 or now >= at.num_rounds or at.finished_round is not None:
            return found
        if self.should_stop(server_round, self.result):
            at.finished_round, self.strategy.stopped = now, True
        return found

    def _evaluated(self, server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
        if self.evaluate_fn is None or not arrays:
            return None
        try:
            return self.evaluate_fn(server_round, arrays)
        except Exception as error:
            if self.exchange.leaves_weights:
                raise
            got = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
            told = {"failure": cause(error), "arrays": got, "algorithm": self.exchange.card.name}
            self.exchange.note(Note(NoteCode.EVALUATE_FN_FAILED, {"server_round": server_round, **told}))
            self.evaluate_fn = None
            return None
