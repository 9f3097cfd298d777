"""What an algorithm says at a party: what it learns, what leaves of that, and what it costs.

`fedkd_flwr.clients.visit` makes the visits and calls what is here; nothing here calls back.

**Failure is an output.** Beside a claim, private rows may decide nothing that shows but the mechanism's output. What
settings, public facts or the ledger forbid is refused, by `PartyExchange.check` at the latest, before a private row is
looked at. Whatever fails later becomes data: `PartyExchange.fixed` values go through the mechanism in place of the
missing ones, are charged and sent; and the final visit has one answer.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.clients.answer import Answer, Finished
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.party import ModelFactory, Party, Table
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.labels.voting import ABSTAIN, Labels
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.estimators import ByValues
from fedkd_flwr.registry import load
from fedkd_flwr.stores.party_state import Saved
from fedkd_flwr.wire.label_codec import encode_answer
from fedkd_flwr.wire.score_codec import decode_scores

__all__ = ["PartyExchange", "fit_both", "public_answers", "soft_labels", "with_beside"]

logger = logging.getLogger("flwr.party")


class PartyExchange(ABC):
    """One algorithm's part of a run at a party.

    ``party``: what it holds and allows; in a run that continues another one, with that run's id and state.
    ``noise_rng``, for tests: seeded noise, and a seeded subset, protect nothing.
    """

    card: ClassVar[Card]
    heard: ClassVar[frozenset[str]] = frozenset()
    """Which of the arrays that it keeps hold nothing but what the server said, or has heard."""

    def __init__(self, party: Party, *, noise_rng: np.random.Generator | None = None) -> None:
        self.party, self.noise_rng = party, noise_rng

    @abstractmethod
    def learn(self, instruction: Instruction) -> Answer:
        """Learn, and return what the reply is made from; nothing of it has left yet."""

    @abstractmethod
    def finish(self, instruction: Instruction) -> Finished:
        """Learn from what comes back at the end; return the party's model and how good it is alone."""

    def charge(self, instruction: Instruction) -> Charge | None:
        """Return what the reply to this instruction costs; None where no mechanism of this party makes it private."""
        return None

    def check(self, instruction: Instruction, *, final: bool) -> None:  # noqa: B027 - most have nothing to refuse
        """Refuse what settings, public facts or this party's own files forbid; called before a private row is read.

        Beside a claim, what is not refused here is not refused at all: it fails in `learn`, and becomes an answer.
        ``final`` says that the instruction is for `finish`.
        """

    def fixed(self, instruction: Instruction) -> Answer:
        """Return the answer of a party that learnt nothing: the lowest class for each public row."""
        return Answer(values={"labels": np.zeros((1, self.num_rows(instruction)), dtype=np.int16)})

    def release(self, answer: Answer, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Return what leaves, by payload name: privatised where `charge` says so."""
        return answer.values

    def asks(self, instruction: Instruction) -> Mapping[str, int]:
        """Return, by key, the least that settings are, whatever the run says: the instruction asks for that."""
        return {}

    def num_rows(self, instruction: Instruction) -> int:
        """Return how many public rows a reply speaks of: what the server is told as the number of examples."""
        return len(self.asked_rows(instruction))

    def asked_rows(self, instruction: Instruction) -> NDArray[np.int64]:
        """Return the numbers of the public rows that a reply speaks of, in the order in which it does."""
        return np.arange(self.party.public.num_rows)

    def in_one_piece(self, instruction: Instruction) -> bool:
        """Tell whether `learn` is ended as a whole where the node has limits: where private rows are one unit to it."""
        return True

    def encode(self, values: Mapping[str, NDArray[Any]], instruction: Instruction) -> dict[str, NDArray[Any]]:
        """Return the values as wire arrays; as changes to those that the server holds, where that is shorter."""
        if self.card.sends in ("sums", "trees", "weights"):
            return dict(values)
        return encode_answer(
            values,
            public=self.party.spec.rows(self.num_rows(instruction)),
            server_round=instruction.server_round,
            base=instruction.held,
            rule=RULES.get(instruction.rule),
        )

    def table(self, arrays: Mapping[str, NDArray[Any]], instruction: Instruction) -> Table:
        """Return a reply's wire arrays as a table for whoever approves, its header first; None: a line a public row."""
        return None

    def referable(self, saved: Saved, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Return what a reply of changes may refer to: here the values of the last reply, but what is said once."""
        once = RULES[instruction.rule].once if instruction.rule else ()
        names = (name for name in saved.meta["values"] if name not in once)
        return {name: saved.arrays[f"value.{name}"] for name in names}


def public_answers(
    model: Classifier, party: Party, instruction: Instruction
) -> tuple[Labels, NDArray[np.float64] | None]:
    """Return a model's labels of the public rows and, where that is asked for, the probabilities behind them.

    For density ratios nets alone are asked: others say less than a model fitted for it (`fedkd_flwr.models.open_set`).
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
        words = (
            "%s: the run asks for %s too, and this node's allow-vote-rules does not name %s: labels alone leave. "
            "That tells more than labels; docs/howto/approve.md says what."
        )
        logger.warning(words, party.name, " and ".join(rule.needs), rule.name)
        return answer
    values, kept = load(rule.speaker)(party, instruction, make=make or party.model, steps=steps, own_probs=own_probs)
    return replace(answer, values={**answer.values, **values}, kept={**answer.kept, **kept})


def soft_labels(party: Party, instruction: Instruction) -> NDArray[np.float64] | None:
    """Return the probability of each class in each public row, (num_public, num_classes), where they came along."""
    if "probs" not in instruction.arrays or instruction.labels is None or not (instruction.labels != ABSTAIN).any():
        return None
    spec, at = party.spec, instruction.server_round
    probs = decode_scores(instruction.arrays["probs"], public=spec, server_round=at, kind="probs").astype(np.float64)
    return np.asarray(probs / probs.sum(axis=1, keepdims=True))


def fit_both(
    model: Classifier, party: Party, instruction: Instruction, probs: NDArray[np.float64] | None
) -> Classifier:
    """Fit a model on own rows and labelled public rows: with their probabilities where known, else their labels."""
    X, y, labels = party.X, party.y, instruction.labels
    if labels is None or not (labelled := labels != ABSTAIN).any():
        return model.fit(X, y)
    X = np.concatenate([X, party.public.X[labelled]])
    if isinstance(model.template, ByValues):
        model.template.own_rows = len(y)
    if probs is None:
        return model.fit(X, np.concatenate([y, labels[labelled]]))
    return model.fit_soft(X, np.concatenate([np.eye(model.num_classes)[y], probs[labelled]]))
