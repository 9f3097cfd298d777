"""The door of one node, as its node config says: the egress log, the site's rules, and whom to ask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.versions import installed_versions
from fedkd_flwr.checks import read_word
from fedkd_flwr.clients.answer import MAX_PUBLIC_COLUMNS
from fedkd_flwr.clients.door import OPEN, Door
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.settings.node_config import NodeConfig
from fedkd_flwr.silo.door import SiloDoor
from fedkd_flwr.simulation.rows import party_name, simulated_pool
from fedkd_flwr.stores.egress_log import EgressLog

__all__ = ["door_of"]


def door_of(config: RunConfig, node: NodeConfig, run_id: str) -> Door:
    """Return the door through which this node's replies leave; an open one for a simulated party that asks for none.

    The time that a steward has ends with nine tenths of the run's ``round-timeout-s``, counted from now: a visit's
    start.
    """
    if not node.guards:
        return OPEN
    name = node.party or party_name(node.partition_id or 0, config)
    root = output_root(node.state_dir, "state-dir") if node.state_dir or not node.simulated else None
    index = node.partition_id if node.simulated else derive_seed(0, name)
    specs = [config.model_of(role) for role in ("model", *config.card.roles) if role != "final" and node.takes_models]
    return SiloDoor(
        EgressLog(root or output_root(config.output_dir), party=name),
        run_id=run_id,
        run_name=config.name,
        settings={**config.as_scalars(), "num-rounds": config.rounds},
        models=[read_word("model", pick_model(spec, index or 0))[0] for spec in specs if spec]
        if node.takes_models
        else [],
        rules=node.rules,
        approve=node.approve,
        within_s=node.approve_within_s,
        until=time.monotonic() + 0.9 * config.round_timeout_s,
        versions=installed_versions(),
        public_columns=lambda: _public_columns(config, node),
    )


def _public_columns(config: RunConfig, node: NodeConfig) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """Return the names of the public columns, and the first of them as they stand in the public file."""
    if node.simulated:
        X = simulated_pool(config).public.X
        return [f"x{i}" for i in range(X.shape[1])], X[:, :MAX_PUBLIC_COLUMNS].tolist()
    path = Path(node.public_path).expanduser()
    schema = Schema.read(node.schema_path or path.parent / "schema.toml")
    names = [column.name for column in schema.columns]
    table = read_table(path, schema)[names[:MAX_PUBLIC_COLUMNS]]
    return names, table.astype(object).where(table.notna(), "").to_numpy().tolist()
