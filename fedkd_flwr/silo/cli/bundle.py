"""The command ``fedkd server bundle``: an app's bundle as silos approve it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from fedkd_flwr.cli.options import AsJson, print_json
from fedkd_flwr.report.formatting import one_line
from fedkd_flwr.silo.bundles import build_bundle

__all__ = ["bundle"]


def bundle(
    folder: Annotated[
        Path | None, typer.Argument(help="The app's folder; by default the current one, or else this package.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Also write the bundle to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Build an app's bundle, and print its hash.

    The bundle is that of `flwr run`; the hash is what silos approve.

    Examples
    --------
    fedkd server bundle
    fedkd server bundle study/ --output study.fab
    """
    from fedkd_flwr.app.app_folder import app_folder

    with TemporaryDirectory() as scratch:
        if folder is None:
            folder = Path() if Path("pyproject.toml").is_file() else app_folder(Path(scratch))
        built = build_bundle(folder)
    if output is not None:
        output.write_bytes(built.content)
    if as_json:
        print_json({"sha256": built.sha256, "app": built.app, "version": built.version, "files": list(built.files)})
        return
    typer.echo(f"{built.sha256}  {one_line(built.app)} {one_line(built.version)}, {len(built.files)} files")
