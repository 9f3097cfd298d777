"""Whole rounds of any algorithm among small parties, behind Flower's records and ours."""

from dataclasses import replace
from functools import partial

import numpy as np
from federation import handler, model, parties, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.algorithms import cards
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.registry import load
from fedkd_flwr.strategies.loop import strategy_of
from fedkd_flwr.wire.records import open_reply

TEST = rows(100, seed=7)
COUNTS = {"privatekt": 5, "noisy-sums": 5, "fedxgb-bagging": 3, "pooled-forest": 3}  # of parties; others: 4
USUAL = {
    "fedkt-prox": {"students_per_party": 1, "teachers_per_student": 2},
    "privatekt": {"solo_epochs": 1, "local_epochs": 2, "node_deadline_s": 0.5},
}


def net(*, seed, hidden=(8,), **params):
    settings = {"optimizer": "sgd", "lr": 0.1, "batch_size": 8, "epochs": 5, **params}
    return model(seed=seed, name="mlp", hidden=list(hidden), **settings)


TREES = {
    "fedxgb-bagging": partial(model, name="xgboost", n_estimators=3, max_depth=3, subsample=0.9),
    "pooled-forest": partial(model, name="random-forest", n_estimators=5),
}


def members(count=0, algorithm="fedprox", **changes):
    """Return parties; of those that send trees the last holds one class alone."""
    made_by = {**TREES, "noisy-sums": model}.get(algorithm, net)
    usual = {"allow": frozenset({algorithm}), "model": made_by, "simulated": algorithm == "privatekt"}
    held = parties(count or COUNTS.get(algorithm, 4), **{**usual, **changes})
    if algorithm in TREES:
        X, y = rows(20, seed=50, classes=(1,))
        held[-1] = replace(held[-1], X=X, y=y)
    return held


def make(algorithm="fedprox", *, fraction=1.0, minimum=2, run_id="1", **words):
    """Return a strategy; ``words`` are settings of the algorithm, and all else that a strategy takes."""
    card, strategy = cards()[algorithm], strategy_of(cards()[algorithm])
    settings = {"seed": 1, "nodes_stable_s": 1e-6, "local_epochs": 1, **USUAL.get(algorithm, {}), **words}
    config = card.config(**{key: value for key, value in settings.items() if key in card.config.model_fields})
    told = {"sends": card.sends, "returns": card.returns, "one_shot": card.one_shot}
    given = {"fraction_train": fraction, "min_train_nodes": minimum, "public": public_set()}
    given["record"] = RunRecord(run_id=run_id, algorithm=algorithm, **told)
    taken = {"global_model": net, "final_model": model, "test": TEST}
    given |= {key: value for key, value in taken.items() if key in strategy.exchange_type.takes}
    given |= {key: value for key, value in words.items() if key not in card.config.model_fields}
    return strategy(config=config, **given)


def grid_of(held, algorithm="fedprox", **keywords):
    trees = {"teacher": model, "student": model} if algorithm == "fedkt-prox" else {}
    clients = [load(cards()[algorithm].client)(one, **trees) for one in held]
    return InProcessGrid(handler(clients, keywords.get("first_node_id", 1000)), [{}] * len(held), **keywords)


def run(algorithm="fedprox", held=None, *, rounds=1, timeout=60.0, known=False, **words):
    """Run it; return the strategy and the grid. ``known``: the server knows the parties' names beforehand."""
    held = members(algorithm=algorithm) if held is None else held
    grid = grid_of(held, algorithm, **{k: words.pop(k) for k in ("order", "tamper", "first_node_id") if k in words})
    names = {"names": {1000 + i: one.name for i, one in enumerate(held)}} if known else {}
    strategy = make(algorithm, **names, **words)
    strategy.start(grid, num_rounds=rounds, timeout=timeout)
    return strategy, grid


fedkt_grid = partial(grid_of, algorithm="fedkt")
fedkt, quick_fedct = partial(make, "fedkt"), partial(make, "fedct", node_deadline_s=0.3)
run_fedkt, run_fedct = partial(run, "fedkt"), partial(run, "fedct", rounds=3, steps_per_round=20)


def codes(strategy, server_round=1):
    return {r.party or r.node_id: r.code for r in strategy.record.rounds[server_round - 1].rejected}


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def replies(grid):
    """Return the replies of rounds, opened."""
    return [reply for reply in (open_reply(one, "fit") for one in grid.replies) if reply.arrays]
