"""Parties of PrivateKT with small nets, and whole rounds among them."""

import dataclasses

from federation import handler, model, parties, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.clients import PrivateKTClient
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.strategies import PrivateKT, PrivateKTConfig

TEST = rows(100, seed=7)


CLEAR = 200.0  # an epsilon at which every label is kept


def net(*, seed, hidden=(8,), **params):
    return model(seed=seed, name="mlp", hidden=list(hidden), optimizer="sgd", lr=0.1, batch_size=8, **params)


def members(count=5, **changes):
    return parties(count, **{"allow": frozenset({"privatekt"}), "model": net, "simulated": True, **changes})


def names(count=5, first=1000):
    return {first + i: f"party-{i:03d}" for i in range(count)}


def make(*, clients=5, fraction=1.0, minimum=2, checkpoint=None, resume_from=None, known=True, run_id="1", **settings):
    settings = {"solo_epochs": 1, "local_epochs": 2, **settings}
    config = PrivateKTConfig(seed=settings.pop("seed", 1), nodes_stable_s=1e-6, node_deadline_s=0.5, **settings)
    return PrivateKT(
        fraction,
        min_train_nodes=minimum,
        config=config,
        public=public_set(),
        global_model=net,
        test=TEST,
        checkpoint=checkpoint,
        resume_from=resume_from,
        names=names(clients) if known else None,
        record=RunRecord(run_id=run_id, algorithm="privatekt"),
    )


def grid_of(held, **keywords):
    first = keywords.get("first_node_id", 1000)
    return InProcessGrid(handler([PrivateKTClient(p) for p in held], first), [{}] * len(held), **keywords)


def run(*, rounds=4, held=None, timeout=60.0, **settings):
    held = members() if held is None else held
    grid_settings = {k: settings.pop(k) for k in ("order", "tamper") if k in settings}
    strategy = make(clients=len(held), **settings)
    grid = grid_of(held, **grid_settings)
    strategy.start(grid, num_rounds=rounds, timeout=timeout)
    return strategy, grid


def spoilt(change):
    """Return a handler that changes what the first node is sent."""

    def handle_with(inner):
        def handle(message, context):
            if context.node_id == 1000 and message.metadata.message_type == "train":
                change(message.content)
            return inner(message, context)

        return handle

    return handle_with


def with_ledger(root, held, **changes):
    ledger = LedgerStore(root, party=held.name, data_digest="a" * 64)
    return dataclasses.replace(held, ledger=ledger, run_id="1", **changes)
