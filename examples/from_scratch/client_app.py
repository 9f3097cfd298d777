from functools import partial
from pathlib import Path

from common import cultivar, public_set, rows
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedkd_flwr.app.client_app import answer, finish
from fedkd_flwr.clients import FedCTClient, Party
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.stores.party_state import PartyState

app = ClientApp()


def client(context: Context) -> FedCTClient:
    number, parties = context.node_config["partition-id"], context.node_config["num-partitions"]
    public = public_set()
    mine = [i for i in range(len(rows)) if i % 3][number::parties]  # every third row is public
    train, test = mine[::2], mine[1::2]
    X, y = public.features(rows), cultivar.to_numpy()
    name = f"clinic-{number}"
    party = Party(
        name=name,
        X=X[train],
        y=y[train],
        public=public,
        model=partial(make_model, "random-forest", num_classes=3, num_features=public.num_features),
        model_name="random-forest",
        tests={"own": (X[test], y[test])},
        state=PartyState(Path.home() / ".clinics", run_id=str(context.run_id), party=name),
        share_metrics=["accuracy", "macro-f1"],
    )
    return FedCTClient(party)


@app.train()
def train(message: Message, context: Context) -> Message:
    return answer(client(context), message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    return finish(client(context), message)
