"""A party's side of every exchange: what it holds, what it lets out, and how one visit goes.

    check the instruction, this party's own rules and the public set -> learn and label -> keep state -> reply

Everything that goes wrong is caught here: the full text goes to the party's own log, the reply carries a code
from a fixed list and no text.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import Code, DataError, FedkdError, ModelBytesError, PayloadError, RefusalError, explain
from fedkd_flwr.labels import (
    Labels,
    PublicSpec,
    check_labels,
    decode_labels,
    digest,
    encode_labels,
)
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.payloads import WIRE_VERSION, Scalar, named_arrays
from fedkd_flwr.seeds import derive_rng, derive_seed
from fedkd_flwr.stores import PartyState, Saved

__all__ = ["Answer", "Finished", "Instruction", "LabelClient", "ModelFactory", "Party", "RefusingClient"]

logger = logging.getLogger("flwr.party")

Rows = tuple[NDArray[np.floating[Any]], NDArray[np.integer[Any]]]
"""Features (n, d) and class labels (n,)."""


class ModelFactory(Protocol):
    """Makes a fresh, unfitted model; the same seed makes the same model."""

    def __call__(self, *, seed: int) -> Classifier:
        """Return a fresh model."""
        ...


@dataclass(frozen=True, kw_only=True)
class Party:
    """What one party holds and what it allows. The server can change none of it.

    Parameters
    ----------
    name : str
        Unique in the federation.
    X, y : ndarray of shape (num_rows, num_features) and (num_rows,)
        Its private rows, encoded by the public schema.
    public : PublicSet
        The unlabelled rows everybody holds.
    model : callable
        ``model(seed=...)`` returns a fresh `Classifier`.
    model_name : str
        What the report calls that model.
    tests : mapping of str to (X, y)
        Rows to measure on: ``common`` (simulation) and ``own``.
    state : PartyState, optional
        Where it keeps its memory between rounds; without it nothing is kept.
    allow : frozenset of str
        Algorithms it takes part in.
    require_privacy : bool
        Refuse to send labels without a privacy mechanism.
    epsilon_budget : float
        A finite budget refuses labels without a privacy mechanism too: they would cost infinite epsilon.
    share_metrics : bool
        Whether its accuracies may leave.
    weigh_model : bool
        Report how many bytes an upload of the final model would take; serialising takes a moment.
    keep_model : bool
        Store the final model in the state directory; else the run leaves nothing there.
    """

    name: str
    X: NDArray[np.floating[Any]]
    y: NDArray[np.integer[Any]]
    public: PublicSet
    model: ModelFactory
    model_name: str = ""
    tests: Mapping[str, Rows] = field(default_factory=dict)
    state: PartyState | None = None
    allow: frozenset[str] = frozenset({"fedkt", "fedct"})
    require_privacy: bool = False
    epsilon_budget: float = float("inf")
    share_metrics: bool = False
    weigh_model: bool = True
    keep_model: bool = False

    def __post_init__(self) -> None:
        if not (self.X.ndim == 2 and len(self.X) == len(self.y) and len(self.y) >= 1):
            seen = f"X {self.X.shape}, y {self.y.shape}"
            way_out = "Give this party at least one labelled row."
            raise DataError(
                explain(f"rows of {self.name}", "be (n, d) and (n,) with n >= 1", seen, way_out),
                code=Code.NO_ROWS,
            )
        if self.X.shape[1] != self.public.num_features:
            seen, way_out = self.X.shape[1], "Encode private rows by the public schema's preprocessing."
            raise DataError(explain(f"rows of {self.name}", f"have {self.public.num_features} features", seen, way_out))
        check_labels(self.y, num_public=len(self.y), num_classes=self.public.num_classes, name=f"y of {self.name}")
        if not self.epsilon_budget >= 0.0:
            raise DataError(explain("epsilon-budget", "be >= 0", self.epsilon_budget), code=Code.WRONG_CONFIG)

    @property
    def spec(self) -> PublicSpec:
        """What label payloads are checked against."""
        public = self.public
        return PublicSpec(num_public=public.num_rows, num_classes=public.num_classes, fingerprint=public.fingerprint)

    def accuracies(self, model: Classifier) -> dict[str, float]:
        """Return the model's accuracy on each set of test rows."""
        return {name: float((model.predict(X) == y).mean()) for name, (X, y) in self.tests.items() if len(y)}


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One opened instruction.

    Parameters
    ----------
    server_round : int
        The round, from 1.
    labels : ndarray of shape (num_public,), optional
        The consensus it brings.
    arrays : mapping of str to ndarray
        Whatever else it brings, by name.
    config : mapping
        The algorithm's settings.
    saved : Saved, optional
        What this party kept in earlier rounds.
    party_seed : int
        Where this party's random streams in this run start.
    """

    server_round: int
    labels: Labels | None
    arrays: Mapping[str, NDArray[Any]]
    config: Mapping[str, Scalar]
    saved: Saved | None
    party_seed: int

    def seed(self, *names: str | int) -> int:
        """Return the seed of this party's stream called ``names``."""
        return derive_seed(self.party_seed, *names)

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return a generator for this party's stream called ``names``."""
        return derive_rng(self.party_seed, *names)

    def integer(self, key: str, *, minimum: int) -> int:
        """Return a whole-number setting, checked."""
        value = self.config.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not value >= minimum:
            raise PayloadError(explain(key, f"be a whole number >= {minimum}", value))
        return value


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a party learnt in one visit.

    Parameters
    ----------
    labels : ndarray of shape (num_public,) or (num_arrays, num_public), int16
        Its labels on the public rows.
    metrics : mapping of str to float
        Leaves only if the party shares metrics.
    notes : sequence of str
        Codes of what the server should know (``fewer-subsets``, ``state-lost``).
    model : Classifier, optional
        Kept for the next round.
    meta : mapping
        Kept for the next round.
    """

    labels: Labels
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    model: Classifier | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a party is left with at the end.

    Parameters
    ----------
    model : Classifier
        Its model.
    solo : mapping of str to float
        Accuracies of a model of the same kind trained on its own rows alone (SOLO).
    learnt : bool
        Whether ``model`` learnt from the final labels; else it is the one trained alone.
    """

    model: Classifier
    solo: Mapping[str, float]
    learnt: bool = True


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
