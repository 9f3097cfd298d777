"""From checked settings to objects: parties, models, clients and strategies."""

from __future__ import annotations

import hashlib
import logging
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.app.live_run import new_record
from fedkd_flwr.app.model_cards import owners_word
from fedkd_flwr.app.models import check_lacks, final_model, global_model, model_factory, own_model, party_roles
from fedkd_flwr.app.output import continued, first_run, output_root
from fedkd_flwr.checks import read_word
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import OPEN, Door, Party
from fedkd_flwr.data.formats import require_readable
from fedkd_flwr.data.public import PublicSet, require_same_set
from fedkd_flwr.data.row_values import row_form, usable_row_values
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import load_public, load_usable_rows, read_table
from fedkd_flwr.errors import ConfigError, DataError, RefusalError, explain
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.metrics import NAMES
from fedkd_flwr.models.given import is_given
from fedkd_flwr.models.payloads import import_skops
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.ledger.rows import PrivateRows
from fedkd_flwr.processes.limits import Limits, can_have_child, limits_of
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.registry import load
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.settings.node_config import NodeConfig, listed
from fedkd_flwr.simulation.rows import dealt, hold_out, lacking, party_name, simulated_digest, simulated_pool
from fedkd_flwr.stores.files import node_secret
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.strategies.exchange import Collaborators
from fedkd_flwr.strategies.loop import ExchangeStrategy, strategy_of

__all__ = ["make_client", "make_strategy", "refuse_foreign_algorithm", "refuse_foreign_code"]

logger = logging.getLogger("flwr.party")

Rows = tuple[NDArray[Any], NDArray[np.int16]]


def refuse_foreign_code(config: RunConfig, node: NodeConfig) -> None:
    """Refuse models the run names by import string, where this silo's owner did not allow code that sees its rows."""
    if node.model or (node.allow_code and not node.demands_privacy):
        return
    where = "that demands privacy" if node.demands_privacy else "without allow-code"
    way_out = "Name it as this node's own model, if you trust that code with your rows"
    way_out += "." if node.demands_privacy else ", or set allow-code=true for whatever runs name."
    for role in ("model", *config.card.roles):
        if role != "final" and any(":" in name for name in config.names_of(role)):
            seen = config.model_of(role)
            raise RefusalError(explain(f"{role} of the run", f"be a name of the zoo at a node {where}", seen, way_out))


def _refuse_absurd_work(config: RunConfig, node: NodeConfig, index: int, public: PublicSet) -> None:
    """Refuse parameters, of a zoo's models that the run names, that no run may ask of a silo."""
    for role in ("model", *config.card.roles):
        if (spec := config.model_of(role)) and role != "final" and node.takes_models:
            model_factory(pick_model(spec, index), public, of_run=True)(seed=0)


def refuse_foreign_algorithm(name: object, node: NodeConfig) -> None:
    """Refuse an algorithm that is not ours, before it is imported, unless this owner named it and asks no claim."""
    if node.simulated or ":" not in str(name):
        return
    if str(name) not in listed(node.allow_algorithms):
        way_out = f'Add "{name}" to this node\'s allow-algorithms to take part.'
        raise RefusalError(explain("algorithm", "be one that this node allows by its import string", name, way_out))
    if node.demands_privacy:
        rule = "be one of this package at a node that demands privacy"
        raise RefusalError(explain("algorithm", rule, name, "No claim is proven for it."))


def _party(config: RunConfig, node: NodeConfig, run_id: str) -> tuple[Party, int]:
    """Return the party, and its number in the cycle of mixed models."""
    named = own_model(config, node)
    index = (node.partition_id or 0) if node.simulated else derive_seed(0, node.party)
    spec = pick_model(named, index)
    told = (_simulated_party if node.simulated else _silo_party)(config, node, run_id, index, spec)
    # whoever simulates a party decides for it; a silo's own list is all it takes part in
    allowed = listed(node.allow_algorithms)
    if node.simulated or config.algorithm in allowed:
        allowed.add(config.card.name)
    allowed |= listed(node.allow_vote_rules)  # none of them is an algorithm's name
    if node.simulated:
        allowed |= {rule.name for rule in RULES.values() if rule.needs}
    party = Party(
        model=model_factory(spec, told["public"]),
        model_name=read_word("model", spec)[0],
        allow=frozenset(allowed),
        require_privacy=node.require_privacy,
        budget=Budget(epsilon=node.epsilon_budget, delta=node.delta_budget),
        run_id=run_id,
        whole=bool(config.setting("subset_rows", 0)),
        **told,
    )
    return party, index


def _simulated_party(config: RunConfig, node: NodeConfig, run_id: str, index: int, spec: str) -> dict[str, Any]:
    """Return what a party is made of that is dealt rows of a data set: its metrics leave, and it demands nothing."""
    if node.partition_id is None or node.num_partitions is None:
        seen = f"partition-id {node.partition_id}, num-partitions {node.num_partitions}"
        raise ConfigError(explain("partition-id and num-partitions", "be given together", seen))
    name = node.party or party_name(index, config)
    pool = simulated_pool(config)
    read = pool.as_read_by(model_factory(spec, pool.public)(seed=0))
    public, kept = read.public.without(lacking(config, index))
    common = read.common[0][:, kept], *read.common[1:]
    positions = dealt(config, node.num_partitions)[index]
    train, own = hold_out(config.seed, name, positions, config.party_test_fraction)
    if config.setting("subset_rows", 0):  # a subset is of all rows, in an order no run's seed changes
        train, own = positions, positions[:0]
    root = Path(node.state_dir).expanduser() if node.state_dir else output_root(config.output_dir)
    # all of its rows, also those that this run's seed holds out
    digest = simulated_digest(config, node.num_partitions, index)
    rows = PrivateRows(
        digest=digest,
        form=f"arrays of {pool.X.shape[1]} columns",
        blocks=lambda: [pool.X[positions], pool.y[positions][:, None]],
    )
    alone = not node.state_dir
    ledgers = root / "runs" / first_run(config, run_id) if alone else root
    return {
        "name": name,
        "X": read.X[train][:, kept],
        "y": pool.y[train],
        "public": public,
        "tests": {"common": common, "own": (read.X[own][:, kept], pool.y[own], *pool.numbers_of(own))},
        "state": PartyState(root, run_id=run_id, party=name),
        "ledger": LedgerStore(ledgers, party=name, data_digest=digest, rows=rows, apart=False, alone=alone),
        "apart": _simulated_limits(config),
        "share_metrics": NAMES,
        "simulated": True,
        # one of each is enough to compare
        "weigh_model": all(pick_model(config.model, i) != spec for i in range(index)),
        "keep_model": config.save_party_models,
        "keep_state": not node.state_dir,  # the server forgets what lies beside its own record
        "rows_at_least": len(positions),
    }


