"""PATE across parties: each party is one teacher, and the server's student learns their (noisy) vote.

Papernot et al., "Semi-supervised Knowledge Transfer for Deep Learning from Private Training Data", ICLR 2017 (noisy
max with Laplace noise), and "Scalable Private Learning with PATE", ICLR 2018 (Gaussian noise, Confident-GNMax). The
whole round:

    server   asks                                                       -> every party
    party    one model on all its rows -> its labels of the public rows
    server   vote (+ noise on rows chosen beforehand) -> student model  -> labels of the public rows -> every party

It is FedKT with one student and one teacher and no distillation at the party. Noise is at the server: each party is
protected against everyone who sees the result, and the server is trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

from fedkd_flwr.labels import VoteCounter
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.claims.claim import PrivacyClaim
from fedkd_flwr.strategies.label_exchange import PartyLabels
from fedkd_flwr.strategies.one_shot_vote import ServerModelConfig, ServerModelStrategy

__all__ = ["PATE", "PATEConfig"]


class PATEConfig(ServerModelConfig):
    """Settings of PATE: those of `ServerModelConfig`."""


class PATE(ServerModelStrategy):
    """Private aggregation of teacher ensembles, a teacher per party. Parameters as in `ServerModelStrategy`.

    Attributes
    ----------
    model : Classifier or None
        The student, after `start`.
    """

    algorithm: ClassVar[str] = "pate"

    def __init__(
        self, *args: Any, config: PATEConfig | None = None, final_model: Callable[..., Classifier], **keywords: Any
    ) -> None:
        self.config = config if config is not None else PATEConfig()
        super().__init__(*args, config=self.config, final_model=final_model, **keywords)

    @property
    def votes_per_party(self) -> int:
        """A teacher has one vote."""
        return 1

    @property
    def privacy(self) -> Literal["none", "server", "party"]:
        """Noise is at the server, if anywhere."""
        return "none" if self.config.noise == "none" else "server"

    def count(self, counter: VoteCounter, answer: PartyLabels, weight: int) -> None:
        """Count the party's one vote."""
        counter.add(answer.labels[0], weight=weight)

    def claim(self) -> list[PrivacyClaim]:
        """Return the claims of the noise; none without."""
        return self.server_claims()
