"""Readiness of a silo: everything its node will need in a run, looked at where it lies, before anybody waits for it.

What stands in the private file is read here and goes nowhere: `Finding.private` marks what it decided.
"""

from __future__ import annotations

import difflib
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedkd_flwr.app.assembly import make_client, refuse_foreign_algorithm
from fedkd_flwr.app.output import output_root
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.data.formats import require_readable
from fedkd_flwr.data.public import PublicSet, require_same_set, short_fingerprint
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.shift import FEWEST_ROWS, Shift, column_differences, find_shift
from fedkd_flwr.data.tables import load_public, load_usable_rows, read_table
from fedkd_flwr.errors import Code, ConfigError, FedkdError, RefusalError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.filter import spent_text
from fedkd_flwr.processes.limits import limits_of
from fedkd_flwr.settings.config import RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.settings.node_config import NodeConfig
from fedkd_flwr.silo.check import Finding, Level, check_disk, check_extras, exit_code, finding_of
from fedkd_flwr.silo.check_link import Link, check_link
from fedkd_flwr.silo.check_model import check_model
from fedkd_flwr.silo.check_rows import (
    check_classes,
    check_columns,
    check_encoding,
    check_rows,
    check_shift,
    check_values,
    count_classes,
)
from fedkd_flwr.silo.ledger import read_ledger
from fedkd_flwr.stores.book import FILE, HEAD
from fedkd_flwr.stores.files import file_name

__all__ = ["Looked", "check_silo", "may_start"]

