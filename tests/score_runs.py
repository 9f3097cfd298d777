"""Parties that exchange scores, and whole rounds among them."""

import numpy as np
from federation import handler, model, party, rows
from grid import InProcessGrid
from rounds import make as strategy_of

from fedkd_flwr.algorithms import cards
from fedkd_flwr.registry import load
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.wire.records import open_instruction

FAST = {"fedmd": {"initial_epochs": 3, "distillation_epochs": 1}, "dd": {"steps_per_round": 20}}


def net(*, seed):
    return model(seed=seed, name="mlp", hidden=[8], lr=0.02, batch_size=16)


def members(count=2, *, name="fedmd", state=None, ledger=False, make=net, classes=(0, 1, 2), **changes):
    """Return parties of 20 rows; with a folder each has a state there, and a ledger where that is wanted."""
    made = []
    for i in range(count):
        who = f"party-{i:03d}"
        kept = {"state": PartyState(state, run_id="1", party=who)} if state is not None else {}
        if ledger:
            kept |= {"ledger": LedgerStore(state, party=who, data_digest=f"{i:064x}"), "run_id": "1"}
        known = classes[i] if isinstance(classes[0], tuple) else classes
        settings = {"allow": frozenset({name}), "model": make, "rows_at_least": 20, **kept, **changes}
        made.append(party(who, *rows(20, seed=i, classes=known), **settings))
    return made


def run(held, name="fedmd", *, rounds=2, client=None, noise=False, grid=None, party_rows=(), timeout=60.0, **settings):
    """Return the strategy after a run of these parties, and the grid with what crossed it."""
    strategy = strategy_of(name, public=held[0].public, party_rows=party_rows, **{**FAST.get(name, {}), **settings})
    rng = np.random.default_rng(5) if noise else None
    clients = [(client or load(cards()[name].client))(one, noise_rng=rng) for one in held]
    network = InProcessGrid(handler(clients), [{}] * len(clients), **(grid or {}))
    strategy.start(network, num_rounds=rounds, timeout=timeout)
    return strategy, network


def mean_of_local_nets(held, rows, learn):
    """Return the mean logits that fresh nets of these parties have on public rows after each learnt alone."""
    fresh = [(net(seed=derive_seed(derive_seed(1, one.name), "model")), one) for one in held]
    return np.mean([learn(made, one).logits(one.public.X[rows]) for made, one in fresh], axis=0)


def payload(message):
    """Return the arrays of an instruction by name."""
    arrays, config = open_instruction(message.content)
    return dict(zip(str(config["payload"]).split(","), arrays, strict=True))
