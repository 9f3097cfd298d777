"""The server's side."""

import task
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedkd_flwr.strategies import FedCT

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds."""
    strategy = FedCT(min_available_nodes=3, public=task.PUBLIC)
    result = strategy.start(
        grid,
        num_rounds=int(context.run_config["num-rounds"]),
    )
    print(f"{len(task.UNLABELLED)} wines belong to nobody;", result)
