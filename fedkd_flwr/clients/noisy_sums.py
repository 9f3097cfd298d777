"""Noisy sums at a party: count its rows in the public bins, with each class, and add noise to every count.

Where an instruction brings vectors, add up the products of the rows' vectors instead, with noise on every sum.

The other half, and the whole round, is `fedkd_flwr.strategies.noisy_sums`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.column_weights import num_products, products
from fedkd_flwr.algorithms.noisy_sums import CARD, NoisySumsConfig
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.one_shot_vote import OneShotVoteClient
from fedkd_flwr.clients.party import Table
from fedkd_flwr.data.bins import Bins
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.privacy.claims.claim import REPLACED_RECORD
from fedkd_flwr.privacy.noise.sums import LENGTH, NoisyCounts, NoisyProducts

__all__ = ["NoisySumsClient"]


class NoisySumsClient(OneShotVoteClient):
    """Sends one array of noisy sums a visit, and nothing else of its rows.

    No record can make counting fail, or end it: any features and a class of the schema are one
    cell of each column. What fails all the same becomes sums over no rows, with the same noise.

    Parameters as in `PartyClient`; the party's ``model`` is what it measures alone, and fits on the final labels.
    """

    card = CARD

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse images and texts, and vectors that are not of these bins."""
        bins, vectors, classes = self._bins(instruction), instruction.arrays.get("vectors"), self._classes
        shape = sum(bins.sizes) + classes, classes
        if vectors is not None and (vectors.shape != shape or vectors.dtype != np.int32):
            seen = f"{vectors.dtype} of shape {vectors.shape}"
            raise PayloadError(explain("vectors", f"be int32 of shape {shape}", seen))

    def learn(self, instruction: Instruction) -> Answer:
        """Count this party's rows, or add up the products of their vectors."""
        party, bins = self.party, self._bins(instruction)
        if "vectors" not in instruction.arrays:
            return Answer(values={"sums": bins.counts(party.X, party.y, num_classes=self._classes)})
        of_class = sum(bins.sizes) + np.asarray(party.y, dtype=np.int64)
        rows = np.column_stack([bins.cells(bins.codes(party.X)), of_class])
        return Answer(values={"products": products(instruction.arrays["vectors"], rows)})

    def fixed(self, instruction: Instruction) -> Answer:
        """Return sums over no rows."""
        sizes = self._bins(instruction).sizes
        if "vectors" in instruction.arrays:
            return Answer(values={"products": np.zeros(num_products(len(sizes)), dtype=np.int64)})
        return Answer(values={"sums": np.zeros((sum(sizes), self._classes), dtype=np.int64)})

    def charge(self, instruction: Instruction) -> Charge:
        """Return what the sums cost, one release of all columns together."""
        mechanism = self._mechanism(instruction)
        events = [(mechanism.dp_event(), 1)]
        return Charge(events=events, mechanism=mechanism.words, neighbouring_relation=REPLACED_RECORD)

    def in_one_piece(self, instruction: Instruction) -> bool:
        """Tell that adding up is not ended by limits: one record must not decide about all sums."""
        return False

    def release(self, answer: Answer, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Add the noise."""
        mechanism = self._mechanism(instruction)
        return {name: mechanism.privatize(array, rng=self.noise_rng) for name, array in answer.values.items()}

    def table(self, arrays: Mapping[str, NDArray[Any]], instruction: Instruction) -> Table:
        """Return the sums that leave as a table: a line for each bin of each column, or for each two columns."""
        if "products" in arrays:
            names = [*(column.name for column in self.party.public.schema.columns), "(class)"]
            pairs = zip(*np.triu_indices(len(names)), arrays["products"] / (2 * LENGTH**2), strict=True)
            told = ([names[i], names[j], f"{value:.3f}"] for i, j, value in pairs)
            return chain([["column", "with", "products of longest records"]], told)
        head = ["column", "bin", *(f"records of {name}" for name in self.party.public.schema.classes)]
        lines = zip(self._bins(instruction).names(), arrays["sums"].tolist(), strict=True)
        return chain([head], ([*words, *counts] for words, counts in lines))

    def _bins(self, instruction: Instruction) -> Bins:
        return Bins.of(self.party.public, most=instruction.config.bins)

    @property
    def _classes(self) -> int:
        return self.party.public.num_classes

    def _mechanism(self, instruction: Instruction) -> NoisyCounts | NoisyProducts:
        config: NoisySumsConfig = instruction.config
        columns = len(self._bins(instruction).sizes)
        return config.products(columns) if "vectors" in instruction.arrays else config.mechanism(columns)
