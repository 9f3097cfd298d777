"""A simulation without public rows: noisy sums among the same parties first, and rows drawn of what they released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import Context, RecordDict

from fedkd_flwr.app.find_run import new_run_id
from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.public_rows import make_public
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.simulation.rows import simulated_pool

__all__ = ["with_drawn_rows"]

# who holds what is the same; what is learnt of it, and for how long, is the later run's
_OTHERS = {"name", "algorithm", "num_rounds", "fraction_parties", "resume_from", "server_epsilon_budget"}
_OTHERS |= {"centralised", "save_party_models", "tracking", "public_label_column", "public_rows", "draw_public_epsilon"}
_OTHERS |= {"model", "teacher_model", "student_model", "final_model"}


def with_drawn_rows(
    config: RunConfig,
    values: Mapping[str, Any],
    make_grid: Callable[..., Any],
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return a run's settings with the file of drawn rows, as many as the data set's own public part has.

    Where no rows are to be drawn, or a run that is continued has its own, they are as they were. ``make_grid(values,
    run_id=...)`` makes the grid of a run; it is closed here. ``say``: gets a line that says what is done.
    """
    if not config.draw_public_epsilon or (config.resume_from and config.public_rows):
        return dict(values)
    if config.public_rows:
        way_out = "Drop one of them."
        raise ConfigError(explain("draw-public-epsilon", "not be given with public-rows", config.public_rows, way_out))
    say(f"drawing public rows from noisy sums of epsilon {config.draw_public_epsilon:g}")
    same = {key: values[key] for name, key in config.keys().items() if key in values and name not in _OTHERS}
    own = {"algorithm": "noisy-sums", "num-rounds": 1, "paper.party-models": False, "model": "decision-tree"}
    own["centralised"] = False
    name = {"name": f"{config.name[:90]}-public"} if config.name else {}
    first = {**same, **own, **name, "seed": config.seed, "epsilon": config.draw_public_epsilon}
    run_id, root = new_run_id(), output_root(config.output_dir)
    grid = make_grid(first, run_id=int(run_id))
    try:
        federate(grid, Context(int(run_id), 0, {}, RecordDict(), first), page=False)
    finally:
        grid.close()
    folder = root / "runs" / run_id
    drawn = folder / "public"
    make_public(str(folder), drawn, rows=simulated_pool(config).public.num_rows)
    return {**values, "public-rows": str(drawn / "public.csv"), "schema-path": str(drawn / "schema.toml")}
