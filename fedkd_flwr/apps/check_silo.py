"""Readiness of a silo: everything its node will need in a run, looked at where it lies, before anybody waits for it.

What stands in the private file is read here and goes nowhere: `Finding.private` marks what it decided.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.apps.assembly import make_client, output_root
from fedkd_flwr.apps.check import Finding, Level, check_disk, check_extras, exit_code, finding_of
from fedkd_flwr.apps.check_link import Link, check_link
from fedkd_flwr.apps.config import NodeConfig, RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.apps.ledger import read_ledger
from fedkd_flwr.apps.limits import Limits, limits_of
from fedkd_flwr.apps.models import model_factory, own_model
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import ModelFactory
from fedkd_flwr.data.columns import column_texts, short_list
from fedkd_flwr.data.public import PublicSet, require_same_set, short_fingerprint
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.shift import FEWEST_ROWS, Shift, column_differences, find_shift
from fedkd_flwr.data.tables import load_public, load_usable_rows, read_table, readable_rows, require_readable
from fedkd_flwr.errors import Code, ConfigError, FedkdError, LimitError, RefusalError, cause
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.stores.files import file_name

__all__ = ["Looked", "check_silo", "may_start"]

_FEW_ROWS = 50
_TELLING_AUC, _LITTLE_FIT, _NO_FIT = 0.9, 0.5, 0.2
_ELSEWHERE_AUC = 0.98
_TRIAL_S, _TRIAL_ROWS = 20.0, 1000
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
            public_table = read_table(
                node.public_path, label=public.schema.label, num_features=len(public.schema.columns)
            )
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
            table = read_table(
                node.data_path, label=schema.label, num_features=len(schema.columns), lenient=True, notes=notes
            )
        except Exception as error:
            subject = "rows" if isinstance(error, FedkdError) and error.code == Code.NO_ROWS else "private file"
            way_out = "Export the table once more, with its rows: one line of column names, then one line for each row."
            yield finding_of(subject, error, way_out=way_out, private=True)
            return
        what = f"{node.data_path}: {len(table):,} rows, {len(table.columns)} columns"
        yield Finding(subject="private file", level=Level.READY, what=what, private=True)
        yield _encoding(notes, node.data_path)
        columns = list(_columns(table, schema, node.data_path))
        yield from columns
        if schema.label in table.columns:
            yield from self._classes(table, schema)
        if exit_code(columns) >= Level.FAULT:
            return
        yield from _values(table, schema, node.data_path)
        held = load_usable_rows(node.data_path, public)
        usable = held.y >= 0
        X, y = held.X[usable], held.y[usable]
        yield from self._rows(y, schema)
        if len(y):
            yield from self._shift(X, public, table, public_table)
            yield from self._model(X, y, public)

    def _classes(self, table: pd.DataFrame, schema: Schema) -> Iterator[Finding]:
        """Yield whether each label is one of the schema's, and where it is not, in which rows."""
        texts = column_texts(table[schema.label])
        known = schema.known_labels(table[schema.label])
        empty = np.array([text is None for text in texts], dtype=bool)
        kept = f"{Path(self._node.data_path).stem}-labelled.csv"
        if empty.any():
            way_out = (
                f"Fill them in, or leave these rows out: {_python(self._node.data_path)}"
                f'.dropna(subset=[{schema.label!r}]).to_csv({kept!r}, index=False)"'
            )
            what = f"{_rows_words(empty)} without a label in column {schema.label!r}"
            yield Finding(subject="classes", level=Level.FAULT, what=what, way_out=way_out, private=True)
        if (~known & ~empty).any():
            strange, counts = np.unique(texts[~known & ~empty].astype(str), return_counts=True)
            near = {name: difflib.get_close_matches(name, schema.classes, n=1, cutoff=0.6) for name in strange[:5]}
            named = "; ".join(
                f"{name!r} in {count:,} rows{f' (did you mean {near[name][0]!r}?)' if near.get(name) else ''}"
                for name, count in list(zip(strange.tolist(), counts, strict=True))[:5]
            )
            what = f"column {schema.label!r} holds classes that the schema does not name: {named}"
            way_out = (
                f"The schema's classes are {short_list(schema.classes)}. Correct the rows; or, if it is a class of its "
                "own, have it added to schema.toml at the server and at every party."
            )
            yield Finding(subject="classes", level=Level.FAULT, what=what, way_out=way_out, private=True)
        if known.all():
            counts = schema_counts(texts, schema)
            held = sum(count > 0 for count in counts.values())
            what = f"{held} of {schema.num_classes} classes: " + ", ".join(
                f"{name} {count:,}" for name, count in list(counts.items())[:12]
            )
            yield Finding(subject="classes", level=Level.READY, what=what, private=True)

    def _rows(self, y: NDArray[np.int16], schema: Schema) -> Iterator[Finding]:
        counts = np.bincount(y, minlength=schema.num_classes) if len(y) else np.zeros(schema.num_classes, dtype=int)
        self.class_counts = dict(zip(schema.classes, counts.tolist(), strict=True))
        held = [(int(count), name) for name, count in self.class_counts.items() if count]
        least = f"; fewest of a class it holds: {min(held)[0]:,} ({min(held)[1]})" if held else ""
        what = f"{len(y):,} rows to learn from{least}"
        promised = self._node.rows_at_least
        if promised > len(y):
            way_out = f"Set rows-at-least={len(y) // 10 * 10} in the node config, or less. NFDP's claims rest on it."
            said = f"{what}, and rows-at-least says {promised:,}"
            yield Finding(subject="rows", level=Level.FAULT, what=said, way_out=way_out, private=True)
        elif len(y) < FEWEST_ROWS:
            way_out = f"Export more rows: {FEWEST_ROWS} at the very least, and some hundreds to be of use."
            yield Finding(subject="rows", level=Level.FAULT, what=what, way_out=way_out, private=True)
        elif len(y) < _FEW_ROWS or len(held) == 1:
            way_out = "Export more rows if there are any" + (", of other classes too." if len(held) == 1 else ".")
            yield Finding(subject="rows", level=Level.WARNING, what=what, way_out=way_out, private=True)
        else:
            yield Finding(subject="rows", level=Level.READY, what=what, private=True)

    def _shift(
        self, X: NDArray[Any], public: PublicSet, table: pd.DataFrame, public_table: pd.DataFrame
    ) -> Iterator[Finding]:
        if min(len(X), public.num_rows) < FEWEST_ROWS or not public.num_features or X.dtype.kind not in "fiu":
            return
        self.show("the shift from private to public rows")
        self.shift = shift = find_shift(X, public.X, rng=np.random.default_rng(0))
        if public.schema.shape is None:
            self.columns = column_differences(table, public_table, public.schema)
        what = f"AUC {shift.auc:.2f} (0.5: told apart by chance, 1: always), public set fit {shift.fit:.2f} (1: best)"
        apart = [f"{name!r} {distance:.2f}" for name, distance in self.columns[:3] if distance > 0.2]
        if apart:
            what += f"; most different columns: {', '.join(apart)}"
        level = Level.READY
        if shift.auc >= _ELSEWHERE_AUC and shift.fit < _NO_FIT:
            level = Level.FAULT
        elif shift.auc >= _TELLING_AUC or (shift.fit < _LITTLE_FIT and len(X) >= 10 * FEWEST_ROWS):
            level = Level.WARNING
        where = (
            f"Look at these columns in both files ({', '.join(n for n, d in self.columns[:3] if d > 0.2)}): "
            if (apart)
            else ""
        )
        way_out = (
            f"{where}units, codes and time spans must be the same. If they are, the public rows come from elsewhere: "
            "agree on public rows like yours. A party that holds few of the classes is told apart too, which does no "
            "harm. `fedkd check ... --page shift.html` draws each column."
        )
        yield Finding(subject="shift", level=level, what=what, way_out=way_out if level else "", private=True)

    # ---------------------------------------------------------------- model

    def _model(self, X: NDArray[Any], y: NDArray[np.int16], public: PublicSet) -> Iterator[Finding]:
        """Yield whether the model trains: on public rows with made-up labels first, which no private row decides."""
        node, run = self._node, self.run
        if run is None:
            return
        self.show("the model on a sample")
        spec, params = own_model(run, node)
        spec = pick_model(spec, derive_seed(0, node.party))
        name = f"model {spec}{f' ({params})' if params else ''}"
        change = f'In the node config: model="random-forest", or mend the code of {spec.partition(":")[0]}.'
        if ":" not in spec:
            change = "Name another model or other parameters in the node config: docs/your-model.md lists them."
        try:
            make = model_factory(spec, params, public)
            read = public.as_read_by(make(seed=0))
            made_up = np.arange(min(public.num_rows, 64)) % public.num_classes
            _trial(make, read.X[: len(made_up)], made_up.astype(np.int16), read.X[:64])
        except Exception as error:
            yield _model_fault(name, error, change, private=False)
            return
        order = np.random.default_rng(0).permutation(len(y))[:_TRIAL_ROWS]
        if read is not public:
            held = load_usable_rows(node.data_path, read)
            X = held.X[held.y >= 0]
        try:
            tried = _trial(make, X[order], y[order], read.X)
        except Exception as error:
            yield _model_fault(name, error, change, private=True)
            return
        what = f"{name} learns from {len(order):,} of the rows, and labels public rows"
        yield Finding(subject="model", level=Level.READY, what=what, private=True)
        yield self._time(tried, len(order), len(y))

    def _time(self, tried: Mapping[str, float], count: int, total: int) -> Finding:
        node = self._node
        seconds, memory = _estimate(tried, count, total)
        what = (
            f"about {seconds:,.1f} s and {memory / 1e6:,.0f} MB for one model of {total:,} rows, and its labels of the "
            f"public rows (measured on {count:,}); a run may train several"
        )
        limits = limits_of(node.round_limit_s, node.memory_limit_gb)
        if limits is not None and (0 < limits.seconds < seconds or (0 < limits.memory < memory)):
            way_out = (
                f"Raise round-limit-s (now {node.round_limit_s:g}) or memory-limit-gb in the node config, or name a "
                "smaller model."
            )
            return Finding(subject="time", level=Level.WARNING, what=what, way_out=way_out, private=True)
        return Finding(subject="time", level=Level.READY, what=what, private=True)

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
        elif (folder / "ledger.json").exists() or (folder / "head.json").exists():
            try:
                read = read_ledger(folder)
            except (FedkdError, OSError) as error:
                yield finding_of("ledger", error, way_out=restore)
                return
            spent = read.ledger.spent(node.delta_budget, read.rows)
            words = f"epsilon {spent:.4g} at delta {node.delta_budget:g}" if spent < math.inf else "no finite epsilon"
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
        from fedkd_flwr.apps.server_app import first_settings

        said = client.judge({**first_settings(run, client.party.public)})
        if said is None:
            yield Finding(
                subject="run", level=Level.READY, what=f"this party would answer its first round ({run.algorithm})"
            )
        else:
            yield finding_of("run", said)


