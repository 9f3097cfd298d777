"""FedCT at a party: train on private rows and pseudo-labelled public rows, label the public rows again.

The other half, and the whole round, is `fedkd_flwr.strategies.fedct`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.fedct import CARD, FedCTConfig, train_as_long
from fedkd_flwr.clients.answer import Answer, Finished, pack_metrics, unpack_metrics
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.exchange import fit_both, public_answers, soft_labels, with_beside
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.visit import kept_model
from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import learnt_shares
from fedkd_flwr.privacy.noise.labels import LabelNoise

__all__ = ["FedCTClient"]


class FedCTClient(PartyClient):
    """Sends one label array on all public rows, every round (FedCT, Algorithm 1).

    Gradient learners continue from the state they kept (``steps-per-round`` minibatch steps, half of each batch
    private, half public rows); the others refit on private and labelled public rows together.
    """

    card = CARD

    def learn(self, instruction: Instruction) -> Answer:
        """Train on private rows and the consensus so far; return this party's labels."""
        model, notes = self._restore(instruction)
        self._train(model, instruction)
        saved = instruction.saved
        meta = {"alone": saved.meta["alone"]} if saved is not None and "alone" in saved.meta else {}
        if instruction.server_round == 1 and not model.continues:  # so far it has seen private rows only
            meta["alone"] = pack_metrics(self.party.metrics(model))
        labels, probs = public_answers(model, self.party, instruction)
        answer = Answer(
            values={"labels": labels[None]},
            metrics=self.party.progress(model),
            notes=notes,
            model=model if model.continues else None,
            meta=meta,
        )
        steps = instruction.config.steps_per_round
        return with_beside(answer, self.party, instruction, steps=steps, own_probs=probs)

    def charge(self, instruction: Instruction) -> Charge | None:
        """Return what a round of privatised labels costs: another data set may change every one of them."""
        if not instruction.config.noisy:
            return None
        return Charge.of_labels(self._mechanism(instruction), self.party.public.num_rows)

    def release(self, answer: Answer, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Privatise the labels, where `charge` says what that costs."""
        if not instruction.config.noisy:
            return answer.values
        mechanism = self._mechanism(instruction)
        beside = {name: array for name, array in answer.values.items() if name != "labels"}
        private = mechanism.privatize(answer.values["labels"][0], rng=self.noise_rng)
        return {mechanism.payload: private.reshape(1, -1).astype(np.int16), **beside}

    def _mechanism(self, instruction: Instruction) -> LabelNoise:
        config: FedCTConfig = instruction.config
        return config.mechanism(num_classes=self.party.public.num_classes)

    def finish(self, instruction: Instruction) -> Finished:
        """Train once more on the final consensus; SOLO is trained on private rows for as long."""
        party = self.party
        model, _ = self._restore(instruction)
        probs = soft_labels(party, instruction) if model.supports_soft_steps or not model.continues else None
        if not model.continues:
            fit_both(model, party, instruction, probs)
        elif probs is None:
            self._train(model, instruction)
        else:  # afresh: what learnt labels for many rounds stays too sure of them
            told = {"steps": max(instruction.config.steps_per_round // 10, 1), "seed": instruction.seed("held-out")}
            labelled = instruction.labels != ABSTAIN
            model.joint_fit(party.X, party.y, party.public.X[labelled], probs[labelled], **told)
        known = party.public.schema.class_shares or (None if instruction.config.noisy else ())
        model.shares = learnt_shares(model, party.y, instruction.labels, probs, known=known)
        alone_then = None if instruction.saved is None else instruction.saved.meta.get("alone")
        # a silo keeps the model trained alone, so it is made again: only its figures were saved in round 1
        if (party.simulated or not party.keep_model) and not model.continues and alone_then is not None:
            return Finished(model=model, solo=unpack_metrics(alone_then))
        alone = party.model(seed=instruction.seed("model"))
        told = {"config": instruction.config, "rounds": instruction.server_round}
        train_as_long(alone, party.X, party.y, **told, num_public=party.public.num_rows)
        alone.shares = learnt_shares(alone, party.y, None)
        return Finished(model=model, solo=party.metrics(alone), alone=alone)

    def _restore(self, instruction: Instruction) -> tuple[Classifier, list[str]]:
        fresh = self.party.model(seed=instruction.seed("model"))
        if not fresh.continues:
            return fresh, []
        kept, notes = kept_model(self.party, instruction)
        return kept or fresh, notes

    def _train(self, model: Classifier, instruction: Instruction) -> None:
        party, labels = self.party, instruction.labels
        steps: int = instruction.config.steps_per_round
        if labels is None:
            model.update(party.X, party.y, steps=steps)
        else:
            model.update(party.X, party.y, party.public.X, labels, steps=steps)
