"""FedCT at a party: train on private rows and pseudo-labelled public rows, label the public rows again.

The other half, and the whole round, is `fedkd_flwr.strategies.fedct`.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from fedkd_flwr.clients.base import LabelClient
from fedkd_flwr.clients.party import Answer, Finished, Instruction
from fedkd_flwr.errors import Note
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.models.classifier import Classifier

__all__ = ["FedCTClient"]

logger = logging.getLogger("flwr.party")


class FedCTClient(LabelClient):
    """Sends one label array on all public rows, every round (FedCT, Algorithm 1).

    Gradient learners continue from the state they kept (``steps-per-round`` minibatch steps, half of each batch
    private, half public rows); the others refit on private and labelled public rows together.

    Parameters
    ----------
    party : Party
        What it holds and allows.
    """

    algorithm: ClassVar[str] = "fedct"

    def learn(self, instruction: Instruction) -> Answer:
        """Train on private rows and the consensus so far; return this party's labels."""
        model, notes = self._restore(instruction)
        self._train(model, instruction)
        accuracies = self.party.accuracies(model)
        meta = dict(instruction.saved.meta) if instruction.saved is not None else {}
        if instruction.server_round == 1:
            meta["alone"] = accuracies  # so far it has seen private rows only
        return Answer(
            labels=model.predict(self.party.public.X),
            metrics={f"accuracy-{name}": value for name, value in accuracies.items()},
            notes=notes,
            model=model if model.continues else None,
            meta=meta,
        )

    def finish(self, instruction: Instruction) -> Finished:
        """Train once more on the final consensus; SOLO is trained on private rows for equally many steps."""
        party = self.party
        model, _ = self._restore(instruction)
        self._train(model, instruction)
        saved = instruction.saved
        if not model.continues and saved is not None and "alone" in saved.meta:
            return Finished(model=model, solo=dict(saved.meta["alone"]))
        alone = party.model(seed=instruction.seed("model"))
        steps = instruction.integer("steps-per-round", minimum=1) * (instruction.server_round + 1)
        alone.update(party.X, party.y, steps=steps)
        return Finished(model=model, solo=party.accuracies(alone))

    def _restore(self, instruction: Instruction) -> tuple[Classifier, list[str]]:
        fresh = self.party.model(seed=instruction.seed("model"))
        if not fresh.continues:
            return fresh, []
        last_round = instruction.integer("last-round", minimum=0)
        saved = instruction.saved
        kept = saved.server_round if saved is not None and saved.model else 0
        notes: list[str] = []
        if kept < last_round:
            logger.warning(
                "%s: kept state must be of round >= %d, got %s. Its model continues from there; keep state-dir on "
                "a disk that survives this node's restarts.",
                self.party.name,
                last_round,
                kept or "none",
            )
            notes.append(Note.STATE_OLDER if kept else Note.STATE_LOST)
        if saved is None or not kept:
            return fresh, notes
        from fedkd_flwr.models.serialize import loads

        # the file is this party's own; it may hold the types of this party's own estimator and no others
        return loads(saved.model, trusted=fresh.type_names), notes

    def _train(self, model: Classifier, instruction: Instruction) -> None:
        party, labels = self.party, instruction.labels
        steps = instruction.integer("steps-per-round", minimum=1)
        if labels is None or not (labelled := labels != ABSTAIN).any():
            model.update(party.X, party.y, steps=steps)
        else:
            model.update(party.X, party.y, party.public.X[labelled], labels[labelled], steps=steps)
