"""FedKT: one round of label exchange, after which the server holds a model it trained on public rows only.

Li, He, Song, IJCAI 2021, Algorithm 1, at its three levels of privacy. The whole round:

    server   how many students and teachers, which public rows are asked   -> every party
    party    t teachers on disjoint parts vote (L2: noise on their votes);
             s students learn the votes -> s label arrays on all public rows
    server   consistent vote (L1: noise on it) -> final model F            -> labels of the public rows -> every party

The paper uploads the students; here their labels travel, which is all the server used of them. The levels and what
departs from the paper are in docs/understand/algorithms/fedkt.md; the arithmetic is
`fedkd_flwr.algorithms.one_shot_vote`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.fedkt import CARD, FedKTConfig
from fedkd_flwr.privacy.claims.claim import PrivacyClaim, noisy_max_at_party
from fedkd_flwr.strategies.exchange import Stage
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.strategies.one_shot_vote import OneShotVote

__all__ = ["FedKT", "FedKTExchange"]


class FedKTExchange(OneShotVote):
    """The exchange of FedKT. Parameters as in `OneShotVote`, ``config`` a `FedKTConfig`.

    ``model``: the final model F, after `start`.
    """

    card = CARD
    config: FedKTConfig
    consistent = True
    told_config: FedKTConfig

    @property
    def arrays_per_party(self) -> int:
        """One label array per student."""
        return self.config.students

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Name the rows teachers are asked about, at level L2."""
        arrays = super().outgoing(stage, server_round)
        if stage == "fit" and self.config.level == "L2":
            arrays["indices"] = self.queries.astype(np.int32)
        return arrays

    def claim(self) -> list[PrivacyClaim]:
        """Return the claims of the level; none at L0."""
        spec = self.spec
        plan = self.told_config.party_plan(spec.num_public, spec.num_classes)
        if not (self.roster.times_asked and plan.adds_noise):
            return self.server_claims()
        return list(
            noisy_max_at_party(
                plan,
                delta=self.config.delta,
                teachers=self.config.teachers,
                partitions=self.config.students * self.roster.asked.most,
                num_parties=len(self.roster.times_asked),
            )
        )


class FedKT(ExchangeStrategy[FedKTExchange]):
    """One-shot federated learning by knowledge transfer. Takes what `OneShotVote` takes besides.

    After `start`: ``record``, ``exchange.model`` and ``exchange.consensus``.
    """
