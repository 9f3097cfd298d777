"""PrivateKT at a party: train the server's model on its rows, label the few public rows asked about, privatise.

The other half, and the whole round, is `fedkd_flwr.strategies.privatekt`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.privatekt import CARD, PrivateKTConfig
from fedkd_flwr.clients.answer import Answer, Finished
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.errors import LimitError, PayloadError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.wire.records import numbered_arrays

__all__ = ["PrivateKTClient"]

logger = logging.getLogger("flwr.party")


class PrivateKTClient(PartyClient):
    """Sends K privatised labels a round (PrivateKT, Algorithm 1, lines 8-14), and never anything else of its rows.

    Whatever the server says, labels leave privatised only, and the ledger is charged for each of them.

    Parameters as in `PartyClient`; the party's ``model`` must be the server's torch net.
    """

    card = CARD

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse weights that do not fit this party's net, rows that do not exist, and more of them than were said."""
        rows, told = instruction.rows(self.party.public.num_rows), instruction.config.transfer_rows
        if not final and len(rows) > told:
            raise PayloadError(explain("indices", f"be at most {told}, as transfer-rows", len(rows)))

        def fits() -> bytes:
            self._received(instruction, "check")
            return b""

        apart = self.party.apart
        try:  # apart: a GPU that this process has used could not be used where it learns
            fits() if apart is None else apart(fits)
        except LimitError:  # private rows are in that process's memory too, so `learn` fails instead, and answers
            logger.exception("%s: the server's weights could not be tried within this node's limits", self.party.name)

    def learn(self, instruction: Instruction) -> Answer:
        """Train the server's model on this party's rows; return its labels of the rows asked about."""
        rows = instruction.rows(self.party.public.num_rows)
        model = self._received(instruction, "train", instruction.server_round)
        model.train_epochs(self.party.X, self.party.y, epochs=instruction.config.local_epochs)
        return Answer(values={"labels": model.predict(self.party.public.X[rows])[None]})

    def charge(self, instruction: Instruction) -> Charge:
        """Return what the labels of one round cost, whatever the server assumes: any label may change."""
        return Charge.of_labels(self._mechanism(instruction), self.num_rows(instruction))

    def release(self, answer: Answer, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Privatise the labels."""
        labels = answer.values["labels"]
        return {"labels": self._mechanism(instruction).privatize(labels, rng=self.noise_rng)}

    def asked_rows(self, instruction: Instruction) -> NDArray[np.int64]:
        """Return the rows that the server asked about."""
        return instruction.rows(self.party.public.num_rows)

    def finish(self, instruction: Instruction) -> Finished:
        """Keep the server's final model; measure it beside a net trained on this party's rows alone (SOLO)."""
        party, epochs = self.party, instruction.config.solo_epochs
        model = self._received(instruction, "final")
        alone = party.model(seed=instruction.seed("model")).train_epochs(party.X, party.y, epochs=epochs)
        return Finished(model=model, solo=party.metrics(alone), alone=alone)

    def _mechanism(self, instruction: Instruction) -> RandomizedResponse:
        config: PrivateKTConfig = instruction.config
        return config.mechanism(self.party.public.num_classes)

    def _received(self, instruction: Instruction, *stream: str | int) -> Classifier:
        return self.party.net_with(numbered_arrays(instruction.arrays, "model"), seed=instruction.seed(*stream))
