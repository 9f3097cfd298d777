"""The server's side, in Flower's older API: a server_fn that returns ServerAppComponents."""

import task
from flwr.app import Context
from flwr.server import ServerApp, ServerAppComponents, ServerConfig

from fedkd_flwr.app.legacy import LegacyStrategy
from fedkd_flwr.strategies import FedCT


def report(strategy: FedCT) -> None:
    """Say what came out."""
    labelled = (strategy.consensus >= 0).sum()
    print(f"{labelled} of {len(task.UNLABELLED)} wines that belong to nobody have a label")


def server_fn(context: Context) -> ServerAppComponents:
    """Return the strategy and the number of rounds."""
    rounds = int(context.run_config["num-rounds"])
    strategy = FedCT(min_available_nodes=3, public=task.PUBLIC)
    wrapped = LegacyStrategy(strategy, num_rounds=rounds, when_done=report)
    return ServerAppComponents(strategy=wrapped, config=ServerConfig(num_rounds=rounds))


app = ServerApp(server_fn=server_fn)
