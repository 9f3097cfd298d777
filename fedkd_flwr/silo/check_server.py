"""Readiness of a server for one run: settings, public set, disk, SuperLink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.submit import FlowerError, flower
from fedkd_flwr.data.public import short_fingerprint
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.errors import ConfigError, FedkdError, explain
from fedkd_flwr.settings.config import RunConfig, parse_run_config
from fedkd_flwr.silo.check import Finding, Level, check_disk, fault, finding_of, ready, size_of, warning
from fedkd_flwr.silo.check_link import Link, check_link

__all__ = ["check_server"]


def check_server(
    values: Mapping[str, Any], *, superlink: str | None = None, show: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """Look at what a run with real silos needs at the server.

    ``superlink``: its name in Flower's configuration, "" for the default; None: it is not asked. ``show``: gets a word
    at each step.
    """
    try:
        config = parse_run_config(values)
        root = output_root(config.output_dir)
        if not config.public_path:
            way_out = "A simulation tries its data and models itself before its first round: fedkd simulate"
            raise ConfigError(explain("public-path", "be given for a check", "", way_out))
    except FedkdError as error:
        return [finding_of("settings", error)]
    return [*_look(config, superlink, show), check_disk(root, "output-dir")]


def _look(config: RunConfig, superlink: str | None, show: Callable[[str], None]) -> Iterator[Finding]:
    yield ready("settings", f"{config.algorithm}, {config.rounds} round{'s' * (config.rounds != 1)}")
    show("the public file")
    try:
        public = load_public(config.public_path, config.schema_path or None, labels=config.public_label_column)
    except (FedkdError, OSError) as error:
        yield finding_of("public file", error)
    else:
        yield ready("public file", f"{config.public_path}: {size_of(public)}")
        short = short_fingerprint(public.fingerprint)
        way_out = f'Tell every party these digits by telephone, for its node config: public-fingerprint="{short}"'
        yield ready("fingerprint", short, way_out)
    if superlink is not None:
        show("the SuperLink")
        yield from _superlink(config, superlink)


def _superlink(config: RunConfig, name: str) -> Iterator[Finding]:
    """Yield whether the SuperLink answers an operator here, and how many nodes are online."""
    from flwr.cli.flower_config import read_superlink_connection

    try:
        connection = read_superlink_connection(name or None)
    except BaseException as error:  # Flower's commands leave by exceptions of click and typer, and by SystemExit
        if isinstance(error, KeyboardInterrupt):
            raise
        way_out = "`flwr config list` shows the connections; docs/howto/certificates.md says how to write one."
        yield fault("address", f"Flower's configuration has no SuperLink {name or '(default)'}: {error}", way_out)
        return
    if connection.address:
        roots = Path(connection.root_certificates).expanduser() if connection.root_certificates else None
        link = Link(address=connection.address, insecure=bool(connection.insecure), root_certificates=roots)
        found = list(check_link(link))
        yield from found
        if any(one.level == Level.FAULT for one in found):
            return
    try:
        nodes = flower("supernode", "list", *([name] if name else []))["nodes"]
    except FlowerError as error:
        yield finding_of("nodes", error)
        return
    online = sum(str(node.get("status")) == "online" for node in nodes)
    wanted = config.num_parties or config.min_parties
    what = f"{online} of {len(nodes)} registered nodes are online; the run waits for {wanted}"
    if online < wanted:
        yield warning("nodes", what, "Ask the missing silos to start their nodes.")
    else:
        yield ready("nodes", what)
