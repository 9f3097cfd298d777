"""PATE across parties: each party is one teacher, and the server's student learns their (noisy) vote.

Papernot et al., ICLR 2017 and ICLR 2018 (Gaussian noise, Confident-GNMax). It is FedKT with one student and one teacher
and no distillation at the party. Noise is at the server, which is trusted: each party is protected against everyone who
sees the result.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.pate import CARD, PATEConfig
from fedkd_flwr.privacy.claims.claim import PrivacyClaim
from fedkd_flwr.strategies.loop import ExchangeStrategy
from fedkd_flwr.strategies.one_shot_vote import OneShotVote

__all__ = ["PATE", "PATEExchange"]


class PATEExchange(OneShotVote):
    """The exchange of PATE: its ``model`` is the student. Parameters as in `OneShotVote`."""

    card = CARD
    config: PATEConfig

    def claim(self) -> list[PrivacyClaim]:
        """Return the claims of the noise; none without."""
        return self.server_claims()


class PATE(ExchangeStrategy[PATEExchange]):
    """Private aggregation of teacher ensembles, a teacher per party; takes what `OneShotVote` takes besides."""
