"""The server's side, as it stands in Flower's present API: a main function that starts the strategy."""

import task
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkd_flwr.strategies import FedCT

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the exchange, and say what came out."""
    strategy = FedCT(min_available_nodes=3, public=task.PUBLIC)
    strategy.start(grid, num_rounds=int(context.run_config["num-rounds"]))
    labelled = (strategy.exchange.consensus >= 0).sum()
    print(f"{labelled} of {len(task.UNLABELLED)} wines that belong to nobody have a label")
