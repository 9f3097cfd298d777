"""`fedkd_flwr.simulate`: a whole federation on a user's own rows, in one call.

The run is in this process: what `fedkd simulate` does in processes of its own, to the same digits.
"""

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
from fedkd_flwr.api.rows import given_rows, settings_of
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

__all__ = ["chosen", "run", "simulate"]


def simulate(
    data: Any = "digits",
    *,
    label: str = "label",
    parties: Any = None,
    model: Any = None,
    public: Any = None,
    test: Any = None,
    algorithm: str = "fedkt",
    progress: bool = True,
    **settings: Any,
) -> FederationResult:
    """Simulate a federation on your rows, and return how good its models are, and the models.

    It is the run that ``fedkd simulate`` makes with the same settings (its default is FedCT), to the last digit.

    Parameters
    ----------
    data : DataFrame, tuple, dict, str, path or list
        Rows with a label: a frame of pandas, polars or pyarrow; a pair (X, y); a dict with either for each party; the
        name of a data set; a file; or a folder or list of files, one for each party.
    label : str
        The column to predict. Labels may be texts, numbers or truth values, and come back as they are.
    parties : str, int or array of shape (n,), optional
        The column that says whose row it is, or one name a row. Or a number of parties, to whom rows are split at
        random (``partitioner``, ``dirichlet_alpha``); 10 by default.
    model : estimator, torch module, class, function, str or dict, optional
        The parties' model, or a dict with one for each party's name. A fresh copy learns at each party; where its
        ``random_state`` is None, it is drawn from the run's seed. A mixture of kinds by default.
    public : frame, array or path, optional
        Rows that all parties may see; they need no label. By default a quarter of the rows is held out for that. Of
        rows that `make_public` drew give the file: then the record says what they cost.
    test : frame, tuple or path, optional
        Labelled rows on which all models are measured. By default a quarter of the rows is held out.
    algorithm : str
        Such as fedkt, fedct, pate, privatekt or fedmd.
    progress : bool
        Whether to show how far the run is.
    **settings
        Any other setting of a run, in snake_case: ``seed=3``, ``num_public=500``, ``epsilon=1.0``,
        ``name="first"``. ``fedkd settings`` lists them.

    Returns
    -------
    FederationResult
        Show it in a notebook, or print it. The run is among `runs`, too.

    Raises
    ------
    FedkdError
        If a setting, the rows or a model do not fit, or too few parties answer. `ConfigError` and `DataError`, which
        are kinds of it, are kinds of `ValueError` too.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd, fedkd_flwr as fk
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rows = pd.DataFrame({"age": [*range(20, 80)] * 2, "hospital": ["north"] * 60 + ["south"] * 60})
    >>> rows["ill"] = rows.age > 50
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = fk.simulate(rows, label="ill", parties="hospital", model=GaussianNB(), output_dir=folder)
    >>> done.predict(pd.DataFrame({"age": [25, 75]})).tolist()
    [False, True]
    """
    given = {"save_party_models": True, "algorithm": algorithm, "model": model, **settings}
    with given_rows(data, label=label, parties=parties, public=public, test=test) as (rows, values):
        return run({**rows, **settings_of(given)}, values, progress=progress)


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
