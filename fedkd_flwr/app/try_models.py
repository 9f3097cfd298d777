"""A user's own models, tried on a few rows before round 1, in a process that can be ended.

In a simulation these are all models that the run names; a real server tries its own one, on public rows. One that a
program gave as an object is tried in the program's process: not all libraries that it uses survive a fork.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.app.models import common_kind, model_factory
from fedkd_flwr.checks import read_word
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import Code, ConfigError, FedkdError, LimitError, ModelBytesError, cause, place_of
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.given import is_given, shown
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.processes.limits import Limits, can_have_child, limits_of
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.simulation.rows import simulated_pool

__all__ = ["try_final_model", "try_models"]

_ROWS = 24
_SECONDS = 120.0  # some libraries are imported slowly


Reading = Callable[[Classifier], NDArray[Any]]  # rows as a model reads them


def try_models(config: RunConfig, num_parties: int) -> list[Note]:
    """Fit each model that the run names by import string to a few of the simulated rows, and let it answer some.

    Returns notes on what works and may surprise: a model that cannot repeat itself, or cannot be stored. No module of
    theirs is imported in this process.
    """
    specs = [config.model_of(role) for role in ("model", *config.card.roles)]
    named = dict.fromkeys(pick_model(spec, i) for spec in specs if spec for i in range(num_parties))
    own = list(filter(_is_own, named))
    if not own:
        return []
    pool = simulated_pool(config)
    rows = _few(pool.y)
    return [
        note
        for spec in own
        for note in _tried(spec, pool.public, lambda model: pool.as_read_by(model).X[rows], pool.y[rows])
    ]


def try_final_model(config: RunConfig, public: PublicSet) -> list[Note]:
    """Do what `try_models` does with the model that a real server trains: on public rows, with made-up labels.

    What fails there would otherwise fail after all parties have answered.
    """
    roles = ("final", "student", "model") if "final" in config.card.roles else ()
    spec = next(filter(None, map(config.model_of, roles)), "")
    if not spec or not _is_own(spec := common_kind(spec, public)):
        return []
    y = (np.arange(public.num_rows)[:_ROWS] % public.num_classes).astype(np.int16)
    return _tried(spec, public, lambda model: public.as_read_by(model).X[: len(y)], y)


def _is_own(spec: str) -> bool:
    name, _ = read_word("model", spec)
    return ":" in name and (is_given(name) or can_have_child())


def _tried(spec: str, public: PublicSet, read: Reading, y: NDArray[np.int16]) -> list[Note]:
    usual = limits_of(_SECONDS, 0.0)
    name, memory = f"model {shown(spec)}", usual.memory if usual else 0
    names = (f"time for a fit of {_ROWS} rows", "three quarters of this machine's memory")
    way_out = "No run would end with it: name a smaller model."
    trial = Limits(seconds=_SECONDS, memory=memory, what=f"Before round 1 {name}", names=names, way_out=way_out)
    work = partial(_notes, spec, public, read, y)
    try:
        told = work() if is_given(spec) else json.loads(trial(lambda: json.dumps(work()).encode()))
        return [Note(code, {"model": shown(spec), **values}) for code, values in told]
    except LimitError as error:
        raise ConfigError(str(error), code=error.code) from error
    except Exception as error:  # a given model may raise anything
        text = f"{name} failed before round 1, on {_ROWS} rows (an array: no column has a name): {cause(error)}"
        raise ConfigError(text, code=error.code if isinstance(error, FedkdError) else Code.INTERNAL) from error


def _notes(spec: str, public: PublicSet, read: Reading, y: NDArray[np.int16]) -> list[tuple[str, dict[str, Any]]]:
    """Do the trial; return codes and values of its notes. Each call gets rows of its own, which a model may change."""
    notes: list[tuple[str, dict[str, Any]]] = []
    make = model_factory(spec, public)
    model = make(seed=1)
    X, asked = read(model), public.as_read_by(model).X[:_ROWS]
    labels = model.fit(X.copy(), y.copy()).predict(asked.copy())
    same = np.array_equal(model.predict(asked.copy()), labels)
    if not same or not np.array_equal(make(seed=1).fit(X.copy(), y.copy()).predict(asked.copy()), labels):
        notes.append((NoteCode.NOT_REPEATABLE, {"where": place_of(model.template.predict)}))
    if model.gives_probabilities:
        model.predict_proba(asked.copy())
        notes += [(NoteCode.DIVIDED_BY_SUM, model.scaled)] if model.scaled else []
    if model.continues:
        model.update(X.copy(), y.copy(), asked.copy(), labels, steps=1).predict(asked.copy())
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
