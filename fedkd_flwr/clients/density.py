"""What a party says for density-ratio votes: how much each public row looks like its rows of each class.

That tells more than a label: how many rows of each class the party holds, and how typical each public row is of it.
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
from fedkd_flwr.labels.ratios import density_ratios, ratio_codes, steady_codes, with_classes_of
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.open_set import open_set, widened

__all__ = ["say"]

logger = logging.getLogger("flwr.party")

Arrays = dict[str, NDArray[Any]]


def say(
    party: Party,
    instruction: Instruction,
    *,
    make: ModelFactory,
    steps: int | None,
    own_probs: NDArray[np.float64] | None,
) -> tuple[Arrays, Arrays]:
    """Return this party's codes and class counts, and what is kept for the next round.

    Codes of models that would be fitted alike are kept themselves; of nets, which go on, the nets.
    """
    counts = np.bincount(party.y, minlength=party.public.num_classes).astype(np.int64)
    fresh = make(seed=instruction.seed("open-set"))
    kept = instruction.saved.arrays if instruction.saved is not None else {}
    last: NDArray[np.uint8] | None = kept.get("kept.ratios")
    if last is not None and not fresh.takes_steps:
        return {"ratios": last, "class-counts": counts}, {"ratios": last}
    found = open_set(
        fresh,
        party.X,
        party.y,
        party.public.X,
        rng=instruction.rng("open-set"),
        steps=steps,
        models=_nets(fresh, kept),
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
