"""The command ``fedkd dev audit``: attack a simulated run."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkd_flwr.cli.options import AsJson, find_own_modules, print_json
from fedkd_flwr.cli.simulate import RunSettings

__all__ = ["audit"]


def audit(
    settings: RunSettings = None,
    parties: Annotated[int | None, typer.Option(help="How many parties; 5 by default.", min=2)] = None,
    shadows: Annotated[int, typer.Option(help="Shadow runs: even, 4 or more.")] = 16,
    as_json: AsJson = False,
) -> None:
    """Simulate a federation, and attack it.

    It reports how well an attacker, who sees all that was sent, tells which rows the parties trained on. The run is
    repeated as shadow runs with other halves of each party's rows. Record and page go to runs/<run-id>/ of the
    output folder.

    Examples
    --------
    fedkd dev audit dataset=digits model=random-forest
    fedkd dev audit my-run.toml --shadows 32 --json > found.json
    """
    from fedkd_flwr.app.output import output_root
    from fedkd_flwr.audit.run import audit as attack
    from fedkd_flwr.report.tables import audit_text
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.settings.run_settings import read_settings

    values = {"num-parties": 5, **read_settings(settings or [], num_parties=parties)}
    config = parse_run_config(values)
    find_own_modules()
    record = attack(config, shadows=shadows, progress=lambda line: typer.echo(line, err=True))
    report = output_root(config.output_dir) / "runs" / record.run_id / "report.html"
    if as_json:
        print_json({"run_id": record.run_id, "report": str(report), "audit": record.as_dict()["audit"]})
        return
    if record.audit is not None:
        typer.echo(audit_text(record.audit))
    typer.echo(f"report: {report}")
