"""What a party says where probabilities are sent: how likely its model finds each class in each public row.

That tells more than a label: how many rows of each class the party holds, and how sure its model is of each public row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.clients import density
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.labels.density_ratio import DensityRatio
from fedkd_flwr.labels.probabilities import home_labels, likelihood_steps
from fedkd_flwr.models.populations import learnt_shares

__all__ = ["say"]

Arrays = dict[str, NDArray[Any]]


def say(
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
    # what its owner lets out in a run on labels too; drawn rows are too unlike private ones
    if DensityRatio.name in party.allow and not party.public.schema.class_shares:
        more, more_kept = density.say(party, instruction, make=make, steps=steps, own_probs=own_probs)
        found, keeps = {**found, "ratios": more["ratios"]}, {**more_kept, **keeps}
    return found, keeps
