"""PATE at a party: one teacher on all its rows labels the public rows.

The other half, and the whole round, is `fedkd_flwr.strategies.pate`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.pate import CARD
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.exchange import public_answers, with_beside
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.one_shot_vote import OneShotVoteClient

__all__ = ["PATEClient"]


class PATEClient(OneShotVoteClient):
    """Sends one label array on all public rows, once (PATE, ICLR 2017, section 2, a teacher per party).

    ``party``: what it holds and allows. Its ``model`` is the teacher, what it measures alone, and fits on the final
    labels.
    """

    card = CARD

    def learn(self, instruction: Instruction) -> Answer:
        """Train the teacher; return its labels."""
        party = self.party
        teacher = party.model(seed=instruction.seed("model")).fit(party.X, party.y)
        labels, probs = public_answers(teacher, party, instruction)
        return with_beside(Answer(values={"labels": labels[None]}), party, instruction, own_probs=probs)
