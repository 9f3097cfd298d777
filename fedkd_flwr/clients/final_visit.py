"""The final visit at a party: what it is left with, where that is kept, and what the server may hear of it.

    learn from what comes back, measure -> keep the models -> show them to the owner -> the figures that may leave

`fedkd_flwr.clients.base` decides whether any figure may leave, and gives the server one answer whatever fails here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from fedkd_flwr.clients.party import Finished, Instruction, Party
from fedkd_flwr.clients.pieces import dump, pack_finished, unpack_finished, weight
from fedkd_flwr.data.encoder import Encoder
from fedkd_flwr.files import write_atomic
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.stores.saved_model import pack
from fedkd_flwr.wire.records import Scalar

__all__ = ["keep_models", "learnt_at_the_end", "show", "told_at_the_end"]

logger = logging.getLogger("flwr.party")


def learnt_at_the_end(party: Party, finish: Callable[[Instruction], Finished], instruction: Instruction) -> Finished:
    """Learn from what comes back at the end and measure what the party is left with.

    Where the node has limits, this is done in a process that can be ended.

    Parameters
    ----------
    finish : callable
        The algorithm's `PartyClient.finish`.
    """

    def measured() -> Finished:
        finished = finish(instruction)
        return replace(finished, federated=_metrics(party, finished))

    if party.apart is None:
        return measured()
    weighed = "model" in party.share_metrics and party.weigh_model
    return unpack_finished(party.apart(lambda: pack_finished(measured(), weighed=weighed)))


def keep_models(party: Party, finished: Finished) -> dict[str, Path]:
    """Store the final models and return their files by kind, or forget the run where nothing is to be kept.

    The model trained alone is kept beside that of the federation, which may be worse at home.
    """
    state, kept = party.state, {}
    if state is not None and party.forgets:
        state.remove()
    if state is not None and party.keep_model:
        kinds = {"federated" if finished.learnt else "alone": finished.model}
        if finished.alone is not None:
            kinds["alone"] = finished.alone
        encoder = Encoder.of(party.public)
        for kind, model in kinds.items():
            path = state.path.with_suffix(".model" if kind == "federated" else f".{kind}.model")
            if data := dump(model):  # the party has learnt all the same
                write_atomic(path, pack(data, encoder))
                kept[kind] = path
                logger.info("%s: model (%s) kept at %s", party.name, kind, path)
    return kept


def show(party: Party, finished: Finished, models: Mapping[str, Path]) -> None:
    """Show the owner what this party is left with; a page that cannot be made changes nothing that leaves."""
    if party.show is not None:
        try:
            party.show(finished, models)
        except Exception:
            logger.exception("%s: its own page could not be made", party.name)
    for rows, found in {} if party.simulated else (finished.federated or {}).items():
        for kind, one in (("with the federation", found), ("alone", finished.solo[rows])):
            words = "%s: %s, on %d %s test rows: accuracy %.4f, balanced accuracy %.4f"
            logger.info(words, party.name, kind, one.n, rows, one.accuracy, one.balanced_accuracy)


def told_at_the_end(
    party: Party, finished: Finished, kept: Mapping[str, Path], leaving: Collection[str]
) -> tuple[float, dict[str, Scalar]]:
    """Return the zero-one loss, NaN where accuracies stay here, and the metrics whose names are in ``leaving``."""
    federated = finished.federated or {}
    metrics: dict[str, Scalar] = {}
    for kind, measured in (("solo", finished.solo), ("federated", federated)):
        for rows, found in measured.items():
            shared = found.shared(leaving, min_support=0 if party.simulated else party.min_support)
            if shared is not None:
                metrics[f"{kind}-{rows}"] = shared.to_bytes()
    if "model" in leaving:
        metrics["model"] = party.model_name
        if party.weigh_model and (size := weight(finished.model)):
            metrics["model-bytes"] = size
    if party.simulated and party.keep_model and (lost := _lost(finished, kept)):
        why = "no format that runs no code when it is read holds it"
        metrics["failure"] = f"save-party-models could not save {party.model_name} ({lost}): {why}"
    right = next(iter(federated.values())).accuracy if federated and "accuracy" in leaving else None
    return float("nan") if right is None else 1.0 - right, metrics


def _metrics(party: Party, finished: Finished) -> dict[str, Metrics]:
    model = finished.model
    return party.metrics(model) if finished.learnt and isinstance(model, Classifier) else {}


def _lost(finished: Finished, kept: Mapping[str, Path]) -> str:
    """Return which of the final models could not be stored."""
    kinds = ["federated" if finished.learnt else "alone", *(["alone"] if finished.alone is not None else [])]
    return ", ".join(kind for kind in kinds if kind not in kept)
