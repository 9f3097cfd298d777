"""What a party says beside its labels: made where the run's vote rule asks for it, and this node's owner allows it.

A rule names the function that makes it (`fedkd_flwr.labels.rule.ConsensusRule.speaker`):
``say(party, instruction, *, make, steps, own_probs)`` returns the arrays that leave, by payload name, and those that
are kept for the next round. It tells more than a label, so the owner's ``allow-vote-rules`` must name the rule, and it
never leaves beside a claim.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.labels.voting import Labels
from fedkd_flwr.models.classifier import Classifier

__all__ = ["public_answers", "with_beside"]

logger = logging.getLogger("flwr.party")


def public_answers(
    model: Classifier, party: Party, instruction: Instruction
) -> tuple[Labels, NDArray[np.float64] | None]:
    """Return a model's labels of the public rows and, where that is asked for, the probabilities behind them.

    For density ratios nets alone are asked: those of other kinds say less than a model that is fitted to be asked
    (`fedkd_flwr.models.open_set`).
    """
    if not (instruction.rule and (model.takes_steps or RULES[instruction.rule].of_model)):
        return model.predict(party.public.X), None
    probs = model.predict_proba(party.public.X)
    return probs.argmax(axis=1).astype(np.int16), probs


def with_beside(
    answer: Answer,
    party: Party,
    instruction: Instruction,
    *,
    steps: int | None = None,
    make: ModelFactory | None = None,
    own_probs: NDArray[np.float64] | None = None,
) -> Answer:
    """Return an answer with what the run's vote rule needs beside labels, where that is asked for and allowed.

    ``steps`` are the minibatch steps that nets take; ``make`` makes the model that learns from private rows, where that
    is not the party's ``model``; ``own_probs`` is what its own net says of the public rows (`public_answers`).
    """
    if not instruction.rule:
        return answer
    rule = RULES[instruction.rule]
    if rule.name not in party.allow:
        logger.warning(
            "%s: the run asks for %s too, and this node's allow-vote-rules does not name %s: labels alone leave. "
            "That tells more than labels; docs/howto/approve.md says what.",
            party.name,
            " and ".join(rule.needs),
            rule.name,
        )
        return answer
    module, _, name = rule.speaker.partition(":")
    say: Any = getattr(import_module(module), name)
    values, kept = say(party, instruction, make=make or party.model, steps=steps, own_probs=own_probs)
    return replace(answer, values={**answer.values, **values}, kept={**answer.kept, **kept})
