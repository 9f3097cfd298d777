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

from fedkd_flwr.algorithms.density_vote import DENSITY_BITS, DENSITY_RATIO
from fedkd_flwr.clients.party import Answer, Instruction, Party
from fedkd_flwr.clients.pieces import dump
from fedkd_flwr.errors import ModelBytesError, RefusalError, explain
from fedkd_flwr.labels.density import density_ratios, ratio_codes
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.open_set import open_set, widened

__all__ = ["check_wants", "with_ratios"]

logger = logging.getLogger("flwr.party")


def check_wants(party: Party, instruction: Instruction) -> None:
    """Refuse a reply of ratios alone where the party's owner does not let them out; called before rows are read."""
    if "labels" not in instruction.wants and DENSITY_RATIO not in party.allow:
        way_out = f'Add "{DENSITY_RATIO}" to this node\'s allow if class counts and ratios may leave.'
        raise RefusalError(explain("consensus", "be one that this node allows", DENSITY_RATIO, way_out))


def with_ratios(answer: Answer, party: Party, instruction: Instruction, *, steps: int | None = None) -> Answer:
    """Return an answer with this party's ratios, where they are wanted and allowed, and without labels nobody wants.

    Parameters
    ----------
    answer : Answer
        Holds labels.
    party : Party
    instruction : Instruction
    steps : int, optional
        Minibatch steps of nets, as in `fedkd_flwr.models.open_set.open_set`.
    """
    if "ratios" not in instruction.wants:
        return answer
    if DENSITY_RATIO not in party.allow:
        logger.warning(
            "%s: the run asks for density ratios too, and this node's allow does not name %s: labels alone leave. "
            "Class counts and ratios tell more than labels; docs/deploy.md says what.",
            party.name,
            DENSITY_RATIO,
        )
        return answer
    codes, kept = _codes(party, instruction, steps)
    values = {name: array for name, array in answer.values.items() if name in instruction.wants}
    values["ratios"] = codes
    if not instruction.last_round:  # the server has them from the first valid answer on
        values["class-counts"] = _class_counts(party)
    return replace(answer, values=values, kept={**answer.kept, **kept})


def _codes(
    party: Party, instruction: Instruction, steps: int | None
) -> tuple[NDArray[np.uint8], dict[str, NDArray[Any]]]:
    """Return this round's codes, and what is kept for the next: the codes of models that would be fitted alike."""
    fresh = party.model(seed=instruction.seed("open-set"))
    kept = instruction.saved.arrays if instruction.saved is not None else {}
    if not fresh.takes_steps and "kept.ratios" in kept:
        codes: NDArray[np.uint8] = kept["kept.ratios"]
        return codes, {"ratios": codes}
    found = open_set(
        fresh,
        party.X,
        party.y,
        party.public.X,
        rng=instruction.rng("open-set"),
        steps=steps,
        models=_nets(fresh, kept),
    )
    ratios = density_ratios(found.probs, _class_counts(party))
    codes = ratio_codes(ratios, num_classes=party.public.num_classes, bits=DENSITY_BITS)
    nets = {f"open-set.{i}": np.frombuffer(dump(net), dtype=np.uint8) for i, net in enumerate(found.models)}
    return codes, nets or {"ratios": codes}


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
