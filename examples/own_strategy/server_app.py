"""The server's side."""

import task
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from secret_ballot import SecretBallot

from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.strategies.waiting import wait_for_nodes

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Hold the ballot."""
    wait_for_nodes(grid, wanted=3, minimum=3, settle_s=0.0, deadline_s=60.0)
    strategy = SecretBallot(task.SPEC, RandomizedResponse(epsilon=3.0, num_classes=3))
    strategy.start(grid, ArrayRecord(), num_rounds=int(context.run_config["num-rounds"]))
    right = (strategy.labels == task.CULTIVAR.iloc[::3]).mean()
    print(f"{right:.2f} of the {len(task.UNLABELLED)} wines that belong to nobody have the right label")
