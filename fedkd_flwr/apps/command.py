"""The command ``fedkd``. Each subcommand imports what it needs when it is called, so that ``fedkd --help`` is quick."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.apps.bundles import (
    APPROVED,
    Approvals,
    Bundle,
    build_bundle,
    compare,
    installed_differences,
    plain,
    text_diff,
)
from fedkd_flwr.errors import ConfigError, FedkdError, explain

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Federated learning where parties share labels.")
node = typer.Typer(no_args_is_help=True, help="A silo's node: which app bundles may run here, and running them.")
app.add_typer(node, name="node")

ApprovedFolder = Annotated[Path, typer.Option("--approved", help="The folder of approved bundles.")]


@app.command()
def bundle(
    folder: Annotated[Path, typer.Argument(help="The app's folder.")] = Path(),
    output: Annotated[Path | None, typer.Option(help="Also write the bundle to this file.")] = None,
) -> None:
    """Build an app's bundle as `flwr run` does, and print its hash, which is what silos approve."""
    built = build_bundle(folder)
    if output is not None:
        output.write_bytes(built.content)
    typer.echo(f"{built.sha256}  {plain(built.app)} {plain(built.version)}, {len(built.files)} files")


@app.command()
def choose(
    table: Annotated[Path | None, typer.Option(help="Your table (CSV or Parquet).")] = None,
    label: Annotated[str, typer.Option(help="Its label column.")] = "",
    dataset: Annotated[str, typer.Option(help="Or a named data set (docs/your-data.md).")] = "",
    parties: Annotated[int, typer.Option(help="Parties to simulate.", min=2)] = 5,
    alpha: Annotated[float, typer.Option(help="How alike the parties are: 0.1 very uneven, 100 nearly even.")] = 0.5,
    model: Annotated[str, typer.Option(help="The parties' model (docs/your-model.md).")] = "random-forest",
    seeds: Annotated[int, typer.Option(help="Repetitions, each with other parties.", min=1)] = 5,
    whose: Annotated[str, typer.Option("--for", help="Whose model counts: parties, home or server.")] = "parties",
    figure: Annotated[str, typer.Option("--by", help="accuracy or balanced-accuracy; empty: what fits.")] = "",
    candidate: Annotated[list[str] | None, typer.Option(help="Only this candidate; may be repeated.")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting (TOML).")] = None,
) -> None:
    """Compare algorithms and votes on your own table, with simulated parties, and say what is more than noise.

    Each candidate runs once for each seed in this process. Whose model counts: the parties' models on rows like those
    of all parties (parties), on rows like each party's own (home), or the server's model (server).
    """
    import tomllib

    from flwr.common.config import flatten_dict

    from fedkd_flwr.apps.choose import WHOSE, comparison_text
    from fedkd_flwr.apps.choose import choose as compare_candidates

    if (table is None) == (not dataset):
        seen = "neither" if table is None else "both"
        raise ConfigError(explain("fedkd choose", "be given either --table or --dataset", seen))
    for name, value, known in (
        ("--for", whose, tuple(WHOSE)),
        ("--by", figure, ("", "accuracy", "balanced-accuracy")),
    ):
        if value not in known:
            raise ConfigError(explain(name, f"be one of {', '.join(filter(None, known))}", value))
    try:
        further = flatten_dict(tomllib.loads("\n".join(settings or [])))
    except tomllib.TOMLDecodeError as error:
        way_out = "Write --set 'fedct.quorum=0.8', and texts in quotes: --set 'model=\"knn\"'."
        raise ConfigError(explain("--set", "be KEY=VALUE as in TOML", str(error), way_out)) from error
    values = {"num-parties": parties, "dirichlet-alpha": alpha, "model": model, "dataset": dataset or "table"}
    if table is not None:
        values |= {"table": str(table.expanduser().absolute()), "label": label}
    found = compare_candidates(
        {**values, **further},
        names=candidate or [],
        seeds=seeds,
        whose=whose,  # type: ignore[arg-type]
        figure=figure.replace("-", "_"),
        progress=lambda line: typer.echo(line, err=True),
    )
    typer.echo(comparison_text(found))


@node.command()
def run(
    supernode: Annotated[
        list[str], typer.Argument(metavar="-- SUPERNODE_OPTIONS", help="As flower-supernode takes them.")
    ],
    approved: ApprovedFolder = APPROVED,
    sandbox: Annotated[str, typer.Option(help="A command to put before the ClientApp's, such as a bwrap script.")] = "",
) -> None:
    """Run a SuperNode that answers approved bundles only, with the code installed here."""
    from fedkd_flwr.apps.node import run_node

    sys.exit(run_node(supernode, approvals=Approvals(approved), sandbox=shlex.split(sandbox)))


def _description(new: Bundle, before: Bundle | None, *, diff: bool) -> Iterator[str]:
    """Yield what an owner should see before he approves a bundle, line by line."""
    foreign = installed_differences(new)
    yield from (f"{sha256(content).hexdigest()}  {plain(name)}" for name, content in new.files.items())
    yield f"bundle     {plain(new.app)} {plain(new.version)}, {len(new.files)} files, listed above"
    yield f"sha256     {new.sha256}"
    yield f"runs       {plain(new.client_app)}, as it is installed here; no code of the bundle itself"
    if foreign:
        yield f"installed  other code in {len(foreign)} files; the sender of a run expects the bundle's"
        yield from (f"           {plain(name)}" for name in foreign)
    else:
        yield "installed  the same code"
    if before is None:
        yield "before     nothing was approved for this app"
        return
    changes = compare(before, new)
    counts = ", ".join(f"{len(names)} {kind}" for kind, names in changes.items())
    yield f"before     {before.sha256} ({plain(before.version)}); since then {counts}"
    yield from (f"           {kind} {plain(name)}" for kind, names in changes.items() for name in names)
    if diff:
        yield from (plain(line.expandtabs()) for line in text_diff(before, new))


@node.command()
def approve(
    file: Annotated[Path | None, typer.Argument(metavar="[BUNDLE.fab]", help="A bundle's file.")] = None,
    folder: Annotated[Path | None, typer.Option("--app", help="Or an app's folder: its bundle is built.")] = None,
    approved: ApprovedFolder = APPROVED,
    diff: Annotated[bool, typer.Option("--diff", help="Print each changed line, too.")] = False,
) -> None:
    """Show a bundle, and what differs from the one approved before and from what is installed; ask; approve it."""
    if file is not None and folder is None:
        new = Bundle.from_bytes(file.read_bytes(), source=f"file {file}")
    elif folder is not None and file is None:
        new = build_bundle(folder)
    else:
        seen = "both" if file else "neither"
        raise ConfigError(explain("fedkd node approve", "be given either a bundle's file or --app", seen))
    approvals = Approvals(approved)
    if approvals.find(new.content):
        typer.echo(f"{new.sha256} is approved already.")
        return
    for line in _description(new, approvals.previous(new), diff=diff):
        typer.echo(line)
    if not typer.confirm("Answer runs of this bundle from now on?"):
        typer.echo("Nothing was approved.")
        raise typer.Exit(1)
    typer.echo(f"Approved: {approvals.add(new)}")


@node.command("list")
def list_approved(approved: ApprovedFolder = APPROVED) -> None:
    """Print the approved bundles, the oldest approval first."""
    for path, each in Approvals(approved).files().items():
        when = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        typer.echo(f"{each.sha256}  {when:%Y-%m-%d %H:%M} UTC  {plain(each.app)} {plain(each.version)}")


@node.command()
def revoke(
    digest: Annotated[str, typer.Argument(metavar="HASH", help="The first digits of its sha256, eight or more.")],
    approved: ApprovedFolder = APPROVED,
) -> None:
    """End the approval of a bundle. A running node obeys from the next task on."""
    revoked = Approvals(approved).remove(digest)
    typer.echo(f"Revoked: {revoked.sha256} {plain(revoked.app)} {plain(revoked.version)}")


def main() -> None:
    """Run the command; an error is one line on stderr and status 2."""
    try:
        app(prog_name="fedkd")
    except (FedkdError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
