"""SCAFFOLD: averaging whose parties correct their steps for what makes their rows unlike the others'.

Karimireddy et al., ICML 2020 (arXiv 1910.06378), Algorithm 1, option II. The whole round t:

    server   weights x and control c                                                        -> a group S of N parties
    party    steps y <- y - lr (g - c_i + c); c_i+ = c_i - c + (x - y) / (K lr), kept  -> y and c_i+ - c_i
    server   x <- x + mean(y - x); c <- c + (|S| / N) mean(c_i+ - c_i)                      -> x and c of round t+1

All controls are zero at first. The rule for c_i+ holds for plain SGD: another optimiser is refused. A change of control
is a mean gradient on the party's rows: it leaves without noise, like the weights.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.baselines.cards import SCAFFOLD as CARD
from fedkd_flwr.baselines.weight_exchange import PartyWeights, WeightClient, WeightExchange
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.errors import PartyNote, PayloadError, explain
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import Stage
from fedkd_flwr.wire.records import numbered, numbered_arrays

__all__ = ["SCAFFOLDClient", "SCAFFOLDExchange", "aggregate", "next_control"]


Arrays = Sequence[NDArray[np.floating]]
"""One for each array of a net."""
logger = logging.getLogger("flwr.party")


def next_control(
    control: Arrays, server_control: Arrays, before: Arrays, after: Arrays, *, steps: int, rate: float
) -> list[NDArray[np.float32]]:
    """Return a party's next control variate, c_i+ = c_i - c + (x - y) / (K lr).

    It is the mean gradient over the party's K local ``steps`` at a learning ``rate``, which Option II has at no cost;
    ``before`` is x, the weights that came, and ``after`` y.
    """
    found = []
    for mine, servers, x, y in zip(control, server_control, before, after, strict=True):
        moved = (np.asarray(x, dtype=np.float64) - y) / (steps * rate)
        found.append((moved + mine - servers).astype(np.float32))
    return found


def aggregate(
    weights: Arrays, server_control: Arrays, replies: Sequence[tuple[Arrays, Arrays]], *, num_parties: int
) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
    """Return the next weights, x + mean(y_i - x), and the next control, c + (|S| / N) mean(c_i+ - c_i).

    Every party counts alike, however many rows it has, as in Algorithm 1. ``replies`` are of those that answered, S;
    ``num_parties`` is N.
    """
    share = len(replies) / num_parties

    def mean(which: int, array: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.mean([np.asarray(reply[which][array], np.float64) for reply in replies], axis=0)
        return found

    moved = [mean(0, k).astype(np.float32) for k in range(len(weights))]
    control = [(c + share * mean(1, k)).astype(np.float32) for k, c in enumerate(server_control)]
    return moved, control


class SCAFFOLDExchange(WeightExchange):
    """SCAFFOLD with option II. Parameters as in `WeightExchange`; the net's optimiser must be plain SGD.

    ``control``: the server's control c, one array for each of the net.

    Raises `ConfigError` if the net has another optimiser, or momentum.
    """

    card = CARD
    parts = ("model", "control")
    keeps = ("control",)
    warning = Note(NoteCode.WEIGHTS_LEFT, {"beside": "gradients"})

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        _ = self.model.sgd_rate
        self.control: list[NDArray[np.float32]] = [np.zeros_like(array) for array in self.model.arrays()]

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the weights and, in a round, the control."""
        arrays = super().outgoing(stage, server_round)
        return {**arrays, **numbered("control", self.control)} if stage == "fit" else arrays

    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Average the weights, and move the control by what the parties' controls changed."""
        replies = [(answer.parts["model"], answer.parts["control"]) for answer in answers]
        weights, self.control = aggregate(
            self.model.arrays(), self.control, replies, num_parties=max(len(self.roster.nodes), len(answers))
        )
        return self.take_up(weights)


class SCAFFOLDClient(WeightClient):
    """Sends weights, and how its control variate changed. Parameters as in `WeightClient`.

    The party's ``state`` keeps two controls: that after its last round, and that before it, which counts where the
    server never got that round's answer. Without ``state`` its control is zero in every round.
    """

    card = CARD

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
        steps = model.train_epochs(party.X, party.y, epochs=epochs, shifts=shifts).steps_taken
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
            return [np.zeros_like(array) for array in like], [PartyNote.STATE_LOST] if counted else []
        name = "control" if counted >= saved.server_round else "before"
        return [kept[f"{name}.{i}"] for i in range(len(like))], []
