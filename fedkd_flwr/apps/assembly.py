"""From checked settings to objects: pools, parties, models, clients and strategies.

In simulation every process loads the data set itself, once, and derives the same split and the same parties from the
run's seed; nobody is told anything over the wire.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.algorithms.density_vote import DENSITY_RATIO
from fedkd_flwr.apps.config import TABLE_RULES, NodeConfig, RunConfig
from fedkd_flwr.apps.find_run import OUTPUT, find_checkpoint
from fedkd_flwr.apps.limits import Limits, limits_of
from fedkd_flwr.apps.models import check_role, final_model, global_model, model_factory, own_model, party_roles
from fedkd_flwr.apps.owner import owners_page
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.egress import Egress
from fedkd_flwr.clients.party import OwnRows, Party
from fedkd_flwr.data.datasets import Pool, load_pool
from fedkd_flwr.data.look import Rules
from fedkd_flwr.data.own_columns import OwnColumns
from fedkd_flwr.data.partitioning import partition, read_split
from fedkd_flwr.data.public import PublicLabels, PublicSet, require_same_set
from fedkd_flwr.data.row_values import row_form, usable_row_values
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import load_public, load_usable_rows, read_table, require_readable
from fedkd_flwr.errors import ConfigError, DataError, RefusalError, explain
from fedkd_flwr.metrics import NAMES
from fedkd_flwr.models.serialize import import_skops
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.ledger.rows import PrivateRows
from fedkd_flwr.processes import still_runs
from fedkd_flwr.run_record import RunRecord
from fedkd_flwr.seeds import derive_rng, derive_seed
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.stores.files import node_secret
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.stores.subset import SubsetStore
from fedkd_flwr.strategies.base import Collaborators, ExchangeStrategy
from fedkd_flwr.strategies.waiting import Readiness

__all__ = [
    "central_rows",
    "check_simulation",
    "continued",
    "estimated_sensitivity",
    "first_run",
    "held_out_rows",
    "make_client",
    "make_strategy",
    "output_root",
    "party_class_counts",
    "party_name",
    "party_own_columns",
    "party_sizes",
    "refuse_foreign_algorithm",
    "refuse_foreign_code",
    "simulated_pool",
]

logger = logging.getLogger("flwr.party")

Rows = tuple[NDArray[Any], NDArray[np.int16]]


def output_root(text: str, key: str = "output-dir") -> Path:
    """Return the absolute folder for results that setting ``key`` names; ``~/.fedkd`` where it is empty.

    Raises
    ------
    ConfigError
        If the path is relative: a SuperLink's working directory is not the user's.
    """
    root = Path(text or OUTPUT).expanduser()
    if not root.is_absolute():
        raise ConfigError(explain(key, "be an absolute path", text, f"Write {root.absolute()} if you mean that."))
    return root


def continued(config: RunConfig) -> Path | None:
    """Return the folder with the checkpoint of the run that this one continues; None where it continues none.

    Raises
    ------
    ConfigError, DataError
        If there is no such run or checkpoint, it still goes on, or a simulation's parties keep their state in another
        ``output-dir``.
    """
    return _checkpoint(config.resume_from, config.output_dir, not config.public_path) if config.resume_from else None


@lru_cache(maxsize=4)
def _checkpoint(text: str, output_dir: str, simulated: bool) -> Path:
    folder, root = find_checkpoint(text, output_root(output_dir)), output_root(output_dir)
    if simulated and folder.parents[2] != root:
        way_out = f"The parties' state lies there: give output-dir={folder.parents[2]}"
        raise ConfigError(explain("output-dir", "be that of the run to continue", str(root), way_out))
    with suppress(DataError):  # a checkpoint may lie without a record
        record = RunRecord.load(folder.with_name("record.json"))
        other = record.process is not None and record.process.pid != os.getpid()
        if record.status == "running" and other and still_runs(record.process):
            seen = f"{record.run_id}, which still goes on"
            way_out = f"Stop it first (fedkd stop {record.run_id}), or let it end."
            raise ConfigError(explain("resume-from", "name a run that has ended", seen, way_out))
    return folder


@lru_cache(maxsize=4)
def first_run(config: RunConfig, run_id: str) -> str:
    """Return the id of the first of the runs that this one continues: a simulation's ledgers are in its folder."""
    folder = continued(config)
    return run_id if folder is None else Lineage.load(folder).runs[0]


