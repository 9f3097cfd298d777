"""Parties of noisy sums, and whole rounds among them."""

from federation import handler, parties, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.clients import NoisySumsClient
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.strategies import NoisySums, NoisySumsConfig
from fedkd_flwr.wire.records import open_reply

TEST = rows(200, seed=7)


ALLOW = frozenset({"noisy-sums"})


def members(count=5, **changes):
    return parties(count, **{"allow": ALLOW, **changes})


def run(held, *, minimum=2, run_id="1", rounds=1, tamper=None, checkpoint=None, resume_from=None, **settings):
    config = NoisySumsConfig(seed=1, nodes_stable_s=1e-6, **settings)
    strategy = NoisySums(
        min_train_nodes=minimum,
        config=config,
        public=public_set(),
        test=TEST,
        record=RunRecord(run_id=run_id, algorithm="noisy-sums"),
        checkpoint=checkpoint,
        resume_from=resume_from,
    )
    grid = InProcessGrid(handler([NoisySumsClient(one) for one in held], 1000), [{}] * len(held), tamper=tamper)
    strategy.start(grid, num_rounds=rounds)
    return strategy, grid


def replies(grid):
    opened = [open_reply(reply, "fit") for reply in grid.replies]
    return [reply for reply in opened if reply.arrays]
