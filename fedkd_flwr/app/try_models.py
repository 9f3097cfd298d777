"""A user's own models, tried on a few rows before round 1, in a process that can be ended.

In a simulation these are all models that the run names; a real server tries its own one, on public rows.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.app.models import model_factory
from fedkd_flwr.checks import read_word
from fedkd_flwr.data.datasets import Pool
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import ConfigError, FedkdError, LimitError, ModelBytesError, cause, is_users, place_of
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.given import is_given
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.processes.limits import Limits, limits_of
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.simulation.rows import simulated_pool

__all__ = ["try_final_model", "try_models"]

_ROWS = 24
_SECONDS = 120.0  # some libraries are imported slowly
_FRAME = re.compile(r'File "([^"]+)", line (\d+) in (\S+)')


def try_models(config: RunConfig, num_parties: int) -> list[Note]:
    """Fit each model that the run names by import string to a few of the simulated rows, and let it answer some.

    Returns notes on what works and may surprise: a model that writes into its rows, cannot repeat itself, or cannot be
    stored. Nothing of the module is imported in this process.
    """
    if not hasattr(os, "fork"):
        return []
    specs = [config.model_of(role) for role in ("model", *config.card.roles)]
    named = dict.fromkeys(pick_model(spec, i) for spec in specs if spec for i in range(num_parties))
    return [note for spec in named if _is_own(spec) for note in _tried(spec, simulated_pool(config))]


def try_final_model(config: RunConfig, public: PublicSet) -> list[Note]:
    """Do what `try_models` does with the model that a real server trains: on public rows, with made-up labels.

    What fails there would otherwise fail after all parties have answered.
    """
    roles = ("final", "student", "model") if "final" in config.card.roles else ()
    spec = next(filter(None, map(config.model_of, roles)), "")
    if not _is_own(picked := pick_model(spec, 0)) or not hasattr(os, "fork"):
        return []
    rows = np.arange(public.num_rows)
    y = (rows % public.num_classes).astype(np.int16)
    nothing = public.X[:0], y[:0]
    pool = Pool(
        X=public.X,
        y=y,
        X_test=nothing[0],
        y_test=nothing[1],
        public=public,
        rows=rows,
        texts=public.texts,
        test_texts=None if public.texts is None else public.texts[:0],
    )
    return _tried(picked, pool)


def _is_own(spec: str) -> bool:
    name, _ = read_word("model", spec)
    return ":" in name and not is_given(name)


def _tried(spec: str, pool: Pool) -> list[Note]:
    usual = limits_of(_SECONDS, 0.0)
    name, memory = f"model {spec}", usual.memory if usual else 0
    names = (f"time for a fit of {_ROWS} rows", "three quarters of this machine's memory")
    way_out = "No run would end with it: name a smaller model, or look at where it was."
    trial = Limits(seconds=_SECONDS, memory=memory, what=f"Before round 1 {name}", names=names, way_out=way_out)
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = json.loads(trial(partial(_trial, spec, pool, Path(folder))))
            return [Note(code, {"model": spec, **values}) for code, values in told]
        except LimitError as error:
            where = _where(Path(folder) / "stack")
            raise ConfigError(f"{error}{f' It was at {where}.' if where else ''}", code=error.code) from error
        except FedkdError as error:
            text = f"{name} failed before round 1, on {_ROWS} rows: {cause(error)}"
            raise ConfigError(text, code=error.code) from error


def _where(stack: Path) -> str:
    """Return the line of the user's code that a process was at when it had taken too long."""
    text = stack.read_text(encoding="utf-8", errors="replace") if stack.is_file() else ""
    found = [frame for frame in _FRAME.findall(text) if is_users(frame[0])]
    return f"{Path(found[0][0]).name}, line {found[0][1]}, in {found[0][2]}" if found else ""


def _trial(spec: str, pool: Pool, folder: Path) -> bytes:
    """Do the trial; return codes and values of its notes as JSON."""
    with (folder / "stack").open("w") as stack:
        faulthandler.dump_traceback_later(max(_SECONDS * 0.9, _SECONDS - 1.0), file=stack)
        try:
            return json.dumps(_notes(spec, pool)).encode()
        finally:
            faulthandler.cancel_dump_traceback_later()


def _notes(spec: str, pool: Pool) -> list[tuple[str, dict[str, Any]]]:
    notes: list[tuple[str, dict[str, Any]]] = []
    make = model_factory(spec, pool.public)
    model = make(seed=1)
    read, rows = pool.as_read_by(model), _few(pool.y)
    X, y, public = read.X[rows], pool.y[rows], read.public.X[:_ROWS].copy()
    model._lends_copies = False  # to see whether it writes into them
    given = [array.copy() for array in (X, public)]
    model.fit(X, y)
    writing = [model.template.fit] * (not np.array_equal(X, given[0]))
    labels = model.predict(public)
    writing += [model.template.predict] * (not np.array_equal(public, given[1]))
    if writing:
        notes.append((NoteCode.WRITES_INTO_ROWS, {"where": " and ".join(map(place_of, writing))}))
    X, public = given
    same = np.array_equal(model.predict(public.copy()), labels)
    if not same or not np.array_equal(make(seed=1).fit(X.copy(), y.copy()).predict(public.copy()), labels):
        notes.append((NoteCode.NOT_REPEATABLE, {"where": place_of(model.template.predict)}))
    if model.gives_probabilities:
        model.predict_proba(public.copy())
        notes += [(NoteCode.DIVIDED_BY_SUM, model.scaled)] if model.scaled else []
    if model.continues:
        model.update(X.copy(), y.copy(), public.copy(), labels, steps=1).predict(public.copy())
        notes += [(NoteCode.NOT_STORABLE, {"failure": failure})] if (failure := _not_stored(model)) else []
    return notes


def _not_stored(model: Classifier) -> str:
    """Return why a model cannot be stored; "" where it can."""
    from fedkd_flwr.models.serialize import dumps, loads

    try:
        loads(dumps(model), trust=True)  # as in the next round
    except ModelBytesError as error:
        return str(error)
    return ""


def _few(y: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return a few rows with as many classes as fit: the first of each class, then the second, and so on."""
    rank = pd.Series(y).groupby(y).cumcount()
    return np.sort(np.lexsort((y, rank))[:_ROWS])
