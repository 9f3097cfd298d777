"""A cellar's side, in Flower's older API: a NumPyClient behind a client_fn."""

import task
from flwr.app import Context
from flwr.client import Client
from flwr.clientapp import ClientApp

from fedkd_flwr.clients import FedCTClient, Party
from fedkd_flwr.wire.records import numpy_client_mod


def client_fn(context: Context) -> Client:
    """Return this cellar's client."""
    name, rows, y = task.load(context)
    party = Party(name=name, X=task.PUBLIC.features(rows), y=y, public=task.PUBLIC, model=task.model)
    return FedCTClient(party).to_client()


app = ClientApp(client_fn=client_fn, mods=[numpy_client_mod])
