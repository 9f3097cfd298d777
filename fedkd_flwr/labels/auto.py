"""The rule that chooses a rule: density ratios where the public rows look like private ones, else labels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fedkd_flwr.labels.density_ratio import DensityRatio
from fedkd_flwr.labels.majority import Majority
from fedkd_flwr.labels.rule import Ballot, Consensus, ConsensusRule

__all__ = ["Auto"]


class Auto(ConsensusRule):
    """The rule that a round's answers support; beside noise the majority, for which alone a claim counts votes."""

    name: ClassVar[str] = "auto"
    asks: ClassVar[str] = DensityRatio.name

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the consensus of the rule that the answers support, and why."""
        if config.noisy:
            return Majority().combine(ballot, config=config, rng=rng)
        return DensityRatio(demanded=False).combine(ballot, config=config, rng=rng)
