"""From checked settings to objects: pools, parties, models, clients and strategies.

In simulation every process loads the data set itself, once, and derives the same split and the same parties from the
run's seed; nobody is told anything over the wire.
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.apps.config import NodeConfig, RunConfig
from fedkd_flwr.clients.base import LabelClient
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.data.datasets import Pool, load_pool
from fedkd_flwr.data.partitioning import partition, read_split
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.tables import load_party_table, load_public
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.models.zoo import make_model, parse_params, pick_model
from fedkd_flwr.run_record import RunRecord
from fedkd_flwr.seeds import derive_rng, derive_seed
from fedkd_flwr.stores import PartyState
from fedkd_flwr.strategies.base import LabelStrategy

__all__ = [
    "central_rows",
    "check_simulation",
    "make_client",
    "make_strategy",
    "model_factory",
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


def check_simulation(config: RunConfig, num_parties: int) -> None:
    """Deal the parties and make each model once: what cannot work fails here with its text, not at every party.

    Raises
    ------
    ConfigError, DataError, MissingExtraError
        If the parties cannot be dealt, or a model cannot be made.
    """
    pool = simulated_pool(config)
    _dealt(config, num_parties)
    roles = ("model", "teacher", "student", "final") if config.algorithm == "fedkt" else ("model",)
    for role in roles:
        name = "model" if role == "model" else f"{role}_model"
        params = getattr(config, f"{role}_params")
        if spec := getattr(config, name):
            for one in {pick_model(spec, i): None for i in range(num_parties)}:
                model_factory(one, params, pool.public)(seed=0)


def model_factory(spec: str, params: str, public: PublicSet) -> ModelFactory:
    """Return a maker of fresh models for the public set's features and classes."""
    return partial(
        make_model,
        spec,
        num_classes=public.num_classes,
        num_features=public.num_features,
        shape=public.shape,
        params=parse_params(params),
    )


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
        # whoever simulates holds all the data anyway
        weigh = index < (5 if config.model.startswith("mixed") else 1)  # one of each model is enough to compare
        common = {"share_metrics": True, "weigh_model": weigh, "keep_model": config.save_party_models}
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
        epsilon_budget=node.epsilon_budget,
        **common,
    )
    return party, index


def make_client(config: RunConfig, node: NodeConfig, run_id: str) -> LabelClient:
    """Return this node's client for the run's algorithm.

    Raises
    ------
    ConfigError, DataError, MissingExtraError
        If its data, model or settings do not fit.
    """
    party, index = _party(config, node, run_id)
    if config.algorithm == "fedct":
        from fedkd_flwr.clients.fedct import FedCTClient

        return FedCTClient(party)
    from fedkd_flwr.clients.fedkt import FedKTClient

    roles = {}
    for role in ("teacher", "student"):
        # a silo's own choice of model stands for its teachers and students too
        spec = "" if node.model else getattr(config, f"{role}_model")
        if spec:
            roles[role] = model_factory(pick_model(spec, index), getattr(config, f"{role}_params"), party.public)
    return FedKTClient(party, **roles)


def make_strategy(
    config: RunConfig, *, public: PublicSet, test: Rows | None, num_nodes: int, record: RunRecord
) -> LabelStrategy:
    """Return the server's strategy for the run."""
    flower: dict[str, Any] = {
        "min_train_nodes": config.min_parties,
        "min_available_nodes": num_nodes,
        "public": public,
        "record": record,
    }
    shared: dict[str, Any] = {
        "seed": config.seed,
        "ties": config.ties,
        "node_deadline_s": config.node_deadline_s,
        "informative_voters_only": config.informative_voters_only,
    }
    if config.algorithm == "fedct":
        from fedkd_flwr.strategies.fedct import FedCT, FedCTConfig

        fedct = FedCTConfig(
            consensus=config.consensus,
            quorum=config.quorum,
            confidence=config.confidence,
            steps_per_round=config.steps_per_round,
            stop_when_converged=config.stop_when_converged,
            **shared,
        )
        return FedCT(config=fedct, **flower)
    from fedkd_flwr.strategies.fedkt import FedKT, FedKTConfig

    fedkt = FedKTConfig(
        students_per_party=config.students_per_party,
        teachers_per_student=config.teachers_per_student,
        voting=config.voting,
        party_models=config.party_models,
        **shared,
    )
    spec, params = _first_given(
        (config.final_model, config.final_params),
        (config.student_model, config.student_params),
        (config.model, config.model_params),
    )
    final_model = model_factory(pick_model(spec, 0), params, public)
    final_model(seed=0)  # a name or parameter nobody knows is said now, not after all parties have trained
    return FedKT(config=fedkt, final_model=final_model, test=test, **flower)


def _first_given(*choices: tuple[str, str]) -> tuple[str, str]:
    for spec, params in choices:
        if spec:
            return spec, params
    raise DataError(explain("model", "be given", "", 'Use model="random-forest".'))
