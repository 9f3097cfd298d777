"""The NumPyClient that a party is to Flower: it hands a round to a visit, and the final visit is here."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedkd_flwr.clients.answer import Finished, dump, pack_finished, unpack_finished, weight
from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.clients.refusals import obey, require_claim, signed, told_cause
from fedkd_flwr.clients.visit import Visit, claimed, refused
from fedkd_flwr.data.public import Encoder
from fedkd_flwr.errors import Code
from fedkd_flwr.files import write_atomic
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.stores.party_state import PartyState, StoredReply
from fedkd_flwr.stores.saved_model import pack
from fedkd_flwr.wire.records import Scalar

__all__ = ["PartyClient", "judge", "keep_models", "try_model"]

_LEAST_LEFT = 1e-3  # of a budget: where not even this is left, it is spent
_TRIED = 64  # public rows that a check tries a model on


class PartyClient(PartyExchange, NumPyClient):
    """A party in an exchange. Subclasses say what it learns, `learn` and `finish`, and what its replies cost, `charge`.

    Parameters
    ----------
    party : Party
        What it holds and allows.
    noise_rng : Generator, optional
        For tests: seeded noise, and a seeded subset, protect nothing.
    """

    def fit(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Answer one round: labels, the number of public rows labelled, and metrics if they may leave."""
        return Visit(self).answer(parameters, config)

    def evaluate(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[float, int, dict[str, Scalar]]:
        """Take the final labels in; return the zero-one loss, the number of rows, and metrics if they may leave.

        open -> permit -> learn from what comes back, measure -> keep the models, show them to the owner -> let out
        figures. Beside a claim the server gets one answer whatever fails here.
        """
        visit = Visit(self)
        try:
            visit.open(parameters, config)
            visit.permit(final=True)
            party = visit.party
            # a server that asks for metrics as if nothing had been claimed does not get them
            private = visit.charge is not None or claimed(party, visit.instruction.saved)
            visit.before_rows(private, final=True)
            rows, loss, metrics = self.num_rows(visit.instruction), float("nan"), signed(party.name)
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
            return float("nan"), 0, refused(self, error, config)

    def ready(self, config: dict[str, Scalar]) -> dict[str, Scalar]:
        """Say before the first round whether this party would refuse it, by what no private row decides beside a claim.

        ``config``: the settings of the first round, without its arrays.
        """
        error, name = judge(self, config), self.party.name
        said = signed(name) if error is None else refused(self, error, config)
        return said if said.get("code") != Code.WITHHELD else signed(name)


def judge(exchange: PartyExchange, config: dict[str, Scalar]) -> Exception | None:
    """Return why this party would refuse a run's first round, or None; nothing is learnt, charged, kept or noted."""
    try:
        visit = Visit(exchange)
        visit.open([], config, answered=False)
        party, instruction = visit.party, visit.instruction
        private = instruction.config.privacy == "party"
        require_claim(party, private)
        if party.fault is not None and not private:
            raise party.fault
        # unknown where an array names the rows to ask, which is not here: then only a spent budget is seen
        known = (
            type(exchange).asked_rows is PartyExchange.asked_rows or getattr(instruction.config, "subset_rows", 0) > 0
        )
        exact = exchange.charge(instruction) if private and known else None
        if exact is not None or not private:
            obey(exchange, instruction, exact, final=False)
        if private and party.budget.epsilon < math.inf:
            least = [(PureEvent(party.budget.epsilon * _LEAST_LEFT), 1)]
            party.ledger.ask(exact.events if exact is not None else least, party.budget)
    except Exception as error:
        return error
    return None


def try_model(party: Party) -> None:
    """Fit a party's model to a few public rows with made-up labels of all classes, and let it answer."""
    X, num_classes = party.public.X[:_TRIED], party.public.num_classes

    def work() -> bytes:
        party.model(seed=0).fit(X, np.arange(len(X)) % num_classes).predict(X)
        return b""

    work() if party.apart is None else party.apart(work)


logger = logging.getLogger("flwr.party")


def _finished(visit: Visit, private: bool) -> tuple[float, dict[str, Scalar]] | None:
    """Learn from the final labels; return the zero-one loss and metrics, None where they stay here."""
    party = visit.party
    finished = _learnt(party, visit.exchange.finish, visit.instruction)
    kept = keep_models(party, finished)
    _show(party, finished, kept)
    leaving = visit.leaving(private)
    return _told(party, finished, kept, leaving) if leaving else None


def _learnt(party: Party, finish: Callable[[Instruction], Finished], instruction: Instruction) -> Finished:
    """Learn from what comes back at the end, and measure: in a process that can be ended, where there are limits."""

    def measured() -> Finished:
        finished = finish(instruction)
        model = finished.model
        told = party.metrics(model) if finished.learnt and isinstance(model, Classifier) else {}
        return replace(finished, federated=told)

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


def _lost(finished: Finished, kept: Mapping[str, Path]) -> str:
    """Return which of the final models could not be stored."""
    kinds = ["federated" if finished.learnt else "alone", *(["alone"] if finished.alone is not None else [])]
    return ", ".join(kind for kind in kinds if kind not in kept)
