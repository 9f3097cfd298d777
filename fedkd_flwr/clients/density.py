"""What a party says for density-ratio votes: how much each public row looks like its rows of each class.

That tells more than a label: how many rows of each class the party holds, and how typical each public row is of it. So
a party sends it only where its ``allow`` names ``density-ratio``, and never beside a claim.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.density_vote import DENSITY_RATIO
from fedkd_flwr.clients.party import Answer, Instruction, ModelFactory, Party
from fedkd_flwr.clients.pieces import dump
from fedkd_flwr.errors import ModelBytesError
from fedkd_flwr.labels.density import default_ratio_bits, density_ratios, ratio_codes, steady_codes, with_classes_of
from fedkd_flwr.labels.voting import Labels
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.open_set import open_set, widened

__all__ = ["public_answers", "with_ratios"]

logger = logging.getLogger("flwr.party")


def public_answers(
    model: Classifier, party: Party, instruction: Instruction
) -> tuple[Labels, NDArray[np.float64] | None]:
    """Return a model's labels of the public rows and, of a net that is asked for ratios, the probabilities behind them.

    Those of other kinds say less than the model that `open_set` fits: a forest of own and public rows together tells
    the classes better than one of own rows (digits, ten parties: .02 of the consensus).
    """
    if not (instruction.ratios and model.takes_steps):
        return model.predict(party.public.X), None
    probs = model.predict_proba(party.public.X)
    return probs.argmax(axis=1).astype(np.int16), probs


def with_ratios(
    answer: Answer,
    party: Party,
    instruction: Instruction,
    *,
    steps: int | None = None,
    make: ModelFactory | None = None,
    own_probs: NDArray[np.float64] | None = None,
) -> Answer:
    """Return an answer with this party's ratios, where they are asked for and allowed.

    Parameters
    ----------
    answer : Answer
        Holds labels.
    party : Party
    instruction : Instruction
    steps : int, optional
        Minibatch steps of nets, as in `fedkd_flwr.models.open_set.open_set`.
    make : callable, optional
        Makes the model that learns from private rows, where that is not the party's ``model``.
    own_probs : ndarray of shape (num_public, num_classes), optional
        What the party's own net says of the public rows (`public_answers`); a net is fitted to say it otherwise.
    """
    if not instruction.ratios:
        return answer
    if DENSITY_RATIO not in party.allow:
        logger.warning(
            "%s: the run asks for density ratios too, and this node's allow does not name %s: labels alone leave. "
            "Class counts and ratios tell more than labels; docs/deploy.md says what.",
            party.name,
            DENSITY_RATIO,
        )
        return answer
    codes, kept = _codes(party, instruction, steps, make or party.model, own_probs)
    values = {**answer.values, "ratios": codes, "class-counts": _class_counts(party)}
    return replace(answer, values=values, kept={**answer.kept, **kept})


def _codes(
    party: Party,
    instruction: Instruction,
    steps: int | None,
    make: ModelFactory,
    own_probs: NDArray[np.float64] | None,
) -> tuple[NDArray[np.uint8], dict[str, NDArray[Any]]]:
    """Return this round's codes, and what is kept for the next: the codes of models that would be fitted alike."""
    fresh = make(seed=instruction.seed("open-set"))
    kept = instruction.saved.arrays if instruction.saved is not None else {}
    last: NDArray[np.uint8] | None = kept.get("kept.ratios")
    if last is not None and not fresh.takes_steps:
        return last, {"ratios": last}
    found = open_set(
        fresh,
        party.X,
        party.y,
        party.public.X,
        rng=instruction.rng("open-set"),
        steps=steps,
        models=_nets(fresh, kept),
    )
    num_classes, counts, probs = party.public.num_classes, _class_counts(party), found.probs
    if fresh.takes_steps:
        if own_probs is None:
            own_probs = make(seed=instruction.seed("model")).fit(party.X, party.y).predict_proba(party.public.X)
        probs = with_classes_of(probs, own_probs, counts, instruction.labels)
    ratios = density_ratios(probs, counts)
    codes = ratio_codes(ratios, num_classes=num_classes, bits=default_ratio_bits(num_classes))
    if last is not None:
        codes = steady_codes(codes, last)
    nets = {f"open-set.{i}": np.frombuffer(dump(net), dtype=np.uint8) for i, net in enumerate(found.models)}
    return codes, {"ratios": codes, **nets}


def _nets(fresh: Classifier, kept: Mapping[str, NDArray[Any]]) -> list[Classifier]:
    """Return the nets of the last round; none where they were not kept, or cannot be read."""
    from fedkd_flwr.models.serialize import loads

    found = [array.tobytes() for name, array in sorted(kept.items()) if name.startswith("kept.open-set.")]
    wide = widened(fresh) if found and all(found) else None
    try:
        return [] if wide is None else [loads(data, trusted=wide.type_names) for data in found]
    except ModelBytesError as error:
        logger.warning("the nets for density ratios start afresh: %s", error)
        return []


def _class_counts(party: Party) -> NDArray[np.int64]:
    return np.bincount(party.y, minlength=party.public.num_classes).astype(np.int64)
