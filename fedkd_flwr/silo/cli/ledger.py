"""The command ``fedkd node ledger``: who has spent what."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, print_json

__all__ = ["ledger"]


def ledger(
    place: Annotated[
        str,
        typer.Argument(
            metavar="[STATE_DIR|RUN]",
            help="A party's state-dir, a ledger.sqlite3 or its folder; of a simulation: the run.",
        ),
    ] = str(OUTPUT),
    delta: Annotated[float, typer.Option(help="Where epsilon is measured.")] = 1e-5,
    epsilon_budget: Annotated[
        float | None, typer.Option(metavar="EPSILON", help="Also print what is left of this budget.")
    ] = None,
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Print what a party has charged to its rows.

    Each charge has its time, run and mechanism; the end says what all of it costs. It only reads, and may be called
    while a node runs. A charge stays whether its answer was sent or not (`fedkd node egress log` says that).

    Examples
    --------
    fedkd node ledger
    fedkd node ledger /srv/st-mary/state --epsilon-budget 3.3
    fedkd node ledger last
    fedkd node ledger /srv/st-mary/state --json
    """
    from fedkd_flwr.app.find_run import find_run
    from fedkd_flwr.errors import FedkdError
    from fedkd_flwr.privacy.ledger.ledger import Budget
    from fedkd_flwr.silo.ledger import ledger_dict, ledger_text, ledgers_in, read_ledger

    budget = Budget(epsilon=math.inf if epsilon_budget is None else epsilon_budget, delta=delta)
    path = Path(place).expanduser()
    paths = ledgers_in(path if path.exists() else find_run(place, output_dir).parent)
    known: list[Any] = []
    failed: list[str] = []
    for one in paths:
        try:
            read, rows = read_ledger(one)
            found = (ledger_dict if as_json else ledger_text)(
                read, delta=budget.delta, budget=budget.epsilon, rows=rows
            )
            known.append({"path": str(one), **found} if isinstance(found, dict) else found)
        except (FedkdError, OSError) as error:
            failed.append(str(error))
    if as_json:
        print_json(known)
    else:
        typer.echo("\n".join(known), nl=False)
    if not as_json and len(paths) > 1:
        typer.echo("\nEach ledger counts the releases of its own party only.")
    if failed:
        raise FedkdError("\n".join(failed))
