"""The command ``fedkd compare``: runs beside each other."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, complete_runs, print_json

__all__ = ["compare"]


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Ids, names or paths; a name that several runs have means all of them.",
            autocompletion=complete_runs,
        ),
    ],
    figure: Annotated[str, typer.Option("--by", help="accuracy, balanced-accuracy, ...; empty: what fits.")] = "",
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Compare runs: settings, results, and noise.

    It shows the settings that differ, what each run reached, and which differences are more than noise. Runs that
    differ only in their seed are one group, with mean and standard deviation. Each group is compared with that of the
    first RUN, seed by seed.

    Examples
    --------
    fedkd compare 7300 7301
    fedkd compare majority dawid-skene
    fedkd compare majority dawid-skene --by macro-f1 --json
    """
    from fedkd_flwr.app.find_run import find_runs
    from fedkd_flwr.errors import ConfigError, explain
    from fedkd_flwr.record.run_record import RunRecord
    from fedkd_flwr.report.compare import compare as compared
    from fedkd_flwr.report.results import FIGURES

    wanted = figure.replace("-", "_")
    if wanted and wanted not in FIGURES:
        raise ConfigError(explain("--by", f"be one of {', '.join(FIGURES)}".replace("_", "-"), figure))
    paths = dict.fromkeys(path for run in runs for path in find_runs(run, output_dir))
    found = compared([RunRecord.load(path) for path in paths], figure=wanted)
    print_json(found.as_dict()) if as_json else typer.echo(found.text())