@lru_cache(maxsize=1)
def simulated_pool(config: RunConfig) -> Pool:
    """Load and split the data set of a simulation."""
    rows = read_split(config.partition_path, config.partition_index) if config.partitioner == "file" else None
    pool = load_pool(
        config.dataset,
        data_root=config.data_root,
        seed=config.seed,
        num_public=config.num_public,
        num_test=config.num_test,
        num_private=config.num_private,
        public_from=config.public_from,
        synthetic_rows=config.synthetic_rows,
        synthetic_features=config.synthetic_features,
        synthetic_classes=config.synthetic_classes,
        table=config.table,
        label=config.label,
        schema_path=config.schema_path,
        rows=rows or None,
        label_space=config.label_space,
        rules=_table_rules(config),
        command=_other_words(config),
        rare=config.num_parties,
        own_share=config.own_column_share,
    )
    return _with_public_labels(pool, config.public_label) if config.public_label else pool


def _table_rules(config: RunConfig) -> Rules:
    """Return what the run says about a user's table."""
    drop, missing = (tuple(filter(None, map(str.strip, text.split(",")))) for text in (config.drop, config.missing))
    return Rules(
        id_column=config.id_column,
        drop=drop,
        missing=missing,
        decimal=config.decimal,
        dates=config.dates,
        limits=config.limits,
    )


def _other_words(config: RunConfig) -> list[str]:
    """Return the settings of this run that say nothing about its table, as words of a command."""
    table = {config.keys()[name] for name in ("dataset", "table", "label", *TABLE_RULES)}
    values = config.as_scalars()
    changed = {key: values[key] for key in config.changed_keys() if key not in table}
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in changed.items()]


def _with_public_labels(pool: Pool, name: str) -> Pool:
    """Let everybody learn from the public rows' own truth, where the run says that they are labelled."""
    public = pool.public
    if name != public.schema.label or public.y is None:
        rule = f"be the label column {public.schema.label!r} of the data set"
        way_out = "Sets with public rows of another data set bring their labels: leave it empty."
        raise ConfigError(explain("public-label", rule, name, way_out))
    labels = PublicLabels(y=public.y, num_classes=public.num_classes, of_schema=True)
    return replace(pool, public=replace(public, labels=labels))


@lru_cache(maxsize=1)
def _dealt(config: RunConfig, num_parties: int) -> list[NDArray[np.int64]]:
    pool = simulated_pool(config)
    return partition(
        pool.y,
        name=config.partitioner,
        num_parties=num_parties,
        seed=config.seed,
        alpha=config.dirichlet_alpha,
        classes_per_party=config.classes_per_party,
        shards_per_party=config.shards_per_party,
        min_rows=config.min_party_rows,
        class_order=config.class_order,
        path=config.partition_path,
        index=config.partition_index,
        rows=pool.rows,
    )


def party_name(partition_id: int) -> str:
    """Return the name of a simulated party.

    >>> party_name(7)
    'party-007'
    """
    return f"party-{partition_id:03d}"


def _hold_out(seed: int, party: str, positions: NDArray[np.int64], fraction: float) -> tuple[Any, Any]:
    """Split a party's rows into training and own test rows: by position under a random permutation."""
    order = derive_rng(seed, party, "own-test").permutation(positions)
    count = max(min(round(fraction * len(order)), len(order) - 1), 0)
    return order[count:], order[:count]


def party_sizes(config: RunConfig, num_parties: int) -> list[int]:
    """Return how many rows each simulated party holds."""
    return [len(positions) for positions in _dealt(config, num_parties)]


def party_class_counts(config: RunConfig, num_parties: int) -> dict[str, list[int]]:
    """Return how many rows of each class each simulated party holds, its own test rows among them."""
    pool = simulated_pool(config)
    return {
        party_name(i): np.bincount(pool.y[positions], minlength=pool.public.num_classes).tolist()
        for i, positions in enumerate(_dealt(config, num_parties))
    }


@lru_cache(maxsize=128)
def _data_digest(config: RunConfig, num_parties: int, index: int) -> str:
    """Return what names a simulated party's rows; a process is asked for the same parties in every round."""
    pool, positions = simulated_pool(config), _dealt(config, num_parties)[index]
    return hashlib.sha256(pool.X[positions].tobytes() + pool.y[positions].tobytes()).hexdigest()


