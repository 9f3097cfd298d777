"""PATE's settings and its card: each party is one teacher. The vote is `one_shot_vote`'s.

Papernot et al., ICLR 2017 and ICLR 2018. The whole round is told in `fedkd_flwr.strategies.pate`.
"""

from __future__ import annotations

from typing import ClassVar

from fedkd_flwr.algorithms.card import Card, Privacy
from fedkd_flwr.algorithms.one_shot_vote import OneShotVoteConfig, fit_pooled

__all__ = ["CARD", "PATEConfig"]


class PATEConfig(OneShotVoteConfig):
    """Settings of PATE."""

    section: ClassVar[str] = "pate"

    @property
    def privacy(self) -> Privacy:
        """Noise is at the server, if anywhere."""
        return "none" if self.noise == "none" else "server"


CARD = Card(
    name="pate",
    title="PATE",
    paper='Papernot et al., "Scalable Private Learning with PATE", ICLR 2018',
    config=PATEConfig,
    strategy="fedkd_flwr.strategies.pate:PATE",
    client="fedkd_flwr.clients.pate:PATEClient",
    sends="labels",
    default_rounds=1,
    one_shot=True,
    noise=("server",),
    allowed=True,
    roles=("final",),
    train_pooled=fit_pooled,
)
