"""A simulation without public rows: noisy sums among the same parties first, and rows drawn of what they released."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict

from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.public_rows import make_public
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.simulation.rows import simulated_pool

__all__ = ["draw_rows"]

# who holds what is the same; what is learnt of it, and for how long, is the later run's
_OTHERS = {"name", "algorithm", "num_rounds", "fraction_parties", "resume_from", "server_epsilon_budget", "rehearsal"}
_OTHERS |= {"centralised", "save_party_models", "tracking", "public_label_column", "public_rows", "draw_public_epsilon"}
_OTHERS |= {f"{role}{what}" for role in ("", "teacher_", "student_", "final_") for what in ("model", "params")}
_OTHERS |= {"model_params"}


def draw_rows(config: RunConfig, values: Mapping[str, Any], make_grid: Callable[..., Any]) -> Path:
    """Return the file of drawn rows, as many as the data set's own public part has.

    Parameters
    ----------
    config, values
        The run that is to get them, checked and by key.
    make_grid : callable
        ``make_grid(values, run_id=..., log="")`` makes the grid of a run; it is closed here.
    """
    same = {key: values[key] for name, key in config.keys().items() if key in values and name not in _OTHERS}
    own = {"algorithm": "noisy-sums", "paper.party-models": False, "model": "decision-tree", "centralised": False}
    name = {"name": f"{config.name[:90]}-public"} if config.name else {}
    first = {**same, **own, **name, "seed": config.seed, "epsilon": config.draw_public_epsilon}
    run_id, root = str(secrets.randbits(63) | 1 << 62), output_root(config.output_dir)
    grid = make_grid(first, run_id=int(run_id), log="")
    try:
        federate(grid, Context(int(run_id), 0, {}, RecordDict(), first), page=False)
    finally:
        grid.close()
    folder = root / "runs" / run_id
    make_public(str(folder), folder / "public", rows=simulated_pool(config).public.num_rows)
    return folder / "public" / "public.csv"
