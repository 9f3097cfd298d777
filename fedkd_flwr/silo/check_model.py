"""Whether a silo's model trains, tried on a sample in a process that can be ended, and what it will take."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.app.assembly import refuse_foreign_code
from fedkd_flwr.app.models import model_factory, own_model
from fedkd_flwr.clients.party import ModelFactory
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.tables import load_usable_rows
from fedkd_flwr.errors import Code, FedkdError, LimitError, RefusalError, cause
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.processes.limits import Limits, limits_of
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.settings.node_config import NodeConfig
from fedkd_flwr.silo.check import Finding, Level, finding_of

__all__ = ["check_model"]

_TRIAL_S, _TRIAL_ROWS, _PUBLIC_ROWS = 20.0, 1000, 64


def check_model(node: NodeConfig, run: RunConfig, public: PublicSet) -> Iterator[Finding]:
    """Yield whether the model trains, how long it takes and how much memory.

    It is tried on public rows with made-up labels first: a fault that shows there, no private row decides.

    Parameters
    ----------
    node, run : NodeConfig and RunConfig
        Which model it is: the node's own, or the run's.
    public : PublicSet
    """
    spec, params = own_model(run, node)
    spec = pick_model(spec, derive_seed(0, node.party))
    name = f"model {spec}{f' ({params})' if params else ''}"
    change = f'In the node config: model="random-forest", or mend the code of {spec.partition(":")[0]}.'
    if ":" not in spec:
        change = "Name another model or other parameters in the node config: docs/your-model.md lists them."
    try:
        refuse_foreign_code(run, node)
        make = model_factory(spec, params, public)
        read = public.as_read_by(make(seed=0))
        made_up = np.arange(min(public.num_rows, _PUBLIC_ROWS)) % public.num_classes
        _trial(make, read.X[: len(made_up)], made_up.astype(np.int16), read.X[:_PUBLIC_ROWS])
    except Exception as error:
        yield _model_fault(name, error, change, private=False)
        return
    held = load_usable_rows(node.data_path, read)
    X, y = held.X[held.y >= 0], held.y[held.y >= 0]
    order = np.random.default_rng(0).permutation(len(y))[:_TRIAL_ROWS]
    try:
        tried = _trial(make, X[order], y[order], read.X)
    except Exception as error:
        yield _model_fault(name, error, change, private=True)
        return
    what = f"{name} learns from {len(order):,} of the rows, and labels public rows"
    yield Finding(subject="model", level=Level.READY, what=what, private=True)
    yield _time(node, tried, len(order), len(y))


def _time(node: NodeConfig, tried: Mapping[str, float], count: int, total: int) -> Finding:
    seconds, memory = _estimate(tried, count, total)
    what = (
        f"about {seconds:,.1f} s and {memory / 1e6:,.0f} MB for one model of {total:,} rows, and its labels of the "
        f"public rows (measured on {count:,}); a run may train several"
    )
    limits = limits_of(node.round_limit_s, node.memory_limit_gb)
    if limits is not None and (0 < limits.seconds < seconds or (0 < limits.memory < memory)):
        way_out = (
            f"Raise round-limit-s (now {node.round_limit_s:g}) or memory-limit-gb in the node config, or name a "
            "smaller model."
        )
        return Finding(subject="time", level=Level.WARNING, what=what, way_out=way_out, private=True)
    return Finding(subject="time", level=Level.READY, what=what, private=True)


def _trial(make: ModelFactory, X: NDArray[Any], y: NDArray[np.int16], X_public: NDArray[Any]) -> dict[str, float]:
    """Fit a model to some rows, and to half of them; let it label public rows; return seconds and bytes.

    In a process of its own that is ended after 20 s, where this system can fork.
    """

    def work() -> bytes:
        import resource

        def used() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

        before, found = used(), {}
        for name, count in (("half", max(len(y) // 2, 1)), ("whole", len(y))):
            began = time.perf_counter()
            model = make(seed=0).fit(X[:count], y[:count])
            found[name] = time.perf_counter() - began
        began = time.perf_counter()
        model.predict(X_public)
        found |= {"labels": time.perf_counter() - began, "before": before, "memory": used() - before}
        return json.dumps(found).encode()

    if not hasattr(os, "fork"):
        model = make(seed=0).fit(X, y)
        model.predict(X_public)
        return {}
    usual = limits_of(_TRIAL_S, 0.0)
    limits = Limits(
        seconds=_TRIAL_S,
        memory=usual.memory if usual else 0,
        what=f"Learning from {len(y):,} rows",
        names=(f"the {_TRIAL_S:g} s of this trial", "three quarters of this machine's memory"),
        way_out="Name a smaller model in the node config.",
    )
    found: dict[str, float] = json.loads(limits(work))
    return found


def _estimate(tried: Mapping[str, float], count: int, total: int) -> tuple[float, float]:
    """Return seconds and bytes for all rows, from what some of them took: the power law that two sizes suggest.

    >>> _estimate({"half": 1.0, "whole": 2.0, "labels": 0.5, "before": 10.0, "memory": 5.0}, 100, 1000)
    (20.5, 60.0)
    """
    if not tried:
        return math.nan, math.nan
    times = total / max(count, 1)
    power = math.log2(max(tried["whole"], 1e-4) / max(tried["half"], 1e-4)) if tried["whole"] > 0.05 else 1.0
    seconds = tried["whole"] * times ** min(max(power, 0.5), 2.5) + tried["labels"]
    return seconds, tried["before"] + tried["memory"] * times


def _model_fault(name: str, error: Exception, change: str, *, private: bool) -> Finding:
    if isinstance(error, FedkdError) and error.code == Code.MISSING_EXTRA:
        return finding_of("extras", error, private=private)
    if isinstance(error, RefusalError):
        return finding_of("run", error, private=private)
    if isinstance(error, LimitError):
        return finding_of("time", error, way_out=change, private=private)
    what = f"{name} fails: {cause(error)}"
    return Finding(subject="model", level=Level.FAULT, what=what, way_out=change, private=private)
