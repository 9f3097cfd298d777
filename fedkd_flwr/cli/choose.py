"""The command ``fedkd choose``: which algorithm and which vote for my table."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkd_flwr.cli.exit_codes import INTERRUPTED
from fedkd_flwr.cli.options import AsJson, Quiet, find_own_modules, print_json
from fedkd_flwr.cli.simulate import RunSettings
from fedkd_flwr.errors import ConfigError, DataError, explain

__all__ = ["choose"]


def choose(
    settings: RunSettings = None,
    parties: Annotated[int, typer.Option(help="Parties to simulate. 0: those in the data, else 5.", min=0)] = 0,
    thorough: Annotated[bool, typer.Option("--thorough", help="All candidates, each with five seeds.")] = False,
    seeds: Annotated[int, typer.Option(help="Repetitions, each with other parties. 0: 1, or 5 if thorough.")] = 0,
    whose: Annotated[str, typer.Option("--for", help="Whose model counts: parties, home or server.")] = "parties",
    figure: Annotated[str, typer.Option("--by", help="accuracy or balanced-accuracy; empty: what fits.")] = "",
    candidate: Annotated[list[str] | None, typer.Option(help="Only this candidate; may be repeated.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Compare algorithms and votes on your table.

    Parties are simulated, and it says which differences are more than noise. Settings are those of fedkd simulate,
    but for the algorithm's; models are forests unless given. Whose model counts: the parties' models on rows like
    those of all parties (parties), on rows like each party's own (home), or the server's model (server). With
    epsilon=1.0 the candidates are those that claim it for one record, against the server: noisy sums and FedKT L2.
    Runs that ended are kept: the same command goes on there.

    Examples
    --------
    fedkd choose table=patients.csv label=outcome id-column=PatNr
    fedkd choose table=patients.csv label=outcome partition-column=hospital --thorough
    fedkd choose table=patients.csv label=outcome epsilon=1.0 --for server --thorough
    fedkd choose dataset=digits --candidate fedct:majority --candidate fedkt:majority --seeds 3
    """
    from fedkd_flwr.app.choose import choose as compare_candidates
    from fedkd_flwr.app.choose_text import WHOSE, comparison_text
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.settings.run_settings import read_settings

    for name, value, known in (("--for", whose, tuple(WHOSE)), ("--by", figure, ("", "accuracy", "balanced-accuracy"))):
        if value not in known:
            raise ConfigError(explain(name, f"be one of {', '.join(filter(None, known))}", value))
    values = {"model": "random-forest", **read_settings(settings or [], num_parties=parties or None)}
    if not values.get("dataset"):
        way_out = "Write table=FILE label=COLUMN, or dataset=NAME (docs/howto/your-data.md)."
        raise ConfigError(explain("fedkd choose", "be told which rows", "neither table nor dataset", way_out))
    if not values.get("num-parties") and not parse_run_config(values).has_parties:
        values["num-parties"] = 5
    find_own_modules()
    try:
        found = compare_candidates(
            values,
            names=candidate or [],
            thorough=thorough,
            seeds=seeds,
            whose=whose,  # type: ignore[arg-type]
            figure=figure.replace("-", "_"),
            progress=lambda line: None if quiet else typer.echo(line, err=True),
        )
    except DataError as error:
        raise DataError(str(error).replace("fedkd simulate ", "fedkd choose "), code=error.code) from error
    print_json(found.as_dict()) if as_json else typer.echo(comparison_text(found))
    return INTERRUPTED if found.stopped else 0
