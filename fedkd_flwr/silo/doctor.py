"""Readiness for a run: of a silo, whose client is built as in a run and asked what it would answer; and of a server.

What stands in the private file is read here and goes nowhere: `Finding.private` marks what it decided.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.app.assembly import make_client
from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.submit import FlowerError, flower
from fedkd_flwr.clients.base import PartyClient, try_model
from fedkd_flwr.clients.party import Party
from fedkd_flwr.data.columns import canonical, column_texts, short_list
from fedkd_flwr.data.datasets import row_hashes
from fedkd_flwr.data.formats import require_readable
from fedkd_flwr.data.public import PublicSet, short_fingerprint
from fedkd_flwr.data.schema import Column
from fedkd_flwr.data.shift import FEWEST_ROWS, column_differences, find_shift
from fedkd_flwr.data.tables import load_public, read_table
from fedkd_flwr.errors import Code, ConfigError, FedkdError, LimitError, cause, explain
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.filter import spent_text
from fedkd_flwr.processes.limits import limits_of
from fedkd_flwr.settings.config import RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.settings.node_config import NodeConfig
from fedkd_flwr.silo.check import Finding, Level, check_disk, exit_code, fault, finding_of, ready, warning
from fedkd_flwr.silo.check_link import Link, check_link
from fedkd_flwr.silo.ledger import read_ledger
from fedkd_flwr.stores.book import FILE, HEAD
from fedkd_flwr.stores.files import file_name

__all__ = ["check_server", "check_silo", "may_start"]

_FEW_ROWS = 40
_ELSEWHERE_AUC, _NO_FIT, _TELLING_AUC, _LITTLE_FIT = 0.98, 0.2, 0.9, 0.5
_MANY_UNKNOWN = 0.05  # of the cells of a column, of no category of the schema
_AGREED = "public-fingerprint"
_LINK = ("address", "certificate", "clock")


def may_start(findings: Sequence[Finding]) -> bool:
    """Tell whether a node with these findings may come online.

    Not with a fault that no private row decided: it would answer nobody. What private rows decided must not show as a
    node that stays away, because a later run may claim privacy for these rows. Nor does a link that fails keep it:
    the node tries again by itself.
    """
    return exit_code(one for one in findings if not one.private and one.subject not in _LINK) < Level.FAULT


def check_silo(
    values: Mapping[str, Any], *, link: Link | None = None, show: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """Look at a silo, by its node config, and at its way to a SuperLink. ``show``: gets a word at each step."""
    return [*_silo(values, show), *(check_link(link) if link is not None else ())]


def _silo(values: Mapping[str, Any], show: Callable[[str], None]) -> Iterator[Finding]:
    try:
        node = parse_node_config(values)
        if node.simulated:
            raise ConfigError("This node config has no data-path: it is that of a simulated party, and no silo's.")
        root = output_root(node.state_dir, "state-dir")
        limits_of(node.round_limit_s, node.memory_limit_gb)
        run = parse_run_config({"public-path": node.public_path})
    except (FedkdError, ValueError) as error:
        yield finding_of("settings", error)
        return
    yield ready("settings", f"party {node.party}, {len(values)} settings")
    show("the public file")
    way_out = "Correct public-path (or schema-path) in the node config; both files come from the coordinator."
    public, found = _public(node.public_path, node.schema_path, way_out)
    yield found
    if public is None:
        return
    show("the private file and the model")
    client: PartyClient | None = None
    try:
        require_readable(node.data_path)
        client = make_client(run, node, "check")
    except Exception as error:  # what no private row decides
        yield finding_of(_subject(error, "model"), error)
    else:
        yield _fingerprint(node, public)
        if lacks := client.party.public.lacks:
            yield ready("values", f"it lacks {', '.join(lacks)}, learns and votes without, and tells the server so")
        yield from _rows(node, client.party, client.party.public)
        yield from _model(client)
    yield check_disk(root, "state-dir")
    yield from _ledger(node, root, client)


def _public(path: str, schema: str, way_out: str = "", labels: str = "") -> tuple[PublicSet | None, Finding]:
    """Return the public set, None for a file that cannot be used, and what is said of it."""
    try:
        public = load_public(path, schema or None, labels=labels)
    except (FedkdError, OSError) as error:
        return None, finding_of("public file", error, way_out)
    size = f"{public.num_rows:,} rows, {len(public.schema.column_names)} columns, {public.num_classes} classes"
    return public, ready("public file", f"{path}: {size}")


def _subject(error: Exception, otherwise: str) -> str:
    """Return the code of an error, which the server is told, as words; `finding_of` says what and the way out."""
    told = isinstance(error, FedkdError) and error.code != Code.WRONG_DATA
    return error.code.value.replace("-", " ") if told else otherwise  # type: ignore[attr-defined]


def _fingerprint(node: NodeConfig, public: PublicSet) -> Finding:
    short = short_fingerprint(public.fingerprint)
    if node.public_fingerprint:
        return ready("fingerprint", f"{short}, as agreed")
    way_out = f'Compare them by telephone with those at the server; then, in the node config: {_AGREED}="{short}"'
    return ready("fingerprint", short, way_out)


def _rows(node: NodeConfig, party: Party, public: PublicSet) -> Iterator[Finding]:
    """Yield what the private rows are good for."""
    if party.fault is not None:
        yield finding_of(_subject(party.fault, "private file"), party.fault, private=True)
    else:
        yield ready("private file", f"{node.data_path}: each row can be used", private=True)
    held = np.unique(party.y)
    what, level, way_out = f"{len(party.y):,} rows to learn from, of {len(held)} classes", Level.READY, ""
    if node.rows_at_least > len(party.y):
        level, what = Level.FAULT, f"{what}, and rows-at-least says {node.rows_at_least:,}"
        way_out = f"Set rows-at-least={len(party.y) // 10 * 10} in the node config, or less. NFDP's claims rest on it."
    elif len(party.y) < _FEW_ROWS or len(held) == 1:
        level = Level.FAULT if len(party.y) < FEWEST_ROWS and party.fault is None else Level.WARNING
        way_out = f"Export more rows, of other classes too: {FEWEST_ROWS} at the least, some hundreds to be of use."
    yield Finding(level, "rows", what, way_out, private=True)
    yield from _copies(row_hashes(party.X), row_hashes(public.X))
    if min(len(party.X), public.num_rows) >= FEWEST_ROWS and public.num_features and party.X.dtype.kind in "fiu":
        columns = []
        if public.schema.shape is None:
            own, shared = (read_table(path, public.schema, lenient=True) for path in (node.data_path, node.public_path))
            columns = column_differences(own, shared, public.schema)
            for column in public.schema.columns:
                yield from _cells(column, list(column_texts(own[column.name], column.reading.missing)))
        yield _shift(party, public, [f"{name!r} {apart:.2f}" for name, apart in columns[:3] if apart > 0.2])


def _copies(own: NDArray[Any], shared: NDArray[Any]) -> Iterator[Finding]:
    """Yield whether public rows are private ones: many more of them equal one than rows of a kind equal by chance."""
    copied = int(np.isin(shared, own).sum())
    if copied > (1.5 - len(np.unique(own)) / max(len(own), 1)) * len(shared):
        way_out = "Everybody reads them, and a model tells the true labels of rows that it learnt: agree on other rows."
        yield warning(
            "copies", f"{copied:,} of {len(shared):,} public rows are private rows too", way_out, private=True
        )


def _cells(column: Column, texts: Sequence[str | None]) -> Iterator[Finding]:
    """Yield what is wrong with a column of the private file."""
    if all(text is None for text in texts):
        way_out = f'If it is never filled in, name it in the node config: lacks="{column.name}"'
        yield warning("values", f"column {column.name!r} holds no value in any row", way_out, private=True)
    elif column.kind == "categorical":
        strange = [text for text in texts if text is not None and text not in {*map(canonical, column.categories)}]
        if len(strange) > _MANY_UNKNOWN * sum(text is not None for text in texts):
            shown = short_list([repr(text[:30]) for text in dict.fromkeys(strange)], 3)
            what = f"column {column.name!r}: {len(strange):,} cells of no category count as empty: {shown}"
            names = short_list([repr(one) for one in column.categories], 5)
            way_out = f"The schema names {names}. Write the cells so, or have the values added to schema.toml."
            yield warning("values", what, way_out, private=True)


def _shift(party: Party, public: PublicSet, apart: Sequence[str]) -> Finding:
    """Return how far the private rows are from the public ones."""
    shift = find_shift(party.X, public.X, rng=np.random.default_rng(0))
    what = f"AUC {shift.auc:.2f} (0.5: told apart by chance, 1: always), public set fit {shift.fit:.2f} (1: best)"
    what += f"; most different columns: {', '.join(apart)}" if apart else ""
    if shift.auc < _TELLING_AUC and (shift.fit >= _LITTLE_FIT or len(party.X) < 200):
        return ready("shift", what, private=True)
    way_out = (
        "Units, codes and time spans must be the same in both files. If they are, the public rows come from elsewhere: "
        "agree on public rows like yours. A party that holds few of the classes is told apart too, which does no harm."
    )
    far = shift.auc >= _ELSEWHERE_AUC and shift.fit < _NO_FIT
    return Finding(Level.FAULT if far else Level.WARNING, "shift", what, way_out, private=True)


def _model(client: PartyClient) -> Iterator[Finding]:
    """Yield whether the model learns from public rows with made-up labels: no private row decides that."""
    name = f"model {client.party.model_name}"
    try:
        try_model(client.party)
    except Exception as error:
        way_out = 'Name another in the node config, such as model="random-forest", or correct its code.'
        if isinstance(error, LimitError) or (isinstance(error, FedkdError) and error.code == Code.MISSING_EXTRA):
            yield finding_of(_subject(error, "model"), error, way_out)
        else:
            yield fault("model", f"{name} fails: {cause(error)}", way_out)
    else:
        yield ready("model", f"{name} learns, and labels public rows")


def _ledger(node: NodeConfig, root: Path, client: PartyClient | None) -> Iterator[Finding]:
    """Yield what was spent on these rows, and whether something is left."""
    folder = root / "ledgers" / file_name(node.party)
    what = "nothing has been charged yet"
    if (folder / FILE).exists() or (folder / HEAD).exists():
        try:
            read = read_ledger(folder)
        except (FedkdError, OSError) as error:
            restore = f"Restore {folder} from a backup, and have a look: fedkd node ledger {shlex.quote(str(root))}"
            yield finding_of("ledger", error, restore)
            return
        spent = spent_text(read.ledger.spent(node.delta_budget, read.rows), 4)
        replies = sum(entry.server_round > 0 for entry in read.ledger.entries)
        what = f"epsilon {spent} at delta {node.delta_budget:g} spent so far, {replies} charged replies"
    yield ready("ledger", what)
    if not node.demands_privacy:
        what = "none: runs with and without noise are answered, and nothing bounds what all of them tell"
        yield ready("budget", what)
    elif node.epsilon_budget == math.inf:
        what = "require-privacy is set without epsilon-budget: any noise is accepted, however little"
        yield warning("budget", what, "Set the most that may ever be spent: epsilon-budget=3.3 delta-budget=1e-5")
    elif client is not None:
        try:
            client.party.ledger.ask([(PureEvent(1e-3 * node.epsilon_budget), 1)], client.party.budget)
        except FedkdError as error:
            yield finding_of("budget" if error.code == Code.BUDGET_EXCEEDED else "ledger", error)
        else:
            what = f"epsilon {node.epsilon_budget:g} at delta {node.delta_budget:g}, of which something is left"
            yield ready("budget", what)


def check_server(
    values: Mapping[str, Any], *, superlink: str | None = None, show: Callable[[str], None] = lambda _: None
) -> list[Finding]:
    """Look at what a run with real silos needs at the server.

    ``superlink``: its name in Flower's configuration, "" for the default; None: it is not asked.
    """
    try:
        config = parse_run_config(values)
        root = output_root(config.output_dir)
        if not config.public_path:
            way_out = "A simulation tries its data and models itself before its first round: fedkd simulate"
            raise ConfigError(explain("public-path", "be given for a check", "", way_out))
    except FedkdError as error:
        return [finding_of("settings", error)]
    findings = [ready("settings", f"{config.algorithm}, {config.rounds} round{'s' * (config.rounds != 1)}")]
    show("the public file")
    public, found = _public(config.public_path, config.schema_path, labels=config.public_label_column)
    findings.append(found)
    if public is not None:
        short = short_fingerprint(public.fingerprint)
        way_out = f'Tell every party these digits by telephone, for its node config: {_AGREED}="{short}"'
        findings.append(ready("fingerprint", short, way_out))
    if superlink is not None:
        show("the SuperLink")
        findings += _superlink(config, superlink)
    return [*findings, check_disk(root, "output-dir")]


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
    few = warning("nodes", what, "Ask the missing silos to start their nodes.")
    yield few if online < wanted else ready("nodes", what)