def schema_counts(texts: NDArray[np.object_], schema: Schema) -> dict[str, int]:
    """Return how many of these labels are each class of the schema."""
    counts = np.bincount(schema.encode_labels(texts), minlength=schema.num_classes)
    return dict(zip(schema.classes, counts.tolist(), strict=True))


def _copy_again(error: Exception) -> str:
    if isinstance(error, FedkdError) and error.code == Code.MISSING_FILE:
        return "Correct public-path (or schema-path) in the node config; both files come from the coordinator."
    return ""


def _rows_words(chosen: NDArray[np.bool_]) -> str:
    return f"{int(chosen.sum()):,} of {len(chosen):,} rows (first: row {int(np.flatnonzero(chosen)[0]) + 1})"


def _python(path: str) -> str:
    """Return the start of a command that reads a CSV file."""
    return f"python -c \"import pandas as pd; pd.read_csv({path!r}, sep=None, engine='python', dtype=str)"


def _encoding(notes: Sequence[str], path: str) -> Finding:
    told = "; ".join(notes)
    if any("Windows-1252" in note or "UTF-16" in note for note in notes):
        name = Path(path)
        old = "utf-16" if "UTF-16" in told else "cp1252"
        way_out = (
            f"If names with umlauts or accents look wrong, save it as UTF-8: iconv -f {old} -t utf-8 "
            f"{shlex.quote(path)} > {shlex.quote(f'{name.stem}-utf8{name.suffix}')}"
        )
        return Finding(subject="encoding", level=Level.WARNING, what=told, way_out=way_out, private=True)
    return Finding(subject="encoding", level=Level.READY, what=told or "UTF-8, or a binary format", private=True)


