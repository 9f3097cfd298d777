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
from fedkd_flwr.silo.bundles import APPROVED, Approvals, Bundle, build_bundle, compare, installed_differences

__all__ = [
    "Insecure",
    "Key",
    "NodeText",
    "NodeWords",
    "RootCertificates",
    "approve",
    "bundle",
    "list_approved",
    "node_options",
    "revoke",
    "run",
    "without_file",
]

ApprovedFolder = Annotated[Path, typer.Option("--approved", help="The folder of approved bundles.")]
NodeWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE.toml] [KEY=VALUE]... [-- SUPERNODE_OPTIONS]",
        help="The node's settings; behind -- further options as flower-supernode takes them.",
        autocompletion=complete_node_settings,
    ),
]
NodeText = Annotated[
    str, typer.Option("--node-config", help="Its settings as flower-supernode takes them: one text, or a TOML file.")
]
RootCertificates = Annotated[str, typer.Option("--root-certificates", help="At a silo: the CA's certificate.")]
Key = Annotated[str, typer.Option("--auth-supernode-private-key", help="At a silo: the node's private key.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="At a silo: connect without TLS.")]


def run(
    words: NodeWords = None,
    superlink: Annotated[str, typer.Option(help="The SuperLink's host:port.")] = "",
    root_certificates: RootCertificates = "",
    key: Key = "",
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
    fedkd node run -- --superlink link.example.org:50800 --node-config node.toml --max-retries 5
    """
    from fedkd_flwr.app.submit import toml
    from fedkd_flwr.silo.check_link import read_supernode_options
    from fedkd_flwr.silo.node import run_node

    _, supernode, values = node_options(
        words,
        insecure=insecure,
        superlink=superlink,
        root_certificates=root_certificates,
        auth_supernode_private_key=key,
    )
    if values:  # what stands later wins, in Flower's options too
        values = read_supernode_options(supernode)[0] | values
        supernode += ["--node-config", " ".join(f"{name}={toml(value)}" for name, value in values.items())]
    if checked and not _ready(supernode):
        sys.exit(NOT_READY)
    sys.exit(run_node(supernode, approvals=Approvals(approved), sandbox=shlex.split(sandbox)))


def _ready(supernode: list[str]) -> bool:
    """Print what is found out about this silo; tell whether its node may start."""
    from fedkd_flwr.silo.check import as_text
    from fedkd_flwr.silo.check_link import read_supernode_options
    from fedkd_flwr.silo.doctor import check_silo, may_start

    values, link = read_supernode_options(supernode)
    if "partition-id" in values and "data-path" not in values:  # it plays a party of a simulation
        return True
    findings = check_silo(values, link=link)
    for line in as_text(findings):
        echo(line)  # as fedkd doctor itself prints them
    if may_start(findings):
        return True
    typer.echo(
        "error: the node was not started: it could answer no run. Mend the faults; --no-check starts it anyway.",
        err=True,
    )
    return False


def _description(new: Bundle, before: Bundle | None) -> Iterator[str]:
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
    if before is None:
        yield "before     nothing was approved for this app"
        return
    changes = compare(before, new)
    counts = ", ".join(f"{len(names)} {kind}" for kind, names in changes.items())
    yield f"before     {before.sha256} ({one_line(before.version)}); since then {counts}"
    yield from (f"           {kind} {one_line(name)}" for kind, names in changes.items() for name in names)


def approve(
    file: Annotated[Path | None, typer.Argument(metavar="[BUNDLE.fab]", help="A bundle's file.")] = None,
    folder: Annotated[Path | None, typer.Option("--app", help="Or an app's folder: its bundle is built.")] = None,
    approved: ApprovedFolder = APPROVED,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve it without the question.")] = False,
) -> None:
    """Show a bundle, ask, and approve it.

    It shows what differs from the bundle that was approved before, and from what is installed.

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
        seen = "both" if file else "neither"
        raise ConfigError(explain("fedkd node approve", "be given either a bundle's file or --app", seen))
    approvals = Approvals(approved)
    if approvals.find(new.content):
        typer.echo(f"{new.sha256} is approved already.")
        return
    for line in _description(new, approvals.previous(new)):
        typer.echo(line)
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


def node_options(
    words: Sequence[str] | None, *, insecure: bool = False, **given: str
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the words that are settings, the options of flower-supernode, and the node's settings of the words.

    ``given``: options by their names, with _ for -; "" is passed over.
    """
    from fedkd_flwr.settings.node_config import NodeConfig
    from fedkd_flwr.settings.run_settings import read_settings

    found = list(words or [])
    first = next((i for i, word in enumerate(found) if word.startswith("--")), len(found))
    options = found[first:] + ["--insecure"] * insecure
    for name, value in given.items():
        options += [f"--{name.replace('_', '-')}", value] if value else []
    values = read_settings(found[:first], of=NodeConfig)
    return found[:first], options, without_file(values)


def without_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those of the section ``[file]``, which `fedkd file` alone reads."""
    return {key: value for key, value in values.items() if not key.startswith("file.")}
