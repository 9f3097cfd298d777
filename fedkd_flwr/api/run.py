"""A run in this process: what `fedkd simulate` does in processes of its own, to the same digits."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flwr.app import Message
from threadpoolctl import threadpool_limits

from fedkd_flwr.api.result import FederationResult
from fedkd_flwr.app.choose import Comparison, choose
from fedkd_flwr.app.client_app import app
from fedkd_flwr.app.find_run import LOG, new_run_id
from fedkd_flwr.app.live_run import captured_log
from fedkd_flwr.app.output import output_root
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.files import disk_not_awaited, write_atomic
from fedkd_flwr.models.given import name_of
from fedkd_flwr.simulation import run as simulation
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.simulation.rows import party_name
from fedkd_flwr.stores.files import file_name

__all__ = ["chosen", "run"]

_MODELS = ("model", "teacher-model", "student-model", "final-model")
_one_at_a_time = threading.RLock()  # Flower's identity of a process, and its log, are one for all threads


def run(values: Mapping[str, Any], classes: Mapping[str, Any], *, progress: bool = True) -> FederationResult:
    """Run one federation in this process by settings as ``flwr run`` takes them; errors are the command line's.

    A model may also be an object, and ``model`` a dict of one for each party's name. ``classes`` maps each class's name
    to what the user's label column holds.
    """
    with _one_at_a_time, disk_not_awaited(), captured_log() as said, _shown(progress) as show:
        show("loading the data")
        config = simulation.checked(_named(values))
        run_id, count = new_run_id(), config.num_parties
        folder = output_root(config.output_dir) / "runs" / run_id
        nodes = [{"partition-id": i, "num-partitions": count} for i in range(count)]

        def make_grid(values: dict[str, Any], *, run_id: int) -> InProcessGrid:
            return _Grid(app, nodes, values, run_id=run_id, progress=simulation.progress_of(values, show))

        try:
            record = simulation.run(config, make_grid, run_id=run_id, say=show)
        finally:
            if folder.is_dir():
                write_atomic(folder / LOG, "".join(f"{line}\n" for line in said).encode(errors="replace"))
    files = {"": folder / "model.fedkd"}
    files |= {party.name: folder / "parties" / f"{file_name(party.name)}.model" for party in record.parties}
    models = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
    return FederationResult(record=record, model_bytes=models, values=dict(classes))


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run with its models by name."""
    by_party = values.get("model") if isinstance(values.get("model"), Mapping) else None
    named = {key: _spec(value) if key in _MODELS else value for key, value in values.items() if value is not by_party}
    if by_party is None:
        return named
    config = simulation.checked(named)
    names = [party_name(i, config) for i in range(config.num_parties)]
    return {**named, "num-parties": config.num_parties, "model": _mixed(by_party, names)}


def chosen(values: Mapping[str, Any], *, progress: bool = True, **how: Any) -> Comparison:
    """Run candidates as `fedkd_flwr.app.choose.choose` does, in this process; ``how`` is told to it."""
    with _one_at_a_time, _shown(progress) as show:
        show("loading the data")
        return choose(_named(values), progress=show, **how)


def _spec(model: Any) -> str:
    return model if isinstance(model, str) else name_of(model)


def _mixed(model: Mapping[str, Any], names: list[str]) -> str:
    if {str(name) for name in model} != set(names):
        seen = ", ".join(map(str, model)) or "none"
        raise ConfigError(explain("model", f"be one model, or one for each party: {', '.join(names)}", seen))
    by_name = {str(name): _spec(one) for name, one in model.items()}
    return "mixed:" + ",".join(by_name[name] for name in names)


class _Grid(InProcessGrid):
    """A grid that computes on one thread, as each party's process does."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        with threadpool_limits(1):  # once for all parties: it looks through all libraries that are loaded
            return super().push_messages(messages)


@contextlib.contextmanager
def _shown(wanted: bool) -> Iterator[Callable[[str], None]]:
    """Yield what shows a line on how far the run is: in a terminal, or in a notebook that has widgets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a notebook without widgets
        from tqdm.auto import tqdm
    seen = sys.stderr.isatty() or any(base.__module__ == "tqdm.notebook" for base in tqdm.__mro__)
    with tqdm(bar_format="{desc}", leave=False, disable=not (wanted and seen)) as bar:
        yield bar.set_description_str
