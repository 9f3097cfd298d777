"""A party whose net's weights leave it: train the server's net on its rows, and return the weights.

The other half, and the whole round, is `fedkd_flwr.strategies.weight_exchange`. Weights and the number of rows leave,
without noise: a party allows that by the algorithm's name or not at all, and one that demands privacy refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import Answer, Finished, Instruction
from fedkd_flwr.models.classifier import Classifier

__all__ = ["WeightClient"]


class WeightClient(PartyClient):
    """Sends the weights of the server's net after some passes over this party's rows.

    Parameters
    ----------
    party : Party
        What it holds and allows. Its ``model`` must be the server's torch net.
    """

    def learn(self, instruction: Instruction) -> Answer:
        """Train the server's net; return its weights under the names they came with."""
        model = self.received(instruction, "train", instruction.server_round)
        self.train(model, instruction)
        return Answer(values=dict(zip(instruction.arrays, model.arrays(), strict=True)))

    def train(self, model: Classifier, instruction: Instruction) -> None:
        """Train the net that came on this party's rows: plain passes, unless an algorithm adds something."""
        model.train_epochs(self.party.X, self.party.y, epochs=instruction.config.local_epochs)

    def num_rows(self, instruction: Instruction) -> int:
        """Return how many rows this party trained on: its weight in the server's mean."""
        return len(self.party.y)

    def encode(
        self, values: Mapping[str, NDArray[Any]], instruction: Instruction, base: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Return the weights as they are."""
        return dict(values)

    def finish(self, instruction: Instruction) -> Finished:
        """Keep the server's final model; measure it beside a net trained on this party's rows alone (SOLO)."""
        party, epochs = self.party, instruction.config.solo_epochs
        model = self.received(instruction, "final")
        alone = party.model(seed=instruction.seed("model")).train_epochs(party.X, party.y, epochs=epochs)
        return Finished(model=model, solo=party.metrics(alone), alone=alone)

    def weights(self, instruction: Instruction) -> Sequence[NDArray[Any]]:
        """Return the net's arrays among those that came."""
        return list(instruction.arrays.values())

    def received(self, instruction: Instruction, *stream: str | int) -> Classifier:
        """Return the server's net, which goes on with this party's stream of randomness."""
        return self.party.net_with(self.weights(instruction), seed=instruction.seed(*stream))
