"""The commands ``fedkd node ...``: which app bundles may run at a silo, and running them; ``fedkd server bundle``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from fedkd_flwr.cli import NOT_READY
from fedkd_flwr.cli.options import AsJson, complete_node_settings, echo, print_json
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.report.formatting import one_line
from fedkd_flwr.silo.bundles import APPROVED, Approvals, Bundle, build_bundle, installed_differences

__all__ = ["Insecure", "Key", "NodeWords", "RootCertificates", "approve", "bundle", "list_approved", "node_settings"]
__all__ += ["revoke", "run", "without_file"]

ApprovedFolder = Annotated[Path, typer.Option("--approved", help="The folder of approved bundles.")]
NodeWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE.toml] [KEY=VALUE]...", help="The node's settings.", autocompletion=complete_node_settings
    ),
]
RootCertificates = Annotated[
    Path | None, typer.Option("--root-certificates", help="At a silo: the CA's certificate; else the system's.")
]
Key = Annotated[Path | None, typer.Option("--auth-supernode-private-key", help="At a silo: the node's private key.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="At a silo: connect without TLS.")]


def run(
    superlink: Annotated[str, typer.Option(help="The SuperLink's host:port.")],
    words: NodeWords = None,
    root_certificates: RootCertificates = None,
    key: Key = None,
    insecure: Insecure = False,
    approved: ApprovedFolder = APPROVED,
    sandbox: Annotated[str, typer.Option(help="A command to put before the ClientApp's, such as a bwrap script.")] = "",
    checked: Annotated[
        bool, typer.Option("--check/--no-check", help="Look first whether this silo is ready, as `fedkd doctor` does.")
    ] = True,
) -> None:
    """Run a node that answers approved bundles only.

    It answers with the code that is installed here. It first prints what `fedkd doctor` finds. A node that could answer
    nobody does not start (exit code 3).

    Examples
    --------
    fedkd node run node.toml --superlink link.example.org:50800 --root-certificates ca.crt
    fedkd node run party=st-mary data-path=own.csv public-path=public.csv --superlink link.example.org:50800
    fedkd node run node.toml --sandbox "bwrap --unshare-pid --bind / /" --superlink link.example.org:50800
    """
    from fedkd_flwr.silo.check import as_text
    from fedkd_flwr.silo.check_link import Link
    from fedkd_flwr.silo.doctor import check_silo, may_start
    from fedkd_flwr.silo.node import run_node

    values, link = node_settings(words), Link(superlink, insecure, root_certificates, key)
    # without data it plays a party of a simulation
    if checked and not ("partition-id" in values and "data-path" not in values):
        findings = check_silo(values, link=link)
        for line in as_text(findings):
            echo(line)  # as fedkd doctor itself prints them
        if not may_start(findings):
            text = "error: the node was not started: it could answer no run. Mend that; --no-check starts it anyway."
            typer.echo(text, err=True)
            sys.exit(NOT_READY)
    sys.exit(run_node(values, link, approvals=Approvals(approved), sandbox=shlex.split(sandbox)))


def _description(new: Bundle) -> Iterator[str]:
    """Yield what an owner should see before he approves a bundle, line by line."""
    foreign = installed_differences(new)
    yield from (f"{sha256(content).hexdigest()}  {one_line(name)}" for name, content in new.files.items())
    yield f"bundle     {one_line(new.app)} {one_line(new.version)}, {len(new.files)} files, listed above"
    yield f"sha256     {new.sha256}"
    yield f"runs       {one_line(new.client_app)}, as it is installed here; no code of the bundle itself"
    if foreign:
        yield f"installed  other code in {len(foreign)} files; the sender of a run expects the bundle's"
        yield from (f"           {one_line(name)}" for name in foreign)
    else:
        yield "installed  the same code"


def approve(
    file: Annotated[Path | None, typer.Argument(metavar="[BUNDLE.fab]", help="A bundle's file.")] = None,
    folder: Annotated[Path | None, typer.Option("--app", help="Or an app's folder: its bundle is built.")] = None,
    approved: ApprovedFolder = APPROVED,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve it without the question.")] = False,
) -> None:
    """Show a bundle, ask, and approve it.

    It shows what differs from what is installed: that code runs, and none of the bundle's.

    Examples
    --------
    fedkd node approve study.fab
    fedkd node approve --app study/
    """
    if file is not None and folder is None:
        new = Bundle.from_bytes(file.read_bytes(), source=f"file {file}")
    elif folder is not None and file is None:
        new = build_bundle(folder)
    else:
        raise ConfigError(explain("fedkd node approve", "be given a file or --app", "both" if file else "neither"))
    approvals = Approvals(approved)
    if approvals.find(new.content):
        typer.echo(f"{new.sha256} is approved already.")
        return
    typer.echo("\n".join(_description(new)))
    if not yes and not typer.confirm("Answer runs of this bundle from now on?"):
        typer.echo("Nothing was approved.")
        raise typer.Exit(1)
    typer.echo(f"Approved: {approvals.add(new)}")


def list_approved(approved: ApprovedFolder = APPROVED, as_json: AsJson = False) -> None:
    """Print the approved bundles, the oldest first.

    Examples
    --------
    fedkd node list
    fedkd node list --json
    """
    found = [(datetime.fromtimestamp(p.stat().st_mtime, UTC), one) for p, one in Approvals(approved).files().items()]
    if as_json:
        keys = ("sha256", "app", "version")
        print_json([{**{k: getattr(one, k) for k in keys}, "approved": when.isoformat()} for when, one in found])
        return
    for when, each in found:
        typer.echo(f"{each.sha256}  {when:%Y-%m-%d %H:%M} UTC  {one_line(each.app)} {one_line(each.version)}")


def revoke(
    digest: Annotated[str, typer.Argument(metavar="HASH", help="The first digits of its sha256, eight or more.")],
    approved: ApprovedFolder = APPROVED,
) -> None:
    """End the approval of a bundle.

    A running node obeys from the next task on.

    Examples
    --------
    fedkd node revoke 3f2a9c01
    """
    revoked = Approvals(approved).remove(digest)
    typer.echo(f"Revoked: {revoked.sha256} {one_line(revoked.app)} {one_line(revoked.version)}")


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
    from fedkd_flwr.app.submit import app_folder

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


def node_settings(words: Sequence[str] | None) -> dict[str, Any]:
    """Return the node's settings of these words."""
    from fedkd_flwr.settings.node_config import NodeConfig
    from fedkd_flwr.settings.run_settings import read_settings

    return without_file(read_settings(words or [], of=NodeConfig))


def without_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those of the section ``[file]``, which `fedkd file` alone reads."""
    return {key: value for key, value in values.items() if not key.startswith("file.")}
