"""Compare candidates on a user's own table: the same parties and seeds for each, simulated in this process.

A difference counts as one only where it is more than noise: the candidates meet the same splits of each seed, so their
differences are compared seed by seed, with Student's t and Bonferroni's correction for all pairs of candidates.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from fedkd_flwr.algorithms import cards
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.app import client_app, server_app
from fedkd_flwr.app.choose_text import ALONE, FIXED, Comparison, Whose
from fedkd_flwr.app.live_run import captured_log, installed_versions
from fedkd_flwr.app.models import model_factory
from fedkd_flwr.app.output import output_root
from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import ConfigError, FedkdError
from fedkd_flwr.files import disk_not_awaited, write_atomic
from fedkd_flwr.models.given import is_given
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.settings.config import RunConfig, parse_run_config
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.simulation.rows import dealt, simulated_pool
from fedkd_flwr.simulation.run import checked, run

__all__ = ["QUICK", "Comparison", "about_seconds", "candidates", "choose", "kept_file"]

QUICK = ("fedct:auto", "fedkt:auto")  # candidates unless all are asked for
_ALGORITHMS = ("fedct", "fedkt", "pate")  # those that send labels, and that any model can join
#: Candidates where an epsilon is given: each claims it for one record, against the server.
_PRIVATE: dict[str, dict[str, Any]] = {
    "noisy-sums": {"algorithm": "noisy-sums"},
    "fedkt:L2": {"algorithm": "fedkt", "fedkt.level": "L2", "noise": "gaussian"},
}


def candidates(num_classes: int, *, private: bool = False) -> dict[str, dict[str, Any]]:
    """Return the candidates by name, each with the settings that make it: algorithms that send labels, by consensus.

    Dawid-Skene is left out with two classes, where it harms. If ``private``, those that protect one record instead.
    """
    if private:
        return _PRIVATE
    found: dict[str, dict[str, Any]] = {}
    for name in _ALGORITHMS:
        config = cards()[name].config
        choices = get_args(config.model_fields["consensus"].annotation) if "consensus" in config.model_fields else ()
        for rule in choices:
            if rule != "dawid-skene" or num_classes > 2:
                found[f"{name}:{rule}"] = {"algorithm": name, config.keys()["consensus"]: rule}
        if not choices:
            found[name] = {"algorithm": name}
    return found


def choose(
    values: Mapping[str, Any],
    *,
    names: Sequence[str] = (),
    thorough: bool = False,
    seeds: int = 0,
    whose: Whose = "parties",
    figure: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Run each candidate with each seed, and return what they reach.

    ``values``: settings of a simulation. ``names``: which of `candidates`; by default `QUICK` ones, or all if
    ``thorough`` or private (with ``values["epsilon"]``). ``seeds``: how many, from ``values["seed"]`` on; 0: one, or
    five if ``thorough``. ``whose``: whose model counts. ``figure``: what candidates are ranked by; by default balanced
    accuracy where the classes are imbalanced, else accuracy. ``progress``: called with a line before the first run and
    after each.

    Runs that ended are kept in the folder ``choose`` of ``output-dir``, and are not repeated. A `KeyboardInterrupt`
    ends it with what is known; `Comparison.stopped` says so.
    """
    configs = _configs(values, names, thorough, seeds)
    records, failed, stopped = _records(configs, progress)
    if not records and stopped:
        raise KeyboardInterrupt
    if not records:
        raise ConfigError("Every run failed. " + "; ".join(f"{name}, {why}" for name, why in failed.items()))
    tried, kept = [*dict.fromkeys(name for name, _ in configs)], [*dict.fromkeys(seed for _, seed in configs)]
    if stopped:  # seeds that all candidates have had
        kept = [seed for seed in kept if all((name, seed) in records or name in failed for name in tried)] or kept[:1]
        records = {one: record for one, record in records.items() if one[1] in kept}
    first = next(iter(records.values()))
    rows = "own" if whose == "home" else "common"
    figure = figure or results.figure_used(first, rows)
    best = _best_alone(records, rows, figure)
    reached, why = [], {name: f"failed, {text}" for name, text in failed.items()}
    for seed in kept:
        beside = {name: records[name, seed] for name in tried if (name, seed) in records}
        for name, record in beside.items():
            reached.append(_reached(name, seed, record, "federated", figure))
            _note_missing(why, name, record, beside.values(), "federated", rows)
        if best in beside:
            reached.append(_reached(ALONE, seed, beside[best], "solo", figure))
            _note_missing(why, ALONE, beside[best], beside.values(), "solo", rows)
            reached.append(_fixed_answer(seed, beside[best], figure))
    return Comparison(
        values=pd.DataFrame(reached),
        names=[ALONE, *tried],
        seeds=kept,
        whose=whose,
        figure=figure,
        test_rows=results.test_rows(first).get(rows, 0),
        not_ranked=why,
        stopped=stopped,
    )


def _configs(
    values: Mapping[str, Any], names: Sequence[str], thorough: bool, seeds: int
) -> dict[tuple[str, int], RunConfig]:
    """Return the checked settings of each run by candidate and seed, as for `choose`."""
    private = values.get("epsilon", "none") != "none"
    first = checked({**values, "algorithm": "noisy-sums" if private else "fedct"}, parties=5)
    server_app.refuse_undrawn(first)
    values = {**values, "num-parties": first.num_parties}
    known = candidates(simulated_pool(first).public.num_classes, private=private)
    for name in names:
        check_choice("candidate", name, known)
    chosen = {name: known[name] for name in names or (known if thorough or private else QUICK)}
    return {  # all settings are checked before the first run; one seed of all candidates after another
        (name, seed): parse_run_config({**values, **settings, "seed": seed, "centralised": False})
        for seed in range(first.seed, first.seed + (seeds or (5 if thorough else 1)))
        for name, settings in chosen.items()
    }


