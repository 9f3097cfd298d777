"""The command ``fedkd compare``: runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, print_json

__all__ = ["compare"]


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Ids, names or paths; a name that several runs have means all of them."),
    ],
    output: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Also write a page with pictures.")] = None,
    figure: Annotated[str, typer.Option("--by", help="accuracy, balanced-accuracy, ...; empty: what fits.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Also runs on other data or other test rows.")] = False,
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Compare runs: the settings that differ, what each reached, and which differences are more than noise.

    Runs that differ only in their seed are one group, with mean and standard deviation. Each group is compared with
    that of the first RUN, seed by seed.

    Examples
    --------
    fedkd compare 7300 7301
    fedkd compare majority dawid-skene --output compare.html
    fedkd compare majority dawid-skene --by macro-f1 --json
    """
    from fedkd_flwr.app.find_run import find_runs
    from fedkd_flwr.errors import ConfigError, explain
    from fedkd_flwr.record.run_record import RunRecord
    from fedkd_flwr.report.compare import compare as compared
    from fedkd_flwr.report.compare_text import comparison_text
    from fedkd_flwr.report.derived import FIGURES

    wanted = figure.replace("-", "_")
    if wanted and wanted not in FIGURES:
        raise ConfigError(explain("--by", f"be one of {', '.join(FIGURES)}".replace("_", "-"), figure))
    paths = dict.fromkeys(path for run in runs for path in find_runs(run, output_dir))
    found = compared([RunRecord.load(path) for path in paths], figure=wanted, force=force)
    if output is not None:
        from fedkd_flwr.report.compare_page import write_compare_page

        output = write_compare_page(found, output).absolute()
    if as_json:
        print_json(found.as_dict() | ({"page": str(output)} if output else {}))
        return
    typer.echo(comparison_text(found))
    if output is not None:
        typer.echo(f"page: {output}")
