"""A cellar's side."""

import task
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkd_flwr.app.client_app import answer, finish
from fedkd_flwr.clients import FedCTClient, Party

app = ClientApp()


def client(context: Context):
    """Return this cellar's client."""
    name, rows, y = task.load(context)
    return FedCTClient(Party(name=name, X=task.PUBLIC.features(rows), y=y, public=task.PUBLIC, model=task.model))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one round."""
    return answer(client(context), message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Answer an evaluation."""
    return finish(client(context), message)
