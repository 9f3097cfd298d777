"""A small federation whose parties send trees."""

from functools import partial

from federation import handler, model, parties, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.algorithms import cards
from fedkd_flwr.registry import load
from fedkd_flwr.strategies.loop import strategy_of

TEST = rows(100, seed=7)
MODELS = {
    "fedxgb-bagging": partial(model, name="xgboost", n_estimators=3, max_depth=3, subsample=0.9),
    "pooled-forest": partial(model, name="random-forest", n_estimators=5),
}


def members(algorithm, count=3, **changes):
    """Return parties of which the last holds one class alone."""
    given = {"allow": frozenset({algorithm}), "model": MODELS[algorithm], **changes}
    held = parties(count - 1, **given)
    one = {"X": rows(20, seed=50, classes=(1,))[0], "y": rows(20, seed=50, classes=(1,))[1]}
    return [*held, type(held[0])(**{**vars(held[0]), "name": f"party-{count - 1:03d}", **one, **changes})]


def make(algorithm, *, minimum=2, public=None, test=TEST, **settings):
    card = cards()[algorithm]
    config = card.config(**{"seed": 1, "nodes_stable_s": 1e-6, **settings})
    strategy = strategy_of(card)
    return strategy(min_train_nodes=minimum, config=config, public=public or public_set(), test=test)


def run(algorithm, *, rounds=1, held=None, tamper=None, **settings):
    """Run it; return the strategy and the grid."""
    held = members(algorithm) if held is None else held
    clients = [load(cards()[algorithm].client)(one) for one in held]
    grid = InProcessGrid(handler(clients), [{}] * len(held), tamper=tamper)
    strategy = make(algorithm, **settings)
    strategy.start(grid, num_rounds=rounds)
    return strategy, grid


def sent(grid, count=3):
    """Return the trees of the first replies, by party."""
    return [{k: a.numpy() for k, a in reply.content["arrays"].items()} for reply in grid.replies[:count]]
