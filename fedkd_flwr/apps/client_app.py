"""The ClientApp: mounts the run's NumPyClient for this node, in simulation and at a silo alike."""

from __future__ import annotations

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from fedkd_flwr.clients.base import RefusingClient
from fedkd_flwr.payloads import open_instruction, reply_record

__all__ = ["app", "client_of"]

app = ClientApp()


def client_of(context: Context) -> NumPyClient:
    """Return this node's client; one that answers with a code where the node cannot be set up."""
    from fedkd_flwr.apps.assembly import make_client, party_name
    from fedkd_flwr.apps.config import parse_node_config, parse_run_config

    given = context.node_config
    name = str(given.get("party", ""))
    try:
        name = name or party_name(int(given.get("partition-id", 0)))
        node = parse_node_config(given)
        return make_client(parse_run_config(context.run_config), node, str(context.run_id))
    except Exception as error:
        withheld = given.get("require-privacy") is True or "epsilon-budget" in given
        return RefusingClient(name, error, withheld=withheld)


@app.query()
def ready(message: Message, context: Context) -> Message:
    """Load what this party needs, so that a simulation's first round measures rounds and not start-up.

    In simulation a process plays many parties and starts with its first message; a silo is never asked this. The reply
    names the party, so that parties can be sampled from the first round on.
    """
    name = _name(client_of(context))
    return Message(RecordDict({"ready": ConfigRecord({"party": name})}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one round."""
    client = client_of(context)
    try:
        arrays, config = open_instruction(message.content, "fit")
        record = reply_record("fit", *client.fit(arrays, config))
    except Exception as error:  # Flower would forward its text: refuse with a code instead
        refusing = RefusingClient(_name(client), error, withheld=True)
        record = reply_record("fit", *refusing.fit(None, None))
    return Message(record, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Take the final labels in."""
    client = client_of(context)
    try:
        arrays, config = open_instruction(message.content, "evaluate")
        loss, num_examples, metrics = client.evaluate(arrays, config)
        record = reply_record("evaluate", [], num_examples, metrics, loss=loss)
    except Exception as error:  # as above
        loss, num_examples, metrics = RefusingClient(_name(client), error, withheld=True).evaluate(None, None)
        record = reply_record("evaluate", [], num_examples, metrics, loss=loss)
    return Message(record, reply_to=message)


def _name(client: NumPyClient) -> str:
    return str(getattr(getattr(client, "party", None), "name", getattr(client, "party", "")))