def _columns(table: pd.DataFrame, schema: Schema, path: str) -> Iterator[Finding]:
    there = [str(name) for name in table.columns]
    wanted = [*schema.column_names, schema.label]
    missing = [name for name in wanted if name not in there]
    more = [name for name in there if name not in wanted]
    if not missing:
        known = f"all {len(schema.column_names)} of the schema, and the label {schema.label!r}"
        what = known + (f"; not used: {short_list(more)}" if more else "")
        yield Finding(subject="columns", level=Level.READY, what=what, private=True)
        return
    pairs = {}
    for name in missing:
        folded = {one.casefold(): one for one in more if one not in pairs.values()}
        if near := difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.7):
            pairs[name] = folded[near[0]]
    lone = [f"the label {name!r}" if name == schema.label else repr(name) for name in missing]
    what = f"{path} lacks {short_list(lone)}" + (f"; it has besides: {short_list(more)}" if more else "")
    rename = {old: new for new, old in pairs.items()}
    way_out = "Export the table with the schema's column names: " + short_list(wanted, 40)
    if rename and len(rename) == len(missing) and path.endswith((".csv", ".tsv")):
        out = f"{Path(path).stem}-renamed.csv"
        way_out = f'Rename them: {_python(path)}.rename(columns={rename!r}).to_csv({out!r}, index=False)"'
    yield Finding(subject="columns", level=Level.FAULT, what=what, way_out=way_out, private=True)


