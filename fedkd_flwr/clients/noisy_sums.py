"""Noisy sums at a party: count its rows in the public bins, with each class, and add noise to every count.

The other half, and the whole round, is `fedkd_flwr.strategies.noisy_sums`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.noisy_sums import CARD, NoisySumsConfig
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.one_shot_vote import OneShotVoteClient
from fedkd_flwr.clients.party import Table
from fedkd_flwr.data.bins import Bins
from fedkd_flwr.privacy.claims.claim import REPLACED_RECORD
from fedkd_flwr.privacy.noise.sums import NoisyCounts

__all__ = ["NoisySumsClient"]


class NoisySumsClient(OneShotVoteClient):
    """Sends one array of noisy counts, once, and nothing else of its rows.

    No record can make counting fail, or end it: any features and a class of the schema are one
    cell of each column. What fails all the same becomes counts of zero, with the same noise.

    Parameters as in `PartyClient`; the party's ``model`` is what it measures alone, and fits on the final labels.
    """

    card = CARD

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse images and texts."""
        _ = self._bins(instruction)

    def learn(self, instruction: Instruction) -> Answer:
        """Count this party's rows."""
        party = self.party
        bins, classes = self._bins(instruction), party.public.num_classes
        return Answer(values={"sums": bins.counts(party.X, party.y, num_classes=classes)})

    def fixed(self, instruction: Instruction) -> Answer:
        """Return counts of nothing."""
        shape = sum(self._bins(instruction).sizes), self.party.public.num_classes
        return Answer(values={"sums": np.zeros(shape, dtype=np.int64)})

    def charge(self, instruction: Instruction) -> Charge:
        """Return what the counts cost, one release of all columns together."""
        mechanism = self._mechanism(instruction)
        events = [(mechanism.dp_event(), 1)]
        return Charge(events=events, mechanism=mechanism.words, neighbouring_relation=REPLACED_RECORD)

    def in_one_piece(self, instruction: Instruction) -> bool:
        """Tell that counting is not ended by limits: one record must not decide about all counts."""
        return False

    def release(self, answer: Answer, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Add the noise."""
        return {"sums": self._mechanism(instruction).privatize(answer.values["sums"], rng=self.noise_rng)}

    def encode(self, values: Mapping[str, NDArray[Any]], instruction: Instruction) -> dict[str, NDArray[Any]]:
        """Return the counts as they are: whole numbers of 64 bits."""
        return dict(values)

    def table(self, arrays: Mapping[str, NDArray[Any]], instruction: Instruction) -> Table:
        """Return the counts that leave as a table: a line for each bin of each column."""
        head = ["column", "bin", *(f"records of {name}" for name in self.party.public.schema.classes)]
        lines = zip(self._bins(instruction).names(), arrays["sums"].tolist(), strict=True)
        return chain([head], ([*words, *counts] for words, counts in lines))

    def _bins(self, instruction: Instruction) -> Bins:
        return Bins.of(self.party.public, most=instruction.config.bins)

    def _mechanism(self, instruction: Instruction) -> NoisyCounts:
        config: NoisySumsConfig = instruction.config
        return config.mechanism(len(self._bins(instruction).sizes))
