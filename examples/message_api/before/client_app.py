"""A cellar's side."""

import task
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from weights import LinearClient, answer, finish

app = ClientApp()


def client(context: Context):
    """Return this cellar's client."""
    name, rows, y = task.load(context)
    return LinearClient(rows, y)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one round."""
    return answer(client(context), message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Answer an evaluation."""
    return finish(client(context), message)