_LITTLE_LEFT = 0.1  # of a budget
_RUN_ID = "check"


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a look at a silo gave.

    Parameters
    ----------
    findings : sequence of Finding
    class_counts : mapping of str to int
        Usable private rows of each class; empty where they could not be read.
    shift : Shift, optional
        How far the private rows are from the public ones.
    columns : sequence of (str, float)
        How differently each column is filled, the most different first (`column_differences`).
    """

    findings: Sequence[Finding]
    class_counts: Mapping[str, int]
    shift: Shift | None = None
    columns: Sequence[tuple[str, float]] = ()


def may_start(findings: Sequence[Finding]) -> bool:
    """Tell whether a node with these findings may come online.

    Not with a fault that no private row decided: it would answer nobody. What private rows decided must not show as a
    node that stays away, because a later run may claim privacy for these rows; such a node answers that it is not ready
    where it may, and with the rows that it can use where a run claims privacy. Nor does a link that fails keep it:
    Flower tries again by itself.
    """
    link = ("address", "certificate", "clock", "key")
    return exit_code(one for one in findings if not one.private and one.subject not in link) < Level.FAULT


def check_silo(
    values: Mapping[str, Any],
    *,
    link: Link | None = None,
    run: Mapping[str, Any] | None = None,
    show: Callable[[str], None] = lambda _: None,
) -> Looked:
    """Look at a silo.

    Parameters
    ----------
    values : mapping
        Its node config, by key.
    link : Link, optional
        The way to its SuperLink.
    run : mapping, optional
        The settings of a run that it is to take part in, by key.
    show : callable
        Gets a word at each step, for a progress line.
    """
    silo = _Silo(values, run, show)
    findings = list(silo.look())
    if link is not None:
        show("the way to the SuperLink")
        findings += check_link(link)
    return Looked(findings=findings, class_counts=silo.class_counts, shift=silo.shift, columns=silo.columns)


class _Silo:
    """One look, step by step; what a step finds out serves those after it."""

    def __init__(self, values: Mapping[str, Any], run: Mapping[str, Any] | None, show: Callable[[str], None]) -> None:
        self.values, self.run_values, self.show = values, run, show
        self.class_counts: dict[str, int] = {}
        self.shift: Shift | None = None
        self.columns: list[tuple[str, float]] = []
        self.node: NodeConfig | None = None
        self.run: RunConfig | None = None

    def look(self) -> Iterator[Finding]:
        yield from self._settings()
        if self.node is None or self.run is None:
            return
        node = self.node
        self.show("the public file")
        try:
            public = load_public(node.public_path, node.schema_path or None, labels=self.run.public_label)
            public_table = read_table(node.public_path, public.schema)
        except (FedkdError, OSError) as error:
            yield finding_of("public file", error, way_out=_copy_again(error))
            yield from self._private_file(None)
        else:
            yield from self._public(public)
            yield from self._private(public, public_table)
        yield check_extras()
        yield check_disk(output_root(node.state_dir, "state-dir"), "state-dir")
        self.show("the ledger")
        yield from self._ledger()

    # ---------------------------------------------------------------- settings, public file

    def _settings(self) -> Iterator[Finding]:
        try:
            node = parse_node_config(self.values)
            if node.simulated:
                raise ConfigError("This node config has no data-path: it is that of a simulated party, and no silo's.")
            output_root(node.state_dir, "state-dir")
            limits_of(node.round_limit_s, node.memory_limit_gb)
        except (FedkdError, ValueError) as error:
            yield finding_of("settings", error)
            return
        try:
            refuse_foreign_algorithm((self.run_values or {}).get("algorithm"), node)
            run = parse_run_config(self.run_values or {"public-path": node.public_path})
        except FedkdError as error:
            yield replace(finding_of("run", error), what=f"the run's settings: {error}")
            return
        self.node, self.run = node, run
        yield Finding(subject="settings", level=Level.READY, what=f"party {node.party}, {len(self.values)} settings")

    def _public(self, public: PublicSet) -> Iterator[Finding]:
        node = self._node
        size = f"{public.num_rows:,} rows, {len(public.schema.column_names)} columns, {public.num_classes} classes"
        yield Finding(subject="public file", level=Level.READY, what=f"{node.public_path}: {size}")
        short = short_fingerprint(public.fingerprint)
        if not node.public_fingerprint:
            way_out = (
                "Compare these digits by telephone with those of `fedkd check` at the server, and put them into the "
                f'node config: public-fingerprint="{short}"'
            )
            yield Finding(subject="fingerprint", level=Level.READY, what=short, way_out=way_out)
            return
        try:
            require_same_set(public.fingerprint, node.public_fingerprint)
        except FedkdError as error:
            yield finding_of("fingerprint", error)
        else:
            yield Finding(subject="fingerprint", level=Level.READY, what=f"{short}, as agreed")

    @property
    def _node(self) -> NodeConfig:
        if self.node is None:
            raise RuntimeError("settings come first")
        return self.node

    # ---------------------------------------------------------------- private file

    def _private_file(self, schema: Schema | None) -> Iterator[Finding]:
        """Yield whether the file can be read at all."""
        path = self._node.data_path
        try:
            size = len(require_readable(path))
        except FedkdError as error:
            near = difflib.get_close_matches(
                Path(path).name, [one.name for one in Path(path).parent.glob("*")], n=1, cutoff=0.5
            )
            hint = f"Correct data-path in the node config{f'; did you mean {near[0]}?' if near else '.'}"
            yield finding_of("private file", error, way_out=hint)
            return
        if schema is None:
            yield Finding(subject="private file", level=Level.READY, what=f"{path}: {size:,} bytes, not looked at")

    def _private(self, public: PublicSet, public_table: pd.DataFrame) -> Iterator[Finding]:
        node, schema = self._node, public.schema
        self.show("the private file")
        faults = list(self._private_file(schema))
        yield from faults
        if faults:
            return
        if node.label and node.label != schema.label:
            way_out = f'Set label="{schema.label}" in the node config, or leave it out.'
            what = f"label must be the schema's label column {schema.label!r}, got {node.label!r}"
            yield Finding(subject="settings", level=Level.FAULT, what=what, way_out=way_out)
        notes: list[str] = []
        try:
            table = read_table(node.data_path, schema, notes=notes)
        except Exception as error:
            subject = "rows" if isinstance(error, FedkdError) and error.code == Code.NO_ROWS else "private file"
            way_out = "Export the table once more, with its rows: one line of column names, then one line for each row."
            yield finding_of(subject, error, way_out=way_out, private=True)
            return
        what = f"{node.data_path}: {len(table):,} rows, {len(table.columns)} columns"
        yield Finding(subject="private file", level=Level.READY, what=what, private=True)
        yield check_encoding(notes, node.data_path)
        yield (columns := check_columns(table, schema, node.data_path))
        if schema.label in table.columns:
            yield from check_classes(table, schema, node.data_path)
        if columns.level < Level.FAULT:
            yield from self._cells(table, public, public_table)

    def _cells(self, table: pd.DataFrame, public: PublicSet, public_table: pd.DataFrame) -> Iterator[Finding]:
        """Yield what the rows that can be used are good for."""
        node, schema = self._node, public.schema
        cells = list(check_values(table, schema, node.data_path))
        yield from cells
        held = load_usable_rows(node.data_path, public)
        X, y = held.X[held.y >= 0], held.y[held.y >= 0]
        if not len(y) and exit_code(cells) >= Level.FAULT:  # which says why there are none
            return
        self.class_counts = count_classes(y, schema)
        yield check_rows(self.class_counts, node.rows_at_least)
        if min(len(X), public.num_rows) >= FEWEST_ROWS and public.num_features and X.dtype.kind in "fiu":
            self.show("the shift from private to public rows")
            self.shift = find_shift(X, public.X, rng=np.random.default_rng(0))
            if schema.shape is None:
                self.columns = column_differences(table, public_table, schema)
            yield check_shift(self.shift, self.columns, len(X))
        if len(y) and self.run is not None:
            self.show("the model on a sample")
            yield from check_model(node, self.run, public)

    # ---------------------------------------------------------------- ledger, budget, run

    def _ledger(self) -> Iterator[Finding]:
        node, run = self._node, self.run
        if run is None:
            return
        root = output_root(node.state_dir, "state-dir")
        folder = root / "ledgers" / file_name(node.party)
        restore = f"Restore {folder} from a backup, and have a look: fedkd ledger {shlex.quote(str(root))}"
        if not folder.exists():
            yield Finding(subject="ledger", level=Level.READY, what=f"none in {root} yet: nothing has been charged")
        elif (folder / FILE).exists() or (folder / HEAD).exists():
            try:
                read = read_ledger(folder)
            except (FedkdError, OSError) as error:
                yield finding_of("ledger", error, way_out=restore)
                return
            spent = read.ledger.spent(node.delta_budget, read.rows)
            words = (
                f"epsilon {spent_text(spent, 4)} at delta {node.delta_budget:g}"
                if spent < math.inf
                else "no finite epsilon"
            )
            replies = sum(entry.server_round > 0 for entry in read.ledger.entries)
            what = f"{words} spent so far, {replies} charged repl{'y' if replies == 1 else 'ies'}"
            yield Finding(subject="ledger", level=Level.READY, what=what)
            if late := read.ledger.from_the_future(datetime.now(UTC)):
                what = f"{len(late)} entries of the ledger are dated in the future, the last {late[-1].when}"
                way_out = (
                    "A clock was wrong then, or is wrong now: `timedatectl` says; timedatectl set-ntp true sets it."
                )
                yield Finding(subject="clock", level=Level.WARNING, what=what, way_out=way_out)
        else:
            yield Finding(subject="ledger", level=Level.READY, what=f"{folder}: nothing has been charged yet")
        client = None
        try:
            client = make_client(run, node, _RUN_ID)
        except Exception:  # which is a finding of its own above: files, public set, model, settings
            client = None
        yield from self._budget(client)
        if self.run_values is not None and client is not None:
            yield from self._takes_part(client, run)

    def _budget(self, client: PartyClient | None) -> Iterator[Finding]:
        node = self._node
        if not node.demands_privacy:
            what = "none: runs with and without noise are answered, and nothing bounds what all of them tell"
            yield Finding(subject="budget", level=Level.READY, what=what)
            return
        if node.epsilon_budget == math.inf:
            what = "require-privacy is set without epsilon-budget: any noise is accepted, however little"
            way_out = "Set the most that may ever be spent: epsilon-budget=3.3 delta-budget=1e-5"
            yield Finding(subject="budget", level=Level.WARNING, what=what, way_out=way_out)
            return
        limit = f"epsilon {node.epsilon_budget:g} at delta {node.delta_budget:g}"
        ledger = client.party.ledger if client is not None else None
        if ledger is None or client is None:
            what = f"{limit}; what is left is known once the faults above are mended"
            yield Finding(subject="budget", level=Level.READY, what=what)
            return
        way_out = (
            f"Look at what was spent: fedkd ledger {shlex.quote(str(output_root(node.state_dir, 'state-dir')))} "
            f"--epsilon-budget {node.epsilon_budget:g}. Then raise epsilon-budget in the node config, take part with "
            "other rows, or leave the federation."
        )
        for share, level, words in (
            (1e-3, Level.FAULT, "is spent"),
            (_LITTLE_LEFT, Level.WARNING, "has less than a tenth left"),
        ):
            try:
                ledger.ask([(PureEvent(share * node.epsilon_budget), 1)], client.party.budget)
            except RefusalError as error:
                if error.code != Code.BUDGET_EXCEEDED:
                    yield finding_of("ledger", error)
                    return
                yield Finding(subject="budget", level=level, what=f"{limit} {words}", way_out=way_out)
                return
            except FedkdError as error:
                yield finding_of("ledger", error)
                return
        yield Finding(subject="budget", level=Level.READY, what=f"{limit}, of which a tenth or more is left")

    def _takes_part(self, client: PartyClient, run: RunConfig) -> Iterator[Finding]:
        from fedkd_flwr.app.server_app import first_settings

        said = client.judge({**first_settings(run, client.party.public)})
        if said is None:
            yield Finding(
                subject="run", level=Level.READY, what=f"this party would answer its first round ({run.algorithm})"
            )
        else:
            yield finding_of("run", said)


def _copy_again(error: Exception) -> str:
    if isinstance(error, FedkdError) and error.code == Code.MISSING_FILE:
        return "Correct public-path (or schema-path) in the node config; both files come from the coordinator."
    return ""