def party_own_columns(config: RunConfig, num_parties: int) -> dict[str, tuple[str, ...]]:
    """Return which columns only one simulated party has, by party: they are dealt in turn."""
    names = simulated_pool(config).own_columns
    return {party_name(i): names[i::num_parties] for i in range(num_parties)}


def central_rows(config: RunConfig, num_parties: int, pool: Pool, run_id: str = "") -> Rows:
    """Return the training rows of all simulated parties, pooled, as ``pool`` holds them.

    Where parties learn from subsets (NFDP), those they drew in run ``run_id``, for comparison with what they reached;
    a party that drew none has none here.
    """
    dealt = _dealt(config, num_parties)
    if config.setting("subset_rows", 0):
        root, kept = output_root(config.output_dir) / "runs" / first_run(config, run_id), []
        for i, positions in enumerate(dealt):
            digest = _data_digest(config, num_parties, i)
            drawn = SubsetStore(LedgerStore(root, party=party_name(i), data_digest=digest)).stored()
            kept.append(positions[[] if drawn is None else drawn[drawn < len(positions)]])
    else:
        kept = [
            _hold_out(config.seed, party_name(i), positions, config.party_test_fraction)[0]
            for i, positions in enumerate(dealt)
        ]
    positions = np.concatenate(kept)
    return pool.X[positions], pool.y[positions]


def held_out_rows(config: RunConfig, num_parties: int, pool: Pool) -> dict[str, Rows]:
    """Return the common test rows, and those that all simulated parties hold out, pooled, as ``pool`` holds them."""
    own = [
        _hold_out(config.seed, party_name(i), positions, config.party_test_fraction)[1]
        for i, positions in enumerate(_dealt(config, num_parties))
        if not config.setting("subset_rows", 0)  # a subset is of all rows
    ]
    positions = np.concatenate([*own, np.arange(0)])
    return {"common": (pool.X_test, pool.y_test), "own": (pool.X[positions], pool.y[positions])}


def estimated_sensitivity(config: RunConfig, num_parties: int, *, num_tried: int = 3, num_records: int = 5) -> int:
    """Return the most labels that leaving out one record changed, over some parties and records; at least 1.

    What the FedCT paper calls the empirical sensitivity. It is a look at some data sets, not a bound on all.
    """
    pool, most = simulated_pool(config), 1
    for index in range(min(num_tried, num_parties)):
        rng = derive_rng(config.seed, "sensitivity", index)
        positions = _dealt(config, num_parties)[index]
        make = model_factory(pick_model(config.model, index), config.model_params, pool.public)
        read = pool.as_read_by(make(seed=0))
        X, y, X_public = read.X[positions], read.y[positions], read.public.X
        full = make(seed=0).fit(X, y).predict(X_public)
        for left_out in rng.permutation(len(y))[: min(num_records, len(y) - 1)]:
            kept = np.arange(len(y)) != left_out
            most = max(most, int((make(seed=0).fit(X[kept], y[kept]).predict(X_public) != full).sum()))
    return most


def check_simulation(config: RunConfig, num_parties: int) -> None:
    """Deal the parties and make each model once: what cannot work fails here with its text, not at every party.

    Raises
    ------
    ConfigError, DataError, MissingExtraError
        If the parties cannot be dealt, or a model cannot be made.
    """
    pool = simulated_pool(config)
    _dealt(config, num_parties)
    made: dict[tuple[str, str], Any] = {}
    for role in ("model", *config.card.roles):
        spec, params = config.model_of(role)
        for i in range(num_parties if spec else 0):
            one = pick_model(spec, i)
            if (role, one) not in made:
                made[role, one] = model_factory(one, params, pool.public)(seed=0)
                if role == "model" and config.own_column_share and made[role, one].takes_text:
                    way_out = "Name one that reads numbers, such as random-forest, or drop own-column-share."
                    raise ConfigError(explain("model", "read numbers beside own-column-share", one, way_out))
                pool.as_read_by(made[role, one])  # a model that reads texts needs a text column
            if role in ("teacher", "student"):
                check_role(role, made[role, one], made["model", pick_model(config.model, i)])