def _records(
    configs: Mapping[tuple[str, int], RunConfig], progress: Callable[[str], None]
) -> tuple[dict[tuple[str, int], RunRecord], dict[str, str], str]:
    """Run what is given by candidate and seed, or take it from an earlier call.

    Return the records, why candidates failed, and how many runs were done if it was stopped.
    """
    records: dict[tuple[str, int], RunRecord] = {}
    failed: dict[str, str] = {}
    files = {one: kept_file(config) for one, config in configs.items()}
    todo = [one for one, file in files.items() if file is None or not file.is_file()]
    seconds = sum(map(about_seconds, (configs[one] for one in todo)))
    earlier = f", {len(configs) - len(todo)} of them done earlier" if len(todo) < len(configs) else ""
    told = f": about {max(round(seconds / 60), 1)} min" if todo else ""
    progress(f"{len(configs)} runs{earlier}{told}. Ctrl-C shows what is known by then.")
    began = time.monotonic()
    try:
        for number, ((name, seed), config) in enumerate(configs.items(), 1):
            if name not in failed:
                try:
                    records[name, seed] = _read_or_run(config, files[name, seed])
                except (FedkdError, RuntimeError) as error:
                    failed[name] = f"seed {seed}: {str(error).splitlines()[0]}"
            told = f"failed, {failed[name]}" if name in failed else "done"
            progress(f"run {number} of {len(configs)}: {name}, seed {seed}: {told} ({time.monotonic() - began:.0f} s)")
    except KeyboardInterrupt:
        return records, failed, f"{len(records)} of {len(configs)} runs"
    return records, failed, ""


def _read_or_run(config: RunConfig, file: Path | None) -> RunRecord:
    """Return the record of a run, from the file where it is kept if it can be read."""
    if file is None:
        return _run(config)
    with contextlib.suppress(FedkdError, OSError, ValueError):
        return RunRecord.load(file)
    record = _run(config)
    with contextlib.suppress(OSError):  # a full disk is no reason to lose the comparison
        write_atomic(file, record.to_json().encode())
    return record


def _best_alone(records: Mapping[tuple[str, int], RunRecord], rows: str, figure: str) -> str:
    """Return the candidate with which parties alone are best: nets alone train for as long as the federation did.

    All candidates are measured against these; figures of more seeds and more parties go before better ones.
    """

    def standing(name: str) -> tuple[int, int, float]:
        of = [record for (other, _), record in records.items() if other == name]
        known = [value for one in of if (value := one.mean_accuracies(figure).get(f"solo-{rows}")) is not None]
        tested = sum(len(_who(one, "solo", rows)) for one in of)
        return len(of), tested, statistics.fmean(known) if known else -math.inf

    return max({name for name, _ in records}, key=lambda name: (standing(name), name))


def _who(record: RunRecord, kind: str, rows: str) -> set[str]:
    """Return the parties whose models of a kind were tested."""
    return {party.name for party in record.parties if rows in getattr(party, kind)}


def _note_missing(
    why: dict[str, str], name: str, record: RunRecord, beside: Iterable[RunRecord], kind: str, rows: str
) -> None:
    """Note which parties lack a test that they have in other runs of the seed: the mean is of other parties."""
    if missing := sorted(set().union(*(_who(one, kind, rows) for one in beside)) - _who(record, kind, rows)):
        why.setdefault(name, f"seed {record.seed}: no figure of {', '.join(missing)}")


def _reached(name: str, seed: int, record: RunRecord, kind: str, figure: str) -> dict[str, Any]:
    """Return a row of `Comparison.values`: a figure of the models of one kind, and what a run cost."""
    known = record.figures_by_model(figure)
    row = {"candidate": name, "seed": seed, "parties": known.get(f"{kind}-common"), "home": known.get(f"{kind}-own")}
    if kind == "solo":
        return row
    sent = sum(one.bytes_up / len(one.answered) for one in record.rounds if one.answered)
    return {**row, "server": known.get("server-common"), "kilobytes_up": sent / 1000, "seconds": record.seconds}


def _fixed_answer(seed: int, record: RunRecord, figure: str) -> dict[str, Any]:
    """Return a row of `Comparison.values`: what one fixed answer has on a seed's test rows."""
    of = {"accuracy": results.baseline, "balanced_accuracy": results.fixed_answer}.get(figure)
    common, own = (of(record, rows) if of else None for rows in ("common", "own"))
    return {"candidate": FIXED, "seed": seed, "parties": common, "home": own, "server": common}


def _run(config: RunConfig) -> RunRecord:
    """Run one federation in this process, and return its record; nothing stays on disk."""
    with disk_not_awaited(), tempfile.TemporaryDirectory() as folder, captured_log():
        nodes = [{"partition-id": i, "num-partitions": config.num_parties} for i in range(config.num_parties)]
        return run(config.model_copy(update={"output_dir": folder}), partial(InProcessGrid, client_app.app, nodes))


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
