"""Federated averaging of a linear model: what is sent are its weights."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from task import UNLABELLED, model


def initial_arrays() -> ArrayRecord:
    """Return the weights of a model that knows nothing."""
    return ArrayRecord({"coef": Array(np.zeros((3, 13))), "intercept": Array(np.zeros(3))})


class LinearClient:
    """A cellar that trains from the weights that the server sends."""

    def __init__(self, rows, y) -> None:
        self.X, self.y = model(1)[0].fit(UNLABELLED).transform(rows), y.to_numpy()

    def fit(self, coef, intercept):
        """Return the weights after one pass over this cellar's wines."""
        fitted = model(1)[1].fit(self.X, self.y, coef_init=coef, intercept_init=intercept)
        return fitted.coef_, fitted.intercept_

    def accuracy(self, coef, intercept) -> float:
        """Return the share of this cellar's wines that the weights tell right."""
        return float(((self.X @ coef.T + intercept).argmax(axis=1) == self.y).mean())


def _sent(message: Message):
    return (message.content["arrays"][name].numpy() for name in ("coef", "intercept"))


def answer(client: LinearClient, message: Message) -> Message:
    """Return a reply to one round."""
    arrays = dict(zip(("coef", "intercept"), map(Array, client.fit(*_sent(message))), strict=True))
    metrics = MetricRecord({"num-examples": len(client.y)})
    return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=message)


def finish(client: LinearClient, message: Message) -> Message:
    """Return how good the weights are."""
    metrics = MetricRecord({"accuracy": client.accuracy(*_sent(message)), "num-examples": len(client.y)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
