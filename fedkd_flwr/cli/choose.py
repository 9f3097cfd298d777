"""The command ``fedkd choose``: which algorithm and which vote for my table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.cli.options import AsJson, find_own_modules, print_json
from fedkd_flwr.errors import ConfigError, DataError, explain

__all__ = ["choose"]


def choose(
    table: Annotated[Path | None, typer.Option(help="Your table (CSV or Parquet).")] = None,
    label: Annotated[str, typer.Option(help="Its label column.")] = "",
    dataset: Annotated[str, typer.Option(help="Or a named data set (docs/howto/your-data.md).")] = "",
    parties: Annotated[int, typer.Option(help="Parties to simulate.", min=2)] = 5,
    alpha: Annotated[float, typer.Option(help="How alike the parties are: 0.1 very uneven, 100 nearly even.")] = 0.5,
    model: Annotated[str, typer.Option(help="The parties' model (docs/howto/your-model.md).")] = "random-forest",
    seeds: Annotated[int, typer.Option(help="Repetitions, each with other parties.", min=1)] = 5,
    whose: Annotated[str, typer.Option("--for", help="Whose model counts: parties, home or server.")] = "parties",
    figure: Annotated[str, typer.Option("--by", help="accuracy or balanced-accuracy; empty: what fits.")] = "",
    candidate: Annotated[list[str] | None, typer.Option(help="Only this candidate; may be repeated.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare algorithms and votes on your own table, with simulated parties, and say what is more than noise.

    Each candidate runs once for each seed in this process. Whose model counts: the parties' models on rows like those
    of all parties (parties), on rows like each party's own (home), or the server's model (server).

    Examples
    --------
    fedkd choose --table patients.csv --label outcome --parties 4
    fedkd choose --dataset digits --candidate fedct:majority --candidate fedkt:majority --seeds 3
    fedkd choose --table patients.csv --label outcome --set model=knn --json
    """
    from fedkd_flwr.app.choose import WHOSE
    from fedkd_flwr.app.choose import choose as compare_candidates
    from fedkd_flwr.app.choose_text import comparison_text
    from fedkd_flwr.settings.run_settings import read_settings

    if (table is None) == (not dataset):
        seen = "neither" if table is None else "both"
        raise ConfigError(explain("fedkd choose", "be given either --table or --dataset", seen))
    for name, value, known in (
        ("--for", whose, tuple(WHOSE)),
        ("--by", figure, ("", "accuracy", "balanced-accuracy")),
    ):
        if value not in known:
            raise ConfigError(explain(name, f"be one of {', '.join(filter(None, known))}", value))
    further = read_settings(settings or [])
    values = {"num-parties": parties, "dirichlet-alpha": alpha, "model": model, "dataset": dataset or "table"}
    if table is not None:
        values |= {"table": str(table.expanduser().absolute()), "label": label}
    find_own_modules()
    try:
        found = compare_candidates(
            {**values, **further},
            names=candidate or [],
            seeds=seeds,
            whose=whose,  # type: ignore[arg-type]
            figure=figure.replace("-", "_"),
            progress=lambda line: typer.echo(line, err=True),
        )
    except DataError as error:
        if "fedkd simulate " not in (said := str(error)):
            raise
        way_out = "For fedkd choose put such a setting behind --set, as in --set drop=name."
        raise DataError(f"{said}\n{way_out}", code=error.code) from error
    print_json(found.as_dict()) if as_json else typer.echo(comparison_text(found))
