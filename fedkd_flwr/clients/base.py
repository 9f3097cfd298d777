"""A party's side of every exchange: what it holds, what it lets out, and how one visit goes.

    check the instruction, this party's own rules and the public set -> learn and label -> keep state -> reply

Everything that goes wrong is caught here: the full text goes to the party's own log, the reply carries a code
from a fixed list and no text.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedkd_flwr.clients.party import Answer, Finished, Instruction, Party
from fedkd_flwr.errors import Code, DataError, FedkdError, ModelBytesError, PayloadError, RefusalError, explain
from fedkd_flwr.labels import Labels, decode_labels, digest, encode_labels
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.payloads import WIRE_VERSION, Scalar, named_arrays
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.stores import Saved

__all__ = ["LabelClient", "RefusingClient"]

logger = logging.getLogger("flwr.party")


class LabelClient(NumPyClient, ABC):
    """A party in an exchange of labels. Subclasses say what it learns: `learn` and `finish`.

    Parameters
    ----------
    party : Party
        What it holds and allows.
    """

    algorithm: ClassVar[str]

    def __init__(self, party: Party) -> None:
        self.party = party

    @abstractmethod
    def learn(self, instruction: Instruction) -> Answer:
        """Learn, and label the public rows."""

    @abstractmethod
    def finish(self, instruction: Instruction) -> Finished:
        """Learn from the final labels; return the party's model and its accuracies alone."""

    def fit(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Answer one round: labels, the number of public rows labelled, and metrics if they may leave."""
        try:
            instruction = self._open(parameters, config)
            saved = instruction.saved
            if saved is not None and saved.server_round == instruction.server_round:
                return [saved.arrays["payload"]], self.party.public.num_rows, dict(saved.meta["reply"])
            answer = self.learn(instruction)
            labels = np.atleast_2d(answer.labels)
            base = None
            if saved is not None and digest(saved.arrays["labels"]).hex() == config.get("base"):
                base = saved.arrays["labels"]
            payload, count, reply = self._reply(labels, instruction, base, answer.metrics, answer.notes)
            if self.party.state is not None:
                # the exact reply is durable before it leaves: a repeated request gets the same bytes
                self.party.state.save(
                    Saved(
                        server_round=instruction.server_round,
                        arrays={"labels": labels, "payload": payload[0]},
                        model=_dump(answer.model) if answer.model is not None else b"",
                        meta={**answer.meta, "reply": reply},
                    )
                )
            return payload, count, reply
        except Exception as error:
            return [], 0, _refusal(self.party.name, error)

    def evaluate(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[float, int, dict[str, Scalar]]:
        """Take the final labels in; return the zero-one loss and accuracies if they may leave."""
        try:
            instruction = self._open(parameters, config)
            finished = self.finish(instruction)
            model, solo = finished.model, finished.solo
            federated = self.party.accuracies(model) if finished.learnt else {}
            self._keep(model)
            metrics = _signed(self.party.name)
            if not self.party.share_metrics:
                for name, value in federated.items():
                    alone = solo.get(name, float("nan"))
                    logger.info("accuracy on %s test rows: %.4f with the federation, %.4f alone", name, value, alone)
                return float("nan"), self.party.public.num_rows, metrics
            metrics |= {f"solo-{name}": value for name, value in solo.items()}
            metrics |= {f"federated-{name}": value for name, value in federated.items()}
            metrics["model"] = self.party.model_name
            if self.party.weigh_model:
                metrics |= _weight(model)
            loss = 1.0 - next(iter(federated.values()), float("nan"))
            return loss, self.party.public.num_rows, metrics
        except Exception as error:
            return float("nan"), 0, _refusal(self.party.name, error)

    def _keep(self, model: Classifier) -> None:
        """Store the final model, or forget the run where nothing is to be kept."""
        state = self.party.state
        if state is not None and not self.party.keep_model:
            state.remove()
        elif state is not None:
            from fedkd_flwr.models.serialize import save

            path = state.path.with_suffix(".model")
            try:
                save(model, path)
                logger.info("%s: model kept at %s", self.party.name, path)
            except ModelBytesError as error:  # the party has learnt all the same
                logger.error("%s: its model is not kept: %s", self.party.name, error)

    def _open(self, parameters: list[NDArray[Any]], config: dict[str, Scalar]) -> Instruction:
        party = self.party
        arrays = named_arrays(parameters, config)
        asked = config.get("algorithm")
        if asked != self.algorithm:
            raise PayloadError(explain("algorithm", f"be {self.algorithm} at this client", asked))
        if self.algorithm not in party.allow:
            way_out = f'Add "{self.algorithm}" to this node\'s allow to take part.'
            raise RefusalError(explain("algorithm", f"be one of {sorted(party.allow)}", asked, way_out))
        if party.require_privacy or party.epsilon_budget < float("inf"):
            way_out = "This run shares labels without noise: drop require-privacy and epsilon-budget, or stay out."
            message = explain("privacy", f"be claimed for {party.name}", "none", way_out)
            raise RefusalError(message, code=Code.PRIVACY_REQUIRED)
        if config.get("fingerprint") != party.public.fingerprint:
            way_out = "Give this node the same public file and schema as the server."
            message = explain(
                "public set",
                f"have fingerprint {party.public.fingerprint}",
                config.get("fingerprint"),
                way_out,
            )
            raise DataError(message, code=Code.PUBLIC_SET_MISMATCH)
        partial = Instruction(server_round=0, labels=None, arrays=arrays, config=config, saved=None, party_seed=0)
        server_round = partial.integer("server-round", minimum=1)
        seed = partial.integer("seed", minimum=0)
        labels = None
        if "labels" in arrays:
            labels = decode_labels(arrays["labels"], public=party.spec, server_round=server_round, num_arrays=1)[0]
        return Instruction(
            server_round=server_round,
            labels=labels,
            arrays=arrays,
            config=config,
            saved=party.state.load() if party.state is not None else None,
            party_seed=derive_seed(seed, party.name),
        )

    def _reply(
        self,
        labels: Labels,
        instruction: Instruction,
        base: Labels | None,
        metrics: Mapping[str, float],
        notes: Sequence[str],
    ) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        payload = encode_labels(labels, public=self.party.spec, server_round=instruction.server_round, base=base)
        reply = _signed(self.party.name, payload="labels")
        if notes:
            reply["notes"] = ",".join(notes)
        if self.party.share_metrics:
            reply |= metrics
        return [payload], self.party.public.num_rows, reply


class RefusingClient(NumPyClient):
    """Stands in for a party that could not even be set up: answers each instruction with a code.

    Parameters
    ----------
    party : str
        The party's name.
    error : Exception
        Why; its text goes to the party's log only.
    """

    def __init__(self, party: str, error: Exception) -> None:
        self.party = party
        self.metrics = _refusal(party, error)

    def fit(self, parameters: Any, config: Any) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Refuse."""
        return [], 0, self.metrics

    def evaluate(self, parameters: Any, config: Any) -> tuple[float, int, dict[str, Scalar]]:
        """Refuse."""
        return float("nan"), 0, self.metrics


def _signed(party: str, **values: Scalar) -> dict[str, Scalar]:
    return {"party": party, "wire-version": WIRE_VERSION, **values}


def _dump(model: Classifier) -> bytes:
    """Return the model as bytes; none for one that no safe format holds, which then starts afresh each round."""
    from fedkd_flwr.models.serialize import dumps

    try:
        return dumps(model)
    except ModelBytesError as error:
        logger.warning("the model is not kept between rounds: %s", error)
        return b""


def _weight(model: Classifier) -> dict[str, Scalar]:
    """Return what an upload of the model would weigh; nothing for a user's own that no safe format can hold."""
    try:
        return {"model-bytes": model.num_bytes()}
    except ModelBytesError as error:
        logger.warning("the model is not weighed: %s", error)
        return {}


def _refusal(party: str, error: Exception) -> dict[str, Scalar]:
    code = error.code if isinstance(error, FedkdError) else Code.INTERNAL
    if isinstance(error, FedkdError):
        logger.error("%s leaves this round out: %s: %s", party, code, error)
    else:
        logger.error("%s leaves this round out: %s", party, code, exc_info=error)
    return _signed(party, code=str(code))
