"""From checked settings to objects: pools, parties, models, clients and strategies.

In simulation every process loads the data set itself, once, and derives the same split and the same parties from the
run's seed; nobody is told anything over the wire.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.apps.algorithms import ALGORITHMS, model_factory
from fedkd_flwr.apps.config import NodeConfig, RunConfig
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import Party
from fedkd_flwr.data.datasets import Pool, load_pool
from fedkd_flwr.data.partitioning import partition, read_split
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.tables import load_party_table, load_public
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.ledger_store import LedgerStore
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.privacy.ledger import Budget
from fedkd_flwr.run_record import RunRecord
from fedkd_flwr.seeds import derive_rng, derive_seed
from fedkd_flwr.stores import PartyState
from fedkd_flwr.strategies.base import ExchangeStrategy

__all__ = [
    "central_rows",
    "check_simulation",
    "estimated_sensitivity",
    "make_client",
    "make_strategy",
    "output_root",
    "party_name",
    "simulated_pool",
]

Rows = tuple[NDArray[np.float32], NDArray[np.int16]]


def output_root(text: str, key: str = "output-dir") -> Path:
    """Return the absolute folder for results that setting ``key`` names; ``~/.fedkd`` where it is empty.

    Raises
    ------
    ConfigError
        If the path is relative: a SuperLink's working directory is not the user's.
    """
    root = Path(text or "~/.fedkd").expanduser()
    if not root.is_absolute():
        raise ConfigError(explain(key, "be an absolute path", text, f"Write {root.absolute()} if you mean that."))
    return root


@lru_cache(maxsize=1)
def simulated_pool(config: RunConfig) -> Pool:
    """Load and split the data set of a simulation."""
    rows = read_split(config.partition_path, config.partition_index) if config.partitioner == "file" else None
    return load_pool(
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
    )


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
    count = min(round(fraction * len(order)), len(order) - 1)
    return order[count:], order[:count]


def central_rows(config: RunConfig, num_parties: int) -> Rows:
    """Return the training rows of all simulated parties, pooled."""
    pool = simulated_pool(config)
    kept = [
        _hold_out(config.seed, party_name(i), positions, config.party_test_fraction)[0]
        for i, positions in enumerate(_dealt(config, num_parties))
    ]
    positions = np.concatenate(kept)
    return pool.X[positions], pool.y[positions]


def estimated_sensitivity(config: RunConfig, num_parties: int, *, num_tried: int = 3, num_records: int = 5) -> int:
    """Return the most labels that leaving out one record changed, over some parties and records; at least 1.

    What the FedCT paper calls the empirical sensitivity. It is a look at some data sets, not a bound on all.
    """
    pool, most = simulated_pool(config), 1
    for index in range(min(num_tried, num_parties)):
        rng = derive_rng(config.seed, "sensitivity", index)
        positions = _dealt(config, num_parties)[index]
        make = model_factory(pick_model(config.model, index), config.model_params, pool.public)
        X, y = pool.X[positions], pool.y[positions]
        full = make(seed=0).fit(X, y).predict(pool.public.X)
        for left_out in rng.permutation(len(y))[: min(num_records, len(y) - 1)]:
            kept = np.arange(len(y)) != left_out
            most = max(most, int((make(seed=0).fit(X[kept], y[kept]).predict(pool.public.X) != full).sum()))
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
    for role in ("model", *ALGORITHMS[config.algorithm].roles):
        name = "model" if role == "model" else f"{role}_model"
        params = getattr(config, f"{role}_params")
        if spec := getattr(config, name):
            for one in {pick_model(spec, i): None for i in range(num_parties)}:
                model_factory(one, params, pool.public)(seed=0)


def _party(config: RunConfig, node: NodeConfig, run_id: str) -> tuple[Party, int]:
    """Return the party, and its number in the cycle of mixed models."""
    common: dict[str, Any] = {}
    if node.simulated:
        if node.partition_id is None or node.num_partitions is None:
            seen = f"partition-id {node.partition_id}, num-partitions {node.num_partitions}"
            raise ConfigError(explain("partition-id and num-partitions", "be given together", seen))
        name, index = node.party or party_name(node.partition_id), node.partition_id
        pool = simulated_pool(config)
        positions = _dealt(config, node.num_partitions)[index]
        train, own = _hold_out(config.seed, name, positions, config.party_test_fraction)
        tests = {"common": (pool.X_test, pool.y_test), "own": (pool.X[own], pool.y[own])}
        public, X, y = pool.public, pool.X[train], pool.y[train]
        root = Path(node.state_dir).expanduser() if node.state_dir else output_root(config.output_dir)
        ledgers = root if node.state_dir else root / "runs" / run_id
        data_digest = hashlib.sha256(pool.X[positions].tobytes() + pool.y[positions].tobytes()).hexdigest()
        # whoever simulates holds all the data anyway
        weigh = index < (5 if config.model.startswith("mixed") else 1)  # one of each model is enough to compare
        keep = config.save_party_models
        common = {"share_metrics": True, "simulated": True, "weigh_model": weigh, "keep_model": keep}
    else:
        name = node.party
        index = derive_seed(0, name)
        public = load_public(node.public_path, node.schema_path or None)
        if node.label and node.label != public.schema.label:
            raise ConfigError(explain("label", f"be the schema's label column {public.schema.label!r}", node.label))
        X_all, y_all = load_party_table(node.data_path, public.schema, public.preprocessor)
        train, own = _hold_out(config.seed, name, np.arange(len(y_all)), node.test_fraction)
        X, y, tests = X_all[train], y_all[train], {"own": (X_all[own], y_all[own])}
        root = output_root(node.state_dir, "state-dir")
        # the file as it lies there: encoded rows differ in the last bit between machines
        ledgers, data_digest = root, hashlib.sha256(Path(node.data_path).expanduser().read_bytes()).hexdigest()
        common = {"share_metrics": node.share_metrics, "keep_model": True}
    spec = pick_model(node.model or config.model, index)
    party = Party(
        name=name,
        X=X,
        y=y,
        public=public,
        model=model_factory(spec, node.model_params if node.model else config.model_params, public),
        model_name=spec,
        tests=tests,
        state=PartyState(root, run_id=run_id, party=name),
        allow=frozenset(word.strip() for word in node.allow.split(",") if word.strip()),
        require_privacy=node.require_privacy,
        budget=Budget(epsilon=node.epsilon_budget, delta=node.delta_budget),
        ledger=LedgerStore(ledgers, party=name, data_digest=data_digest),
        run_id=run_id,
        **common,
    )
    return party, index


def make_client(config: RunConfig, node: NodeConfig, run_id: str) -> PartyClient:
    """Return this node's client for the run's algorithm.

    Raises
    ------
    ConfigError, DataError, MissingExtraError
        If its data, model or settings do not fit.
    """
    party, index = _party(config, node, run_id)
    return ALGORITHMS[config.algorithm].client(config, node, party, index)


def make_strategy(
    config: RunConfig,
    *,
    public: PublicSet,
    test: Rows | None,
    num_nodes: int,
    record: RunRecord,
    names: Mapping[int, str] | None = None,
) -> ExchangeStrategy[Any]:
    """Return the server's strategy for the run."""
    budget = Budget(epsilon=config.server_epsilon_budget or math.inf, delta=config.delta)
    # a simulation repeats itself at will: its ledger is its own run's, a deployment's is of all runs
    root = output_root(config.output_dir)
    root = root / "runs" / record.run_id if record.simulation else root
    return ALGORITHMS[config.algorithm].strategy(
        config,
        public,
        min_train_nodes=config.min_parties,
        min_available_nodes=num_nodes,
        record=record,
        names=names,
        test=test,
        ledger=LedgerStore(root, party="server", data_digest=public.fingerprint),
        budget=budget,
    )
