"""One round of votes at a party: what FedKT and PATE do when the final labels come back.

The other half is `fedkd_flwr.strategies.one_shot_vote`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.one_shot_vote import fit_as_long
from fedkd_flwr.clients.answer import Finished
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.exchange import fit_both, soft_labels
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.models.populations import learnt_shares

__all__ = ["OneShotVoteClient"]


class OneShotVoteClient(PartyClient):
    """A party of an exchange that ends in a model at the server. Subclasses say what it learns, `learn`."""

    def finish(self, instruction: Instruction) -> Finished:
        """Fit this party's own model on its rows and the public rows with their final labels; SOLO for as long."""
        party = self.party
        if not instruction.config.party_models:
            alone = party.model(seed=instruction.seed("model")).fit(party.X, party.y)
            alone.shares = learnt_shares(alone, party.y, None)
            return Finished(model=alone, solo=party.metrics(alone), learnt=False)
        probs = soft_labels(party, instruction)
        model = fit_both(party.model(seed=instruction.seed("model")), party, instruction, probs)
        known = party.public.schema.class_shares or (None if instruction.config.noisy else ())
        model.shares = learnt_shares(model, party.y, instruction.labels, probs, known=known)
        labelled = 0 if instruction.labels is None else int((instruction.labels != ABSTAIN).sum())
        fresh = party.model(seed=instruction.seed("model"))
        alone = fit_as_long(fresh, party.X, party.y, num_rows=len(party.y) + labelled)
        alone.shares = learnt_shares(alone, party.y, None)
        return Finished(model=model, solo=party.metrics(alone), alone=alone)
