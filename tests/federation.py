"""A small federation in one process: three classes in the plane, fast models, the real door and the real clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from grid import InProcessGrid
from schemas import column
from sklearn.base import BaseEstimator

from fedkd_flwr.clients import FedCTClient, Party
from fedkd_flwr.clients.visit import Visit
from fedkd_flwr.data.public import Preprocessor, PublicSet
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.metrics import NAMES
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.wire.records import open_instruction, reply_record

CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
SCHEMA = Schema(columns=(column("a"), column("b")), classes=("red", "green", "blue"))


def rows(count: int, seed: int, classes: tuple[int, ...] = (0, 1, 2)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, count).astype(np.int16)
    return (CENTRES[y] + rng.normal(size=(count, 2))).astype(np.float32), y


def as_they_are(schema: Schema) -> Preprocessor:
    """Return a preprocessor that leaves numbers as they are."""
    return Preprocessor.restored(schema, {"numeric": {c.name: (0.0, 0.0, 1.0) for c in schema.columns}, "terms": {}})


def public_set(count: int = 60, *, fingerprint: str = "ab" * 32, truth: bool = True) -> PublicSet:
    X, y = rows(count, seed=99)
    made = as_they_are(SCHEMA)
    return PublicSet(X=X, fingerprint=fingerprint, schema=SCHEMA, preprocessor=made, y=y if truth else None)


def model(*, seed: int, name: str = "decision-tree", **params: Any) -> Classifier:
    return make_model(name, num_classes=3, num_features=2, seed=seed, params=params)


def party(name: str, X: np.ndarray, y: np.ndarray, **changes: Any) -> Party:
    test = rows(50, seed=7)
    settings = {"public": public_set(), "model": model, "tests": {"common": test}, "share_metrics": NAMES, **changes}
    return Party(name=name, X=X, y=y, **settings)


def parties(count: int = 5, *, state: Path | None = None, **changes: Any) -> list[Party]:
    made = []
    for i in range(count):
        name = f"party-{i:03d}"
        kept = {"state": PartyState(state, run_id="1", party=name)} if state is not None else {}
        made.append(party(name, *rows(20, seed=i), **{**kept, **changes}))
    return made


def handler(clients: list[Any], first: int = 1000) -> Callable[[Message, Context], Message]:
    """Mount one NumPyClient per node, as the ClientApp does."""

    def handle(message: Message, context: Context) -> Message:
        stage = "fit" if message.metadata.message_type == "train" else "evaluate"
        arrays, config = open_instruction(message.content)
        client = clients[context.node_id - first]
        if stage == "fit":
            return Message(reply_record(*client.fit(arrays, config)), reply_to=message)
        loss, count, metrics = client.evaluate(arrays, config)
        return Message(reply_record([], count, metrics, loss=loss), reply_to=message)

    return handle


class Means(BaseEstimator):
    """A user's own learner that continues: nearest class mean, by running sums."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Means:
        self.sums_, self.counts_ = np.zeros((3, X.shape[1])), np.zeros(3)
        return self.partial_fit(X, y)

    def partial_fit(self, X: np.ndarray, y: np.ndarray, classes: Any = None) -> Means:
        if not hasattr(self, "sums_"):
            self.sums_, self.counts_ = np.zeros((3, X.shape[1])), np.zeros(3)
        np.add.at(self.sums_, y, X)
        np.add.at(self.counts_, y, 1)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        means = self.sums_ / np.maximum(self.counts_, 1)[:, None]
        return ((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)


def fedct_grid(members: list[Party], **keywords: Any) -> InProcessGrid:
    first = keywords.get("first_node_id", 1000)
    return InProcessGrid(handler([FedCTClient(p) for p in members], first), [{}] * len(members), **keywords)


def codes(record: RunRecord, server_round: int = 1) -> dict[str, str]:
    """Return why each party was left out of a round."""
    return {r.party: r.code for r in record.rounds[server_round - 1].rejected}


def held_by_server(client: Any, arrays: list[np.ndarray], config: dict[str, Any]) -> Any:
    """Return what the answer to an instruction may be told as changes to."""
    visit = Visit(client)
    visit.open(arrays, config)
    return visit._held


def accuracies(strategy: Any) -> list[Any]:
    """Return what the parties reported, without the weight of their models, which skops varies by a few bytes."""
    return [(p.name, p.solo, p.federated, p.notes) for p in strategy.record.parties]