def _silo_party(config: RunConfig, node: NodeConfig, run_id: str, index: int, spec: str) -> dict[str, Any]:
    """Return what a silo is made of: its file, its public set, its state."""
    name = node.party
    refuse_foreign_code(config, node)
    public = _silo_public(config, node, index, spec)
    # the file as it lies there: encoded rows differ in the last bit between machines
    digest = hashlib.sha256(require_readable(node.data_path)).hexdigest()
    held = load_usable_rows(node.data_path, public)
    _require_unchanged(node.data_path, digest)
    train, own = hold_out(config.seed, name, np.arange(held.num_rows), node.test_fraction)
    if config.setting("subset_rows", 0):
        train, own = np.arange(held.num_rows), np.arange(0)
    usable = held.y >= 0
    measured, learnt = own[usable[own]], usable[train]
    root = output_root(node.state_dir, "state-dir")
    state, rows = PartyState(root, run_id=run_id, party=name), _private_rows(node.data_path, public.schema, digest)
    record = replace(
        new_record(config, run_id),
        status="completed",
        simulation=False,
        num_public=public.num_rows,
        num_classes=public.num_classes,
        classes=list(public.schema.classes),
        fingerprint=public.fingerprint,
    )
    told: dict[str, Any] = {
        "name": name,
        "X": held.X[train[learnt]],
        "y": held.y[train[learnt]],
        "public": public,
        "tests": {"own": (held.X[measured], held.y[measured], *(one[measured] for one in held.numbers))},
        "state": state,
        "ledger": LedgerStore(root, party=name, data_digest=digest, rows=rows, apart=True),
        "apart": limits_of(node.round_limit_s, node.memory_limit_gb),
        "share_metrics": listed(node.share_metrics),
        "min_support": node.min_support,
        "keep_model": True,
        "rows_at_least": node.rows_at_least,
        "node_secret": partial(node_secret, root),
        "show": owners_word(record, party=name, model_name=read_word("model", spec)[0], y=held.y[usable]),
    }
    if held.fault is not None:
        told |= {"fault": held.fault, "slots": np.flatnonzero(learnt), "num_slots": len(train)}
    return told


def _silo_public(config: RunConfig, node: NodeConfig, index: int, spec: str) -> PublicSet:
    """Return a silo's copy of the public set, as its model reads it; refuse another one than was agreed on."""
    check_lacks(config.card, listed(node.lacks))
    public = load_public(node.public_path, node.schema_path or None, labels=config.public_label_column)
    if node.public_fingerprint:
        require_same_set(public.fingerprint, node.public_fingerprint)
    _refuse_absurd_work(config, node, index, public)
    public, _ = public.as_read_by(model_factory(spec, public)(seed=0)).without(listed(node.lacks))
    if node.label and node.label != public.schema.label:
        raise ConfigError(explain("label", f"be the schema's label column {public.schema.label!r}", node.label))
    return public


def _simulated_limits(config: RunConfig) -> Limits | None:
    """Return what a simulated visit may take: limits where a model is a user's own, which may hang, fork or crash.

    Other visits end with Ray's actors.
    """
    own = any(":" in one and not is_given(one) for one in config.models)
    if not own or not can_have_child():
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
            table = read_table(path, schema, lenient=True)
        except Exception:  # what is in the file must not decide a refusal
            table = None
        _require_unchanged(path, digest)
        known = usable_row_values(table, schema, digest=digest) if table is not None else []
        return known or [np.array([[digest]], dtype=object)]  # a file without a row to learn from

    return PrivateRows(digest=digest, form=row_form(schema), blocks=blocks)


def make_client(config: RunConfig, node: NodeConfig, run_id: str, *, door: Door = OPEN) -> PartyClient:
    """Return this node's client for the run; where the run breaks a rule of the site no file is read."""
    door.check_run()
    party, index = _party(config, node, run_id)
    party = replace(party, door=door)
    client: Callable[..., PartyClient] = load(config.card.client)
    return client(party, **party_roles(config, node, party, index))


def make_strategy(
    config: RunConfig, *, public: PublicSet, test: Rows | None, num_nodes: int, record: RunRecord, **more: Any
) -> ExchangeStrategy[Any]:
    """Return the server's strategy for the run; ``more`` as in `ExchangeStrategy`."""
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
        party_rows=lambda: list(map(len, dealt(config, num_nodes))) if record.simulation else [],
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
    strategy = strategy_of(config.card)
    return strategy(
        **strategy.exchange_type.needs(collaborators),
        config=config.own,
        public=public,
        min_train_nodes=config.min_parties,
        min_available_nodes=num_nodes,
        record=record,
        **more,
        checkpoint=runs / "checkpoint",
        resume_from=resume_from,
    )
