"""DP-FedAvg: the server clips the parties' updates, adds them, and adds noise to the sum.

McMahan, Ramage, Talwar, Zhang, ICLR 2018 (arXiv 1710.06963), Algorithm 1. The whole round t:

    server   weights w_t                                                             -> a group of m parties
    party    epochs on its rows                                                      -> its weights
    server   updates w - w_t, each scaled to an L2 norm of at most C; their sum plus Gaussian noise, divided by m,
             charged to the server's ledger                                          -> w_t+1 = w_t + that

Formal guarantees: `fedkd_flwr.privacy.claims.claim.clipped_sum_at_server`, for everything one party holds, against
everyone but the server, which gets each party's weights as they are. m is the number of parties asked; one that does
not answer validly is an update of zero. Flower's wrapper for fixed clipping is not used: its noise is made of floats of
NumPy's global generator, and is scaled to the parties that were planned, but the mean to those that answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.baselines.cards import DP_FEDAVG as CARD
from fedkd_flwr.baselines.cards import DPFedAvgConfig
from fedkd_flwr.baselines.weight_exchange import PartyWeights, WeightClient, WeightExchange
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.privacy.claims.claim import EVERYONE, PrivacyClaim, clipped_sum_at_server
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.sums import ClippedSum
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import NO_LEDGER, NoLedger, StoredReply

__all__ = ["DPFedAvgClient", "DPFedAvgExchange"]


class DPFedAvgExchange(WeightExchange):
    """FedAvg with central differential privacy. Further parameters as in `WeightExchange`.

    ``ledger``, ``budget``, optional: what noise at this server has cost so far, over all runs on this public set, and
    the most it may. ``noise_rng``, optional: for tests: seeded noise protects nothing.

    Raises `ConfigError` if the net keeps running averages, to which noise cannot be added, or noise cannot be found.
    """

    card = CARD
    config: DPFedAvgConfig
    takes = (*WeightExchange.takes, "ledger", "budget")
    warning = Note(NoteCode.WEIGHTS_AT_SERVER, {"beside": "rows"})

    def __init__(
        self,
        *,
        ledger: LedgerStore | NoLedger = NO_LEDGER,
        budget: Budget | None = None,
        noise_rng: np.random.Generator | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        if ledger.keeps and not self.record.run_id:
            way_out = "Give record=RunRecord(run_id=..., algorithm=...): a ledger tells runs apart by it."
            raise ConfigError(explain("record", "name its run where a ledger is given", self.record.run_id, way_out))
        self.ledger, self.budget, self.noise_rng = ledger, budget or Budget(), noise_rng
        self._moves = self.model.are_trained()
        if not all(self._moves) and not self.model.template.freeze_norm:
            way_out = "Give the model freeze_norm=True, or take a net without batch normalisation, such as mlp."
            rule = "keep no running averages, which noise would spoil"
            raise ConfigError(explain("model", rule, self.model.template.net, way_out))

    @cached_property
    def mechanism(self) -> ClippedSum:
        """What the server does to the updates of one round."""
        return self.config.mechanism(self.num_rounds)

    def plan(self, num_rounds: int) -> None:
        """Take the number of rounds; refuse noise that cannot be found."""
        super().plan(num_rounds)
        _ = self.mechanism

    def check_budget(self, server_round: int) -> None:
        """Refuse before anybody trains where the server's own budget does not cover the rounds to come."""
        if self.ledger.answered(self.charged_run, server_round) is not None:
            return
        left = self.num_rounds - server_round + 1  # of a party that is asked in all of them
        self.ledger.ask([(self.mechanism.dp_event(), 1)], self.budget, run_id=self.charged_run, rounds=left)

    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Move the weights by the noisy mean of the clipped updates, charged before anything is made of it."""
        weights = self.model.arrays()
        start = self._flat(weights)

        def updates() -> Iterator[NDArray[np.float64]]:
            yield np.zeros_like(start)  # where nobody has a valid answer, noise alone comes out
            for answer in answers:
                yield self._flat(answer.parts["model"]) - start

        # a fixed denominator: how many answered may depend on what parties hold
        move = self.mechanism.privatize(updates(), rng=self.noise_rng) / len(self.roster.asked_now)
        move = self._charged(server_round, move)
        moved, at = [], 0
        for array, moves in zip(weights, self._moves, strict=True):
            size = array.size if moves else 0
            moved.append(array + move[at : at + size].reshape(array.shape) if moves else array)
            at += size
        return self.take_up(moved)

    def _flat(self, arrays: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        trained = [array.ravel() for array, moves in zip(arrays, self._moves, strict=True) if moves]
        return np.concatenate(trained).astype(np.float64)

    def _charged(self, server_round: int, move: NDArray[np.float64]) -> NDArray[np.float64]:
        """Charge for a round and return what it released: once more the same, where a lost run had come so far."""
        stored = self.ledger.charge(
            run_id=self.charged_run,
            server_round=server_round,
            algorithm=self.card.name,
            mechanism=self.mechanism.words,
            unit="party",
            adversary=EVERYONE,
            neighbouring_relation="replace one party",
            events=[(self.mechanism.dp_event(), 1)],
            reply=StoredReply(arrays={"move": move}, metrics={}),
            budget=self.budget,
        )
        return stored.arrays["move"]

    def claim(self) -> list[PrivacyClaim]:
        """Return the claim for the party asked most often."""
        if not (rounds := self.roster.asked.most):
            return []
        seeded, delta = self.noise_rng is not None, self.config.delta
        return [
            clipped_sum_at_server(
                self.mechanism, rounds=rounds, delta=delta, num_parties=self.roster.num_asked, seeded=seeded
            )
        ]


class DPFedAvgClient(WeightClient):
    """Sends the weights of the server's net after some passes over its rows. Parameters as in `WeightClient`."""

    card = CARD
