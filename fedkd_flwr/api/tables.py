"""`choose`, `compare` and `runs` as the command line has them, as tables of pandas; and models that runs left."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedkd_flwr.api.result import FederationResult
from fedkd_flwr.api.rows import given_rows, settings_of
from fedkd_flwr.api.simulate import chosen
from fedkd_flwr.app.find_run import OUTPUT, find_runs
from fedkd_flwr.app.predict import find_models
from fedkd_flwr.app.runs import list_runs
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import compare as comparing
from fedkd_flwr.stores import saved_model

__all__ = ["choose", "compare", "load", "runs"]


def load(
    path: str | os.PathLike[str] = "last", party: str = "", *, trust: bool = False, output_dir: str | Path = OUTPUT
) -> saved_model.SavedModel:
    """Read a model that a run left: the server's, or a party's.

    ``path``: the model's file; or a run's id, name or folder, or "last". ``party``: of a run, whose model. ``trust``:
    that you trust whoever wrote the file (docs/howto/predict.md). Raises `DataError` where no model is meant, or
    several, and otherwise as `fedkd_flwr.stores.saved_model.load`.
    """
    paths = find_models(str(path), output_dir, party=party)
    if len(paths) > 1:
        raise DataError(explain(f"run {path}", "have left one model", f"{len(paths)}, of parties", "Give party=NAME."))
    return saved_model.load(paths[0], trust=trust)


def runs(output_dir: str | os.PathLike[str] = OUTPUT, *, limit: int = 0) -> pd.DataFrame:
    """Return a row for each run on this disk, by its id, the newest first.

    Parameters
    ----------
    output_dir : path
        The folder of results; ``~/.fedkd`` by default.
    limit : int
        How many; 0: all.

    Returns
    -------
    DataFrame
        Among its columns: ``name``, ``algorithm``, ``data``, ``parties``, ``status``, ``figure`` (its name), ``value``
        (what was reached) and ``record`` (the path of its file).
    """
    lines, _ = list_runs(Path(output_dir), limit=limit)
    flat = [{**line, **(found if isinstance(found := line.get("figure"), Mapping) else {})} for line in lines]
    return pd.DataFrame(flat).set_index("run_id") if flat else pd.DataFrame()


def compare(
    *runs: FederationResult | RunRecord | str, by: str = "", output_dir: str | os.PathLike[str] = OUTPUT
) -> pd.DataFrame:
    """Return what runs reached beside each other, and which differences are more than noise.

    Runs that differ only in their seed are one group. Each group is compared with that of the first run, seed by seed.
    Raises `DataError` if there is no such run.

    Parameters
    ----------
    *runs : FederationResult, RunRecord or str
        Results of `simulate`, or what ``fedkd compare`` takes: ids, names (of all runs that have it) or paths.
    by : str
        The figure, such as balanced_accuracy; by default what fits.
    output_dir : path
        The folder whose runs are searched for names.

    Returns
    -------
    DataFrame
        A row for each group and whose models these are: the settings that differ, the mean over seeds and its
        ``deviation``, and for the later groups ``difference`` to the first one, half the width of its 95 % interval
        (``plus_minus``), the number of ``seeds``, and the ``verdict`` in words. ``attrs["text"]`` is what the command
        line prints.
    """
    records: dict[str, RunRecord] = {}
    for one in runs:
        if isinstance(one, str | os.PathLike):
            known = [RunRecord.load(path) for path in find_runs(str(one), Path(output_dir))]
        else:
            known = [one.record if isinstance(one, FederationResult) else one]
        records |= {record.run_id: record for record in known}
    return comparing.compare(list(records.values()), figure=by.replace("-", "_")).frame()


def choose(
    data: Any = "digits",
    *,
    label: str = "label",
    parties: Any = None,
    candidates: Sequence[str] = (),
    thorough: bool = False,
    seeds: int = 0,
    whose: str = "parties",
    by: str = "",
    progress: bool = True,
    **settings: Any,
) -> pd.DataFrame:
    """Compare algorithms and consensus rules on your rows, each with the same parties, the best first.

    Runs that ended are kept in ``output_dir`` and not repeated, unless ``model`` is an object, whose code may change.

    Parameters
    ----------
    data, label, parties, **settings
        As of `simulate`; ``model``, ``public`` and ``test`` among them. Without parties, rows are split among 5.
    candidates : sequence of str
        Such as ``["fedct:majority", "fedkt:majority"]``; by default ``["fedct:auto", "fedkt:auto"]``.
    thorough : bool
        All candidates that send labels instead, each with five seeds: ``fedkd choose --thorough``.
    seeds : int
        Repetitions, each with other parties; 0: one, or five if thorough. Of one nothing can be said about noise.
    whose : {"parties", "home", "server"}
        Whose model counts: the parties' on common test rows, on their own, or the server's.
    by : str
        accuracy or balanced_accuracy; by default what fits.
    progress : bool
        Whether to show how far it is.

    Returns
    -------
    DataFrame
        A row for each candidate: ``mean`` and ``deviation`` over the seeds, ``clear`` (whether it is worse than the
        first by more than noise), ``kilobytes_up`` a party, ``seconds``, and why it has no place (``not_ranked``).
        ``attrs["text"]`` is what the command line prints.

    Raises
    ------
    FedkdError
        As `simulate`, or if a candidate is not known.
    """
    rows_of = {key: settings.pop(key, None) for key in ("public", "test")}
    with given_rows(data, label=label, parties=parties, **rows_of) as (rows, _):
        how = {"names": candidates, "thorough": thorough, "seeds": seeds, "whose": whose}
        how["figure"] = by.replace("-", "_")
        return chosen({**rows, **settings_of(settings)}, progress=progress, **how).frame()
