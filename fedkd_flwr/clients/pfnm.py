"""PFNM at a party: train a net from first weights of its own, once, and return its weights and class counts.

The other half, and the whole round, is `fedkd_flwr.strategies.pfnm`.
"""

from __future__ import annotations

import numpy as np

from fedkd_flwr.algorithms.pfnm import CARD
from fedkd_flwr.clients.party import Answer, Instruction
from fedkd_flwr.clients.weight_exchange import WeightClient
from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.wire.records import numbered

__all__ = ["PFNMClient"]


class PFNMClient(WeightClient):
    """Sends the weights of a net it trained alone, and how many rows of each class it holds.

    Parameters as in `WeightClient`; its ``model`` must be the zoo's ``mlp``.
    """

    card = CARD

    def learn(self, instruction: Instruction) -> Answer:
        """Train a net alone; return its weights and the class counts."""
        party = self.party
        model = party.model(seed=instruction.seed("train", instruction.server_round)).initialize()
        self.train(model, instruction)
        counts = np.bincount(party.y, minlength=party.public.num_classes)
        return Answer(values={**numbered("model", model.arrays()), "class-counts": counts.astype(np.int64)})

    def received(self, instruction: Instruction, *stream: str | int) -> Classifier:
        """Return the server's net, which is wider than this party's."""
        arrays = self.weights(instruction)
        fresh = self.party.model(seed=instruction.seed(*stream))
        try:
            return fresh.with_widths([len(array) for array in arrays[1:-1:2]]).set_arrays(arrays)
        except (DataError, TypeError) as error:
            raise PayloadError(f"The server's model does not fit this party's: {error}") from error