def refuse_foreign_code(config: RunConfig, node: NodeConfig) -> None:
    """Refuse models the run names by import string, where this silo's owner did not allow code that sees its rows."""
    if node.model or (node.allow_code and not node.demands_privacy):
        return
    where = "that demands privacy" if node.demands_privacy else "without allow-code"
    way_out = "Name it as this node's own model, if you trust that code with your rows"
    way_out += "." if node.demands_privacy else ", or set allow-code=true for whatever runs name."
    for role in ("model", *config.card.roles):
        spec, _ = config.model_of(role)
        if role != "final" and ":" in spec.removeprefix("mixed:"):
            raise RefusalError(explain(f"{role} of the run", f"be a name of the zoo at a node {where}", spec, way_out))


def _refuse_absurd_work(config: RunConfig, node: NodeConfig, index: int, public: PublicSet) -> None:
    """Refuse parameters, of a zoo's models that the run names, that no run may ask of a silo."""
    for role in ("model", *config.card.roles):
        spec, params = config.model_of(role)
        if spec and role != "final" and node.takes_models:
            model_factory(pick_model(spec, index), params, public, of_run=True)(seed=0)


def refuse_foreign_algorithm(name: object, node: NodeConfig) -> None:
    """Refuse an algorithm that is not this package's, before it is imported, unless this silo's owner named it.

    Raises
    ------
    RefusalError
        If ``allow`` does not hold its import string, or the node demands privacy: no claim is proven for it.
    """
    if node.simulated or ":" not in str(name):
        return
    if str(name) not in _listed(node.allow):
        way_out = f'Add "{name}" to this node\'s allow to take part.'
        raise RefusalError(explain("algorithm", "be one that this node allows by its import string", name, way_out))
    if node.demands_privacy:
        rule = "be one of this package at a node that demands privacy"
        raise RefusalError(explain("algorithm", rule, name, "No claim is proven for it."))


def _listed(allow: str) -> set[str]:
    return {word.strip() for word in allow.split(",") if word.strip()}


