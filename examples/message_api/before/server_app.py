"""The server's side."""

import task
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from weights import initial_arrays

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds."""
    strategy = FedAvg(min_available_nodes=3)
    result = strategy.start(
        grid,
        initial_arrays=initial_arrays(),
        num_rounds=int(context.run_config["num-rounds"]),
    )
    print(f"{len(task.UNLABELLED)} wines belong to nobody;", result)
