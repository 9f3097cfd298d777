"""What a party says beside its labels where the run's vote rule asks for it, and this node's owner allows it.

A rule names the function that makes it (`fedkd_flwr.labels.voting.ConsensusRule.speaker`), as here:
``say(party, instruction, *, make, steps, own_probs)`` returns the arrays that leave, by payload name, and those that
are kept for the next round. Both tell more than a label: how many rows of each class the party holds, and how typical
each public row is of them, or how sure its model is of it. They never leave beside a claim.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.clients.answer import dump
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.errors import ModelBytesError
from fedkd_flwr.labels.density_ratio import DensityRatio
from fedkd_flwr.labels.probabilities import home_labels, likelihood_steps
from fedkd_flwr.labels.ratios import density_ratios, ratio_codes, steady_codes, with_classes_of
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.open_set import open_set, widened
from fedkd_flwr.models.populations import learnt_shares

__all__ = ["say_probabilities", "say_ratios"]

logger = logging.getLogger("flwr.party")

Arrays = dict[str, NDArray[Any]]


def say_ratios(
    party: Party,
    instruction: Instruction,
    *,
    make: ModelFactory,
    steps: int | None,
    own_probs: NDArray[np.float64] | None,
) -> tuple[Arrays, Arrays]:
    """Return codes of how much public rows look like this party's rows of each class, its class counts, and what stays.

    Codes of models that would be fitted alike are kept themselves; of nets, which go on, the nets.
    """
    counts = np.bincount(party.y, minlength=party.public.num_classes).astype(np.int64)
    fresh = make(seed=instruction.seed("open-set"))
    kept = instruction.saved.arrays if instruction.saved is not None else {}
    last: NDArray[np.uint8] | None = kept.get("kept.ratios")
    if last is not None and not fresh.takes_steps:
        return {"ratios": last, "class-counts": counts}, {"ratios": last}
    found = open_set(
        fresh, party.X, party.y, party.public.X, rng=instruction.rng("open-set"), steps=steps, models=_nets(fresh, kept)
    )
    probs = found.probs
    if fresh.takes_steps:
        if own_probs is None:
            own_probs = make(seed=instruction.seed("model")).fit(party.X, party.y).predict_proba(party.public.X)
        probs = with_classes_of(probs, own_probs, counts, instruction.labels)
    codes = ratio_codes(density_ratios(probs, counts))
    if last is not None:
        codes = steady_codes(codes, last)
    nets = {f"open-set.{i}": np.frombuffer(dump(net), dtype=np.uint8) for i, net in enumerate(found.models)}
    return {"ratios": codes, "class-counts": counts}, {"ratios": codes, **nets}


def say_probabilities(
    party: Party,
    instruction: Instruction,
    *,
    make: ModelFactory,
    steps: int | None,
    own_probs: NDArray[np.float64] | None,
) -> tuple[Arrays, Arrays]:
    """Return this party's probabilities, class counts and the labels they give, and what is kept for the next round.

    ``own_probs`` are its model's. Models that would be fitted anew say once and for all what own rows alone taught
    them: the consensus, which they learnt besides, is no evidence of theirs.
    """
    counts = np.bincount(party.y, minlength=party.public.num_classes).astype(np.int64)
    fresh = make(seed=instruction.seed("model"))
    kept = instruction.saved.arrays if instruction.saved is not None else {}
    said: NDArray[np.uint8] | None = None if fresh.continues else kept.get("kept.probs")
    if said is None:
        if own_probs is None:
            own_probs = fresh.fit(party.X, party.y).predict_proba(party.public.X)
        even = np.ones(len(counts)) / len(counts)  # what a model that weighs its classes learnt
        learnt = learnt_shares(fresh, party.y, instruction.labels if fresh.continues else None)
        said = likelihood_steps(own_probs, taught=learnt.get("taught", even), class_counts=counts)
    students = getattr(instruction.config, "students", 1)
    labels = np.repeat(home_labels(said, counts)[None], students, axis=0)
    found: Arrays = {"labels": labels, "probs": said, "class-counts": counts}
    keeps: Arrays = {"probs": said}
    if DensityRatio.name in party.allow and not party.public.schema.class_shares:  # as in a run on labels
        more, more_kept = say_ratios(party, instruction, make=make, steps=steps, own_probs=own_probs)
        found, keeps = {**found, "ratios": more["ratios"]}, {**more_kept, **keeps}
    return found, keeps


def _nets(fresh: Classifier, kept: Mapping[str, NDArray[Any]]) -> list[Classifier]:
    """Return the nets of the last round; none where they were not kept, or cannot be read."""
    from fedkd_flwr.models.serialize import loads

    found = [array.tobytes() for name, array in sorted(kept.items()) if name.startswith("kept.open-set.")]
    wide = widened(fresh) if found and all(found) else None
    try:
        return [] if wide is None else [loads(data, trust=True) for data in found]
    except ModelBytesError as error:
        logger.warning("the nets for density ratios start afresh: %s", error)
        return []