def _party(config: RunConfig, node: NodeConfig, run_id: str) -> tuple[Party, int]:
    """Return the party, and its number in the cycle of mixed models."""
    common: dict[str, Any] = {}
    named, params = own_model(config, node)
    if node.simulated:
        if node.partition_id is None or node.num_partitions is None:
            seen = f"partition-id {node.partition_id}, num-partitions {node.num_partitions}"
            raise ConfigError(explain("partition-id and num-partitions", "be given together", seen))
        name, index = node.party or party_name(node.partition_id), node.partition_id
        pool = simulated_pool(config)
        spec = pick_model(named, index)
        read = pool.as_read_by(model_factory(spec, params, pool.public)(seed=0))
        positions = _dealt(config, node.num_partitions)[index]
        train, own = _hold_out(config.seed, name, positions, config.party_test_fraction)
        if config.setting("subset_rows", 0):  # a subset is of all rows, in an order no run's seed changes
            train, own = positions, positions[:0]
        public, X, y = read.public, read.X[train], pool.y[train]
        own_names = party_own_columns(config, node.num_partitions)[party_name(index)]
        if own_names and pool.own_table is not None and pool.own_test_table is not None:
            parts = {"own": pool.own_table.iloc[own], "common": pool.own_test_table}
            private = pool.own_table.iloc[train]
            common["own_rows"] = lambda: _own_rows(own_names, private, parts, public, (spec, params))
        tests = {"common": (read.X_test, pool.y_test), "own": (read.X[own], pool.y[own])}
        root = Path(node.state_dir).expanduser() if node.state_dir else output_root(config.output_dir)
        ledgers = root if node.state_dir else root / "runs" / first_run(config, run_id)
        data_digest = _data_digest(config, node.num_partitions, index)
        # all of its rows, also those that this run's seed holds out
        rows = PrivateRows(
            digest=data_digest,
            form=f"arrays of {pool.X.shape[1]} columns",
            blocks=lambda: [pool.X[positions], pool.y[positions][:, None]],
        )
        # whoever simulates holds all the data anyway
        weigh = index < (5 if config.model.startswith("mixed") else 1)  # one of each model is enough to compare
        keep = config.save_party_models
        common |= {"share_metrics": NAMES, "simulated": True, "weigh_model": weigh, "keep_model": keep}
        common["keep_state"] = not node.state_dir  # the server forgets what lies beside its own record
        common["rows_at_least"] = len(positions)
    else:
        name = node.party
        index = derive_seed(0, name)
        refuse_foreign_code(config, node)
        spec = pick_model(named, index)
        public = load_public(node.public_path, node.schema_path or None, labels=config.public_label)
        if node.public_fingerprint:
            require_same_set(public.fingerprint, node.public_fingerprint)
        _refuse_absurd_work(config, node, index, public)
        public = public.as_read_by(model_factory(spec, params, public)(seed=0))
        if node.label and node.label != public.schema.label:
            raise ConfigError(explain("label", f"be the schema's label column {public.schema.label!r}", node.label))
        # the file as it lies there: encoded rows differ in the last bit between machines
        data_digest = hashlib.sha256(require_readable(node.data_path)).hexdigest()
        rows = _private_rows(node.data_path, public.schema, data_digest)
        held = load_usable_rows(node.data_path, public)
        _require_unchanged(node.data_path, data_digest)
        train, own = _hold_out(config.seed, name, np.arange(held.num_rows), node.test_fraction)
        if config.setting("subset_rows", 0):
            train, own = np.arange(held.num_rows), np.arange(0)
        usable = held.y >= 0
        measured, learnt = own[usable[own]], usable[train]
        tests = {"own": (held.X[measured], held.y[measured])}
        X, y = held.X[train[learnt]], held.y[train[learnt]]
        root = ledgers = output_root(node.state_dir, "state-dir")
        common |= {"keep_model": True, "rows_at_least": node.rows_at_least, "node_secret": partial(node_secret, root)}
        if node.own_columns:
            common["own_rows"] = partial(
                _own_rows_of_file, node, data_digest, train[learnt], measured, public, (spec, params)
            )
        common |= {"share_metrics": _listed(node.share_metrics), "min_support": node.min_support}
        common["show"] = owners_page(
            config,
            run_id=run_id,
            party=name,
            model_name=spec,
            public=public,
            y=held.y[usable],
            path=PartyState(root, run_id=run_id, party=name).path.with_suffix(".html"),
        )
        if held.fault is not None:
            common |= {"fault": held.fault, "slots": np.flatnonzero(learnt), "num_slots": len(train)}
    # whoever simulates a party decides for it; a silo's own list is all it takes part in
    allowed = _listed(node.allow)
    if node.simulated or config.algorithm in allowed:
        allowed.add(config.card.name)
    if node.simulated:
        allowed.add(DENSITY_RATIO)
    party = Party(
        name=name,
        X=X,
        y=y,
        public=public,
        model=model_factory(spec, params, public),
        model_name=spec,
        tests=tests,
        state=PartyState(root, run_id=run_id, party=name),
        allow=frozenset(allowed),
        require_privacy=node.require_privacy,
        budget=Budget(epsilon=node.epsilon_budget, delta=node.delta_budget),
        ledger=LedgerStore(ledgers, party=name, data_digest=data_digest, rows=rows, apart=not node.simulated),
        run_id=run_id,
        whole=bool(config.setting("subset_rows", 0)),
        apart=_simulated_limits(config) if node.simulated else limits_of(node.round_limit_s, node.memory_limit_gb),
        **common,
    )
    return party, index


def _own_rows_of_file(
    node: NodeConfig,
    digest: str,
    train: NDArray[np.int64],
    measured: NDArray[np.int64],
    public: PublicSet,
    model: tuple[str, str],
) -> OwnRows:
    """Return a silo's own columns, of the rows of its file that it learns from and of those it measures on."""
    schema = public.schema
    table = read_table(node.data_path, label=schema.label, num_features=len(schema.columns), lenient=True)
    _require_unchanged(node.data_path, digest)
    return _own_rows(node.own_names, table.iloc[train], {"own": table.iloc[measured]}, public, model)


def _own_rows(
    names: Sequence[str],
    private: pd.DataFrame,
    tests: Mapping[str, pd.DataFrame],
    public: PublicSet,
    model: tuple[str, str],
) -> OwnRows:
    found = OwnColumns.fit(private, names, public.schema)
    for name, why in found.left_out.items():
        logger.warning("own column %r is left out: %s", name, why)
    X = found.features(private)
    return OwnRows(
        X=X,
        tests={name: found.features(table) for name, table in tests.items()},
        encoder=found.encoder(public),
        model=model_factory(*model, public, own_features=X.shape[1]),
    )


