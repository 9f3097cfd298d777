"""Readiness of a server for one run: settings, public set, models, ledger, SuperLink, disk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedkd_flwr.app.models import final_model, global_model, model_factory
from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.submit import FlowerError, flower
from fedkd_flwr.data.public import PublicSet, short_fingerprint
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.errors import ConfigError, FedkdError, RefusalError, explain
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.known import draw_known
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.privacy.ledger.filter import spent_text
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.settings.config import RunConfig, parse_run_config
from fedkd_flwr.silo.check import Finding, Level, check_disk, fault, finding_of, ready, size_of, warning
from fedkd_flwr.silo.check_link import Link, check_link
from fedkd_flwr.stores.ledger import LedgerStore

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
    return [*_look(config, superlink, root, show), check_disk(root, "output-dir")]


def _look(config: RunConfig, superlink: str | None, root: Path, show: Callable[[str], None]) -> Iterator[Finding]:
    yield ready("settings", f"{config.algorithm}, {config.rounds} round{'s' * (config.rounds != 1)}")
    show("the public file")
    try:
        public = load_public(config.public_path, config.schema_path or None, labels=config.public_label_column)
    except (FedkdError, OSError) as error:
        yield finding_of("public file", error)
    else:
        yield ready("public file", f"{config.public_path}: {size_of(public)}")
        if count := config.setting("known_rows", 0):
            yield _known_rows(public, count)
        short = short_fingerprint(public.fingerprint)
        way_out = f'Tell every party these digits by telephone, for its node config: public-fingerprint="{short}"'
        yield ready("fingerprint", short, way_out)
        yield from _models(config, public)
        yield from _ledger(config, public, root)
    if superlink is not None:
        show("the SuperLink")
        yield from _superlink(config, superlink)


def _known_rows(public: PublicSet, count: int) -> Finding:
    """Return whether the public file has the labels that the run is to judge by."""
    try:
        draw_known(public.truth, count, num_classes=public.num_classes, rng=np.random.default_rng(0))
    except FedkdError as error:
        return finding_of("known rows", error)
    labelled = (public.truth != ABSTAIN).sum()
    return ready("known rows", f"{labelled:,} rows have a label, {count:,} of them judge the parties")


def _models(config: RunConfig, public: PublicSet) -> Iterator[Finding]:
    """Yield whether the models that the run names can be made here; silos make theirs by themselves."""
    try:
        if "final" in config.card.roles:
            final_model(config, public)(seed=0)
        elif config.card.one_net:
            global_model(config, public)(seed=0).initialize()
        else:
            own = any(":" in name for name in config.names_of("model"))
            model_factory(pick_model(config.model, 0), public, of_run=not own)(seed=0)
    except FedkdError as error:
        yield finding_of("model", error)
    else:
        yield ready("model", f"{config.model} can be made here")


def _ledger(config: RunConfig, public: PublicSet, root: Path) -> Iterator[Finding]:
    if config.own.privacy != "server":
        return
    store = LedgerStore(root, party="server", data_digest=public.fingerprint)
    try:
        ledger = store.load()
        spent = spent_text(ledger.spent(config.setting("delta", 1e-5)), 4)
        yield ready("ledger", f"epsilon {spent} spent by this server's noise on these rows")
        plan = config.own.server_plan(public.num_rows, public.num_classes)  # type: ignore[attr-defined]
        budget = Budget(epsilon=config.server_epsilon_budget or math.inf, delta=config.setting("delta", 1e-5))
        store.ask(plan.events(), budget)
    except RefusalError as error:
        yield finding_of("budget", error)
    except FedkdError as error:
        yield finding_of("ledger", error)
    else:
        yield ready("budget", f"this run fits into epsilon {budget.epsilon:g}")


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