_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
_POINT = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)\.\d+")


def _values(table: pd.DataFrame, schema: Schema, path: str) -> Iterator[Finding]:
    """Yield which columns of numbers hold cells that are none as the schema has them: decimal commas, above all."""
    if readable_rows(table, schema).all():
        yield Finding(subject="values", level=Level.READY, what="all cells are as the schema has them", private=True)
        return
    for column in schema.columns:
        if column.kind != "numeric":
            continue
        bad = column.reading.parse(table[column.name])[1]
        if not bad.any():
            continue
        cells = table[column.name][bad].astype(str).str.strip()
        shown = ", ".join(repr(cell[:30]) for cell in cells.unique()[:3])
        what = f"column {column.name!r}: {_rows_words(bad)} hold no number as the schema has it: {shown}"
        other = "," if column.reading.decimal == "." else "."
        pattern = _COMMA if other == "," else _POINT
        if cells.map(lambda cell, rule=pattern: bool(rule.fullmatch(cell))).mean() > 0.5:
            sign = {",": "commas", ".": "points"}
            what = (
                f"column {column.name!r} has decimal {sign[other]} ({shown}) in {int(bad.sum()):,} of {len(bad):,} "
                f"rows; the schema's numbers have decimal {sign[column.reading.decimal]}"
            )
            out = f"{Path(path).stem}-{sign[column.reading.decimal]}.csv"
            command = (
                f"python -c \"import pandas as pd; pd.read_csv({path!r}, sep=None, engine='python', decimal={other!r})"
                f'.to_csv({out!r}, index=False, decimal={column.reading.decimal!r})"'
            )
            way_out = f"Export the table with decimal {sign[column.reading.decimal]}, or turn them: {command}"
        else:
            way_out = "Correct these cells, or leave these rows out. What a cell may be stands in schema.toml."
        yield Finding(subject="values", level=Level.FAULT, what=what, way_out=way_out, private=True)


# -------------------------------------------------------------------------------------------------------- the trial


def _trial(make: ModelFactory, X: NDArray[Any], y: NDArray[np.int16], X_public: NDArray[Any]) -> dict[str, float]:
    """Fit a model to some rows, and to half of them; let it label public rows; return seconds and bytes.

    In a process of its own that is ended after 20 s, where this system can fork.
    """

    def work() -> bytes:
        import resource

        def used() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        before, found = used(), {}
        for name, count in (("half", max(len(y) // 2, 1)), ("whole", len(y))):
            began = time.perf_counter()
            model = make(seed=0).fit(X[:count], y[:count])
            found[name] = time.perf_counter() - began
        began = time.perf_counter()
        model.predict(X_public)
        found |= {"labels": time.perf_counter() - began, "before": before, "memory": used() - before}
        return json.dumps(found).encode()

    if not hasattr(os, "fork"):
        model = make(seed=0).fit(X, y)
        model.predict(X_public)
        return {}
    usual = limits_of(_TRIAL_S, 0.0)
    limits = Limits(
        seconds=_TRIAL_S,
        memory=usual.memory if usual else 0,
        what=f"Learning from {len(y):,} rows",
        names=(f"the {_TRIAL_S:g} s of this trial", "three quarters of this machine's memory"),
        way_out="Name a smaller model in the node config.",
    )
    found: dict[str, float] = json.loads(limits(work))
    return found


def _estimate(tried: Mapping[str, float], count: int, total: int) -> tuple[float, float]:
    """Return seconds and bytes for all rows, from what some of them took: the power law that two sizes suggest.

    >>> _estimate({"half": 1.0, "whole": 2.0, "labels": 0.5, "before": 10.0, "memory": 5.0}, 100, 1000)
    (20.5, 60.0)
    """
    if not tried:
        return math.nan, math.nan
    times = total / max(count, 1)
    power = math.log2(max(tried["whole"], 1e-4) / max(tried["half"], 1e-4)) if tried["whole"] > 0.05 else 1.0
    seconds = tried["whole"] * times ** min(max(power, 0.5), 2.5) + tried["labels"]
    return seconds, tried["before"] + tried["memory"] * times


def _model_fault(name: str, error: Exception, change: str, *, private: bool) -> Finding:
    if isinstance(error, FedkdError) and error.code == Code.MISSING_EXTRA:
        return finding_of("extras", error, private=private)
    if isinstance(error, LimitError):
        return finding_of("time", error, way_out=change, private=private)
    what = f"{name} fails: {cause(error)}"
    return Finding(subject="model", level=Level.FAULT, what=what, way_out=change, private=private)
