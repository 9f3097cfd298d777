"""A small federation whose nets' weights go round, behind Flower's records and ours."""

import numpy as np
from federation import handler, model, parties, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.algorithms import cards
from fedkd_flwr.registry import load
from fedkd_flwr.strategies.loop import strategy_of

TEST = rows(100, seed=7)


def net(*, seed, hidden=(8,), **params):
    settings = {"optimizer": "sgd", "lr": 0.1, "batch_size": 8, "epochs": 5, **params}
    return model(seed=seed, name="mlp", hidden=list(hidden), **settings)


def members(count=4, algorithm="fedprox", **changes):
    return parties(count, **{"allow": frozenset({algorithm}), "model": net, **changes})


def client(one, algorithm):
    trees = {"teacher": model, "student": model} if algorithm == "fedkt-prox" else {}
    return load(cards()[algorithm].client)(one, **trees)


def make(algorithm="fedprox", *, minimum=2, fraction=1.0, names=None, global_model=net, given=None, **settings):
    settings = {"seed": 1, "nodes_stable_s": 1e-6, "local_epochs": 1, **settings}
    if algorithm == "fedkt-prox":
        settings |= {"students_per_party": 1, "teachers_per_student": 2}
    card = cards()[algorithm]
    shared = {"public": public_set(), "global_model": global_model, "test": TEST, "names": names, **(given or {})}
    strategy = strategy_of(card)
    return strategy(fraction, min_train_nodes=minimum, config=card.config(**settings), **shared)


def grid_of(held, algorithm="fedprox", **keywords):
    first = keywords.get("first_node_id", 1000)
    return InProcessGrid(handler([client(p, algorithm) for p in held], first), [{}] * len(held), **keywords)


def run(algorithm="fedprox", *, rounds=3, held=None, tamper=None, order=None, first_node_id=1000, **settings):
    held = members(algorithm=algorithm) if held is None else held
    strategy = make(algorithm, **settings)
    grid = grid_of(held, algorithm, tamper=tamper, order=order, first_node_id=first_node_id)
    strategy.start(grid, num_rounds=rounds)
    return strategy, grid


def codes(strategy, server_round=1):
    return {r.party or r.node_id: r.code for r in strategy.record.rounds[server_round - 1].rejected}


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
