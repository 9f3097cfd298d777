"""The runs of `fedkd choose`: where a finished one is kept, and about how long one takes."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import time
from pathlib import Path

from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.app.models import model_factory
from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.versions import installed_versions
from fedkd_flwr.models.given import is_given
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.simulation.rows import dealt, simulated_pool

__all__ = ["about_seconds", "kept_file"]


def kept_file(config: RunConfig) -> Path | None:
    """Return the file of a run's record: its name tells settings, versions, and what files and code were like.

    None where a model was given as an object: what its code is like, no name tells.
    """
    if any(map(is_given, config.models)):
        return None
    scalars = {**config.as_scalars(), "output-dir": ""}
    files = [Path(one) for key in sorted(config.paths()) for one in str(scalars[key]).split(",") if one]
    files += [one for folder in files if folder.is_dir() for one in sorted(folder.iterdir())]
    files += [Path(config.public_rows).with_name("schema.toml")] if config.public_rows else []
    files += sorted(Path(__file__).parents[1].rglob("*.py"))
    for one in config.models:
        module, _, name = one.partition(":")
        if name and (found := importlib.util.find_spec(module)) and found.origin:
            files.append(Path(found.origin))  # of a user's own model
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files if path.is_file()]
    told = json.dumps([scalars, installed_versions(), stats], sort_keys=True)
    return output_root(config.output_dir) / "choose" / f"{hashlib.sha256(told.encode()).hexdigest()[:32]}.json"


def about_seconds(config: RunConfig) -> float:
    """Return about how many seconds a run takes: so many fits of its model, of which one is timed."""
    pool, count = simulated_pool(config), config.num_parties
    rows = max(dealt(config, count), key=len)
    model = model_factory(pick_model(config.model, 0), pool.public)(seed=0)
    began = time.monotonic()
    with contextlib.suppress(Exception):  # a run that fails says so itself
        model.fit(pool.as_read_by(model).X[rows], pool.y[rows])
    own = config.own
    fits = own.students * (1 + own.teachers) if isinstance(own, FedKTConfig) else 2
    return (time.monotonic() - began) * count * (fits + 2 + 2 * min(config.rounds - 1, 3))