def _simulated_limits(config: RunConfig) -> Limits | None:
    """Return what a simulated visit may take: limits where a model is a user's own, which may hang, fork or crash.

    Other visits end with Ray's actors.
    """
    own = any(":" in config.model_of(role)[0].removeprefix("mixed:") for role in ("model", *config.card.roles))
    if not own or not hasattr(os, "fork"):
        return None
    usual = limits_of(1.0, 0.0)
    import_skops()  # once here, and not again in the child of every visit that writes a model
    if "torch" in sys.modules:
        import_module("torch._dynamo")  # torch's first optimiser imports it: seconds
    return Limits(
        seconds=0.9 * config.round_timeout_s,  # the party still answers
        memory=usual.memory if usual else 0,
        names=("nine tenths of round-timeout-s", "three quarters of this machine's memory"),
        way_out="Name a smaller model, or raise round-timeout-s if it was the time.",
    )


def _require_unchanged(path: str, digest: str) -> None:
    """Refuse a file that is being replaced: other rows than those learnt from would pay."""
    if hashlib.sha256(require_readable(path)).hexdigest() != digest:
        raise DataError(explain(f"file {path}", "stay as it is while it is read", "another file", "Ask again."))


def _private_rows(path: str, schema: Schema, digest: str) -> PrivateRows:
    """Return a party's file as its ledger knows it: read again only where the ledger does not know the file yet."""

    def blocks() -> list[NDArray[Any]]:
        try:
            table = read_table(path, label=schema.label, num_features=len(schema.columns), lenient=True)
        except Exception:  # what is in the file must not decide a refusal
            table = None
        _require_unchanged(path, digest)
        known = usable_row_values(table, schema, digest=digest) if table is not None else []
        return known or [np.array([[digest]], dtype=object)]  # a file without a row to learn from

    return PrivateRows(digest=digest, form=row_form(schema), blocks=blocks)


def make_client(config: RunConfig, node: NodeConfig, run_id: str, *, egress: Egress | None = None) -> PartyClient:
    """Return this node's client for the run's algorithm.

    Parameters
    ----------
    config, node, run_id
        The run, and the node.
    egress : Egress, optional
        The door through which its replies leave.

    Raises
    ------
    ConfigError, DataError, MissingExtraError
        If its data, model or settings do not fit.
    RefusalError
        If the run breaks a rule of the site; no file was read then.
    """
    if egress is not None:
        egress.check_run()
    party, index = _party(config, node, run_id)
    party = replace(party, egress=egress)
    client: type[PartyClient] = load_class(config.card.client)
    return client(party, **party_roles(config, node, party, index))


def load_class(name: str) -> Any:
    """Import what a card names as ``package.module:Class``."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def make_strategy(
    config: RunConfig,
    *,
    public: PublicSet,
    test: Rows | None,
    num_nodes: int,
    record: RunRecord,
    names: Mapping[int, str] | None = None,
    nodes: Sequence[int] = (),
    readiness: Readiness | None = None,
    on_round: Callable[[RunRecord], None] | None = None,
) -> ExchangeStrategy[Any]:
    """Return the server's strategy for the run; ``names``, ``nodes`` and ``readiness`` as in `ExchangeStrategy`."""
    root = output_root(config.output_dir)
    runs = root / "runs" / record.run_id
    resume_from = continued(config)
    if "final" in config.card.roles:
        model = final_model(config, public)(seed=0)
        public = public.as_read_by(model)
        if test is not None and model.takes_text:
            test = simulated_pool(config).as_read_by(model).X_test, test[1]
    collaborators = Collaborators(
        final_model=lambda: final_model(config, public),
        global_model=lambda: global_model(config, public),
        party_rows=lambda: party_sizes(config, num_nodes) if record.simulation else [],
        test=test,
        # a simulation repeats itself at will: its ledger is its own run's, a deployment's is of all runs
        ledger=LedgerStore(
            root / "runs" / first_run(config, record.run_id) if record.simulation else root,
            party="server",
            data_digest=public.fingerprint,
        ),
        budget=Budget(epsilon=config.server_epsilon_budget or math.inf, delta=config.setting("delta", 1e-5)),
        fraction=config.fraction_parties,
    )
    strategy: type[ExchangeStrategy[Any]] = load_class(config.card.strategy)
    return strategy.assemble(
        collaborators,
        config=config.own,
        public=public,
        min_train_nodes=config.min_parties,
        min_available_nodes=num_nodes,
        record=record,
        names=names,
        nodes=nodes,
        readiness=readiness,
        on_round=on_round,
        checkpoint=runs / "checkpoint",
        resume_from=resume_from,
    )
