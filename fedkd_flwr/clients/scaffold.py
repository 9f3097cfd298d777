"""SCAFFOLD at a party: local steps corrected by the control variates, of which this party keeps its own.

The other half, and the whole round, is `fedkd_flwr.strategies.scaffold`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.scaffold import CARD, next_control
from fedkd_flwr.clients.party import Answer, Instruction
from fedkd_flwr.clients.weight_exchange import WeightClient
from fedkd_flwr.errors import Note, PayloadError, explain
from fedkd_flwr.wire.records import numbered, numbered_arrays

__all__ = ["SCAFFOLDClient"]

logger = logging.getLogger("flwr.party")


class SCAFFOLDClient(WeightClient):
    """Sends weights, and how its control variate changed. Parameters as in `WeightClient`.

    The party's ``state`` keeps two controls: that after its last round, and that before it, which counts where the
    server never got that round's answer. Without ``state`` its control is zero in every round.
    """

    card = CARD

    def weights(self, instruction: Instruction) -> Sequence[NDArray[Any]]:
        """Return the net's arrays among those that came."""
        return numbered_arrays(instruction.arrays, "model")

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse a net whose optimiser is not plain SGD."""
        _ = self.party.model(seed=0).sgd_rate

    def learn(self, instruction: Instruction) -> Answer:
        """Take the corrected steps; return the weights and the change of this party's control."""
        party, servers = self.party, numbered_arrays(instruction.arrays, "control")
        model = self.received(instruction, "train", instruction.server_round)
        before, trained = model.arrays(), model.are_trained()
        wanted, seen = [array.shape for array in before], [array.shape for array in servers]
        if wanted != seen:
            raise PayloadError(explain("control", f"have the net's shapes {wanted}", str(seen)))
        held, notes = self._held(instruction, before)
        shifts = [(c - mine).astype(np.float32) for c, mine in zip(servers, held, strict=True)]
        epochs = instruction.config.local_epochs
        steps = model.shifted_epochs(party.X, party.y, epochs=epochs, shifts=shifts)
        after = model.arrays()
        found = next_control(held, servers, before, after, steps=steps, rate=model.sgd_rate)
        control = [new if moves else np.zeros_like(new) for new, moves in zip(found, trained, strict=True)]
        change = [new - old for new, old in zip(control, held, strict=True)]
        return Answer(
            values={**numbered("model", after), **numbered("control", change)},
            kept={**numbered("control", control), **numbered("before", held)},
            notes=notes,
        )

    def _held(
        self, instruction: Instruction, like: Sequence[NDArray[np.float32]]
    ) -> tuple[list[NDArray[np.float32]], list[str]]:
        """Return this party's control as the server counted it last, and what the server should know of it."""
        saved, counted = instruction.saved, instruction.last_round
        kept = {} if saved is None else {k.removeprefix("kept."): a for k, a in saved.arrays.items()}
        if saved is None or "control.0" not in kept:
            if counted:
                words = "%s: its control variate of round %d is lost, and starts from zero; keep state-dir on a disk"
                logger.warning(words, self.party.name, counted)
            return [np.zeros_like(array) for array in like], [Note.STATE_LOST] if counted else []
        name = "control" if counted >= saved.server_round else "before"
        return [kept[f"{name}.{i}"] for i in range(len(like))], []
