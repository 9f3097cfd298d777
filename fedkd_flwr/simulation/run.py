"""The one way from settings to a simulated run: of the command line, of Python, and of each candidate of a choice."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict

from fedkd_flwr.app.find_run import LOG, new_run_id
from fedkd_flwr.app.output import output_root
from fedkd_flwr.app.progress import Progress
from fedkd_flwr.app.public_rows import make_public
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.files import disk_not_awaited, make_folder
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import RunConfig, parse_run_config
from fedkd_flwr.simulation.parties import ProcessGrid, printed_to
from fedkd_flwr.simulation.rows import DEFAULT_PARTIES, check_simulation, counted, forget_rows, simulated_pool

__all__ = ["checked", "in_processes", "progress_of", "run", "with_drawn_rows"]

# who holds what is the same; what is learnt of it, and for how long, is the later run's
_OTHERS = {"name", "algorithm", "num_rounds", "fraction_parties", "resume_from", "server_epsilon_budget"}
_OTHERS |= {"centralised", "save_party_models", "tracking", "public_label_column", "public_rows", "draw_public_epsilon"}
_OTHERS |= {"model", "teacher_model", "student_model", "final_model"}


def checked(values: Mapping[str, Any], parties: int = DEFAULT_PARTIES) -> RunConfig:
    """Return a simulation's settings with its parties counted, after all checks that can be made before it is run.

    Nothing is written. Parties that the data name are counted there; others are ``parties`` unless the settings say.
    """
    forget_rows()
    config = counted(values, parties)
    check_simulation(config, config.num_parties)
    return config


def run(
    config: RunConfig,
    make_grid: Callable[..., Any],
    *,
    run_id: str = "1",
    page: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> RunRecord:
    """Run one federation by `checked` settings, and return its record.

    ``make_grid(values, run_id=...)`` makes the grid of a run; it is closed here. ``page``: draw the page, too. ``say``:
    gets a line that says what is done.
    """
    values = with_drawn_rows(config, config.as_scalars(), make_grid, say)
    return _federated(make_grid, values, run_id, page=page)


def _federated(make_grid: Callable[..., Any], values: dict[str, Any], run_id: str, *, page: bool = False) -> RunRecord:
    grid = make_grid(values, run_id=int(run_id))
    try:
        return federate(grid, Context(int(run_id), 0, {}, RecordDict(), values), page=page)
    finally:
        grid.close()


def progress_of(values: Mapping[str, Any], show: Callable[[str], None]) -> Callable[[str, int, int, int], None]:
    """Return the ``progress`` of a run's grid, which shows a line on how far the run is."""
    progress = Progress(parse_run_config(values).rounds)
    return lambda *at: show(progress.text(*at))


def in_processes(
    config: RunConfig, starter: BaseContext, show: Callable[[str], None], *, processes: int = 0, verbose: bool = False
) -> tuple[RunRecord, Path]:
    """Run one federation with its parties in ``processes`` at a time, 0: one for each core.

    Return its record, also where it failed or was stopped, and its folder. What is logged and printed meanwhile goes
    into a file there; with ``verbose`` to stderr. ``show`` gets a line that says how far it is.
    """
    run_id = new_run_id()
    folder = output_root(config.output_dir) / "runs" / run_id
    log = "" if verbose else str(folder / LOG)

    def make_grid(values: dict[str, Any], *, run_id: int) -> ProcessGrid:
        more: dict[str, Any] = {"processes": processes, "log": log, "progress": progress_of(values, show)}
        return ProcessGrid(starter, config.num_parties, values, run_id=run_id, **more)

    with disk_not_awaited():
        try:
            make_folder(folder)
        except OSError as error:
            way_out = (
                "Name another folder: output-dir=FOLDER, and --output-dir FOLDER where other commands look for it."
            )
            seen = f"{folder} ({error})"
            raise ConfigError(explain("output-dir", "be a folder that can be written", seen, way_out)) from error
        with printed_to(log):
            try:
                return run(config, make_grid, run_id=run_id, page=True, say=show), folder
            except (Exception, KeyboardInterrupt) as error:
                if not (folder / "record.json").is_file():
                    raise
                traceback.print_exception(error)  # into the log; the record says how the run ended
                return RunRecord.load(folder / "record.json"), folder


def with_drawn_rows(
    config: RunConfig,
    values: Mapping[str, Any],
    make_grid: Callable[..., Any],
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Return a run's settings with the file of rows drawn from noisy sums among the same parties.

    They are as many as the data set's own public part has. Where no rows are to be drawn, or a run that is continued
    has its own, the settings are as they were.
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
    run_id = new_run_id()
    _federated(make_grid, first, run_id)
    folder = output_root(config.output_dir) / "runs" / run_id
    drawn = folder / "public"
    make_public(str(folder), drawn, rows=simulated_pool(config).public.num_rows)
    return {**values, "public-rows": str(drawn / "public.csv"), "schema-path": str(drawn / "schema.toml")}
