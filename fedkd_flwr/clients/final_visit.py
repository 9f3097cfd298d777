"""The final visit at a party: what it is left with, where that is kept, and what the server may hear of it.

    open -> permit -> learn from what comes back, measure -> keep the models, show them to the owner -> let out figures

Beside a claim the server gets one answer whatever fails here.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.clients.answer import Finished, dump, pack_finished, unpack_finished, weight
from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.clients.refusals import rows_enough, signed, told_cause
from fedkd_flwr.clients.visit import Visit, claimed, refused
from fedkd_flwr.data.public import Encoder
from fedkd_flwr.files import write_atomic
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.stores.party_state import PartyState, StoredReply
from fedkd_flwr.stores.saved_model import pack
from fedkd_flwr.wire.records import Scalar

__all__ = ["keep_models", "take_in"]

logger = logging.getLogger("flwr.party")


def take_in(
    exchange: PartyExchange, parameters: list[NDArray[Any]], config: dict[str, Scalar]
) -> tuple[float, int, dict[str, Scalar]]:
    """Take the final labels in; return the zero-one loss, the number of rows, and metrics if they may leave."""
    visit = Visit(exchange)
    try:
        visit.open(parameters, config)
        visit.permit(final=True)
        party = visit.party
        # a server that asks for metrics as if nothing had been claimed does not get them
        private = visit.charge is not None or claimed(party, visit.instruction.saved)
        party.ledger.end_plan(party.run_id)
        visit.before_rows(private, final=True)
        rows, loss, metrics = exchange.num_rows(visit.instruction), float("nan"), signed(party.name)
        try:
            found = _finished(visit, private)
        except Exception as error:
            if not private:
                raise
            logger.exception("%s: the final visit failed here; the server gets its usual answer", party.name)
            metrics |= told_cause(error, party.simulated)
            if party.forgets:
                party.state.remove()  # as where it went well: what is kept decides the size of later replies
        else:
            if found is not None:
                loss, metrics = found[0], metrics | found[1]
        told = metrics if math.isnan(loss) else metrics | {"loss": loss}
        shown = visit.let_out(StoredReply(metrics=told))
        return loss, rows, {**metrics, **shown}
    except Exception as error:
        return float("nan"), 0, refused(exchange, error, config)


def _finished(visit: Visit, private: bool) -> tuple[float, dict[str, Scalar]] | None:
    """Learn from the final labels; return the zero-one loss and metrics, None where they stay here."""
    party = visit.party
    finished = _learnt(party, visit.exchange.finish, visit.instruction)
    kept = keep_models(party, finished)
    _show(party, finished, kept)
    leaving = visit.leaving(private)
    return _told(party, finished, kept, leaving) if leaving and rows_enough(visit.party) else None


def _learnt(party: Party, finish: Callable[[Instruction], Finished], instruction: Instruction) -> Finished:
    """Learn from what comes back at the end and measure what the party is left with.

    Where the node has limits, this is done in a process that can be ended.
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
    if party.forgets:
        state.remove()
    if party.keep_model and isinstance(state, PartyState):
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


def _show(party: Party, finished: Finished, models: Mapping[str, Path]) -> None:
    """Show the owner what this party is left with; what cannot be shown changes nothing that leaves."""
    if party.show is not None:
        try:
            party.show(finished, models)
        except Exception:
            logger.exception("%s: its owner could not be told", party.name)
    for rows, found in {} if party.simulated else (finished.federated or {}).items():
        for kind, one in (("with the federation", found), ("alone", finished.solo[rows])):
            words = "%s: %s, on %d %s test rows: accuracy %.4f, balanced accuracy %.4f"
            logger.info(words, party.name, kind, one.n, rows, one.accuracy, one.balanced_accuracy)


def _told(
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
