"""Show that a change of the code leaves what runs compute as it was: the same small runs before and after, compared.

    python benchmarks/same_records.py run before --data-root data
    python benchmarks/same_records.py run after --data-root data
    python benchmarks/same_records.py compare before after

``run`` takes every run config of ``simulations/``, made small, and the table `EXTRAS` below, through the real ServerApp
and ClientApp on the tests' in-process grid: no Ray, one process, one thread. It keeps each run's ``record.json`` as
``OUT_DIR/NAME.json``. The package, ``pyproject.toml``, ``simulations/`` and ``tests/grid.py`` are those of the checkout
that this script lies in.

Keys are written here without their section. The script finds ``quorum`` and ``fedct.quorum`` alike, so it runs on a
checkout from before the sections and on one with them.

The noise of private runs comes from ``os.urandom``. Here a seeded generator takes its place for calls made by
`fedkd_flwr`, so that private runs repeat too. A difference in a private run alone may mean no more than that noise is
drawn in another order. Do not use such records for anything else: their claims do not know that the noise was seeded.

``compare`` ignores what two equal runs need not share (see `IGNORED` and `_comparable`), prints every other difference
and exits with 1 if there is any, or if a record stands on one side only.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
Config = dict[str, Any]

# --------------------------------------------------------------------------------------------- simulations, made small

# Set in every simulation, unless a file of partitions decides. 0 in a simulation means "all rows".
SIZES = {"num-public": 200, "num-private": 600, "num-test": 200}
# Upper bounds of settings that a simulation names.
CAPS = {
    "num-parties": 5,
    "num-rounds": 3,
    "num-queries": 100,
    "steps-per-round": 5,
    "local-epochs": 1,
    "paper.solo-epochs": 1,
    "public-rows-per-round": 100,
    "pretrain-epochs": 1,
    "initial-epochs": 1,
    "own-rows-epochs": 1,
}
# Upper bounds of models' parameters; of a list: of each of its numbers.
PARAM_CAPS = {"n_estimators": 5, "epochs": 1, "hidden": 16, "channels": 8}
FEWER_STEPS = "cnn-fedkt(batch_size=8, weight_decay=1e-6, epochs=3, lr=0.003)"
# Further settings of the simulations whose file's name contains this.
CHANGES: dict[str, Config] = {
    "-random-forest.": {"model": "random-forest(n_estimators=10)"},
    "-rulefit.": {"model": "rulefit(n_estimators=3, max_rules=20)", "num-rounds": 2},
    "-mixed": {"num-rounds": 2},
    "fedct-digits": {"model": "random-forest(n_estimators=10)"},
    # nets that have seen less give one class to all rows, and FedKT's first model cannot begin
    "fedkt-prox-": {"model": FEWER_STEPS, "student-model": FEWER_STEPS, "num-rounds": 2, "num-parties": 3},
    # The published files draw a subset of each party's rows (NFDP). `EXTRAS` covers that; here parties learn from all.
    "fedmd-": {"subset-rows": 0, "num-rounds": 2},
    # The partitions are given for 50 parties: no fewer can be asked for.
    "fedkt-adult.": {"num-parties": 50},
    "fedkt-adult-informative.": {"num-parties": 50},
}
LEFT_OUT: dict[str, str] = {}  # name of a simulation -> why it is not run

# ---------------------------------------------------------------------------------------------------- further settings

DIGITS: Config = {**SIZES, "dataset": "digits", "num-parties": 4, "model": "decision-tree"}
SYNTHETIC: Config = {**DIGITS, "dataset": "synthetic(rows=1200)"}
NET: Config = {"model": "mlp(hidden=[16], batch_size=16, lr=0.01, epochs=2)"}
# some parties hold one class only, and give it to every public row
UNEVEN: Config = {
    "dataset": "synthetic(rows=1200)",
    "num-parties": 8,
    "dirichlet-alpha": 0.1,
    "partitioner": "dirichlet(min_rows=5)",
    "party-test-fraction": 0.0,
}

VOTED: Config = {"consensus": "majority"}
FEDCT: Config = {**DIGITS, "algorithm": "fedct", "num-rounds": 3, "consensus": "majority"}
FEDKT: Config = {**DIGITS, "algorithm": "fedkt", "teachers-per-student": 3, **VOTED}
PATE: Config = {**DIGITS, "algorithm": "pate", "num-parties": 10, "partitioner": "iid", **VOTED}
PRIVATEKT: Config = {
    **DIGITS,
    **NET,
    "algorithm": "privatekt",
    "num-parties": 6,
    "num-rounds": 3,
    "local-epochs": 1,
    "paper.solo-epochs": 1,
}
FEDMD: Config = {
    **DIGITS,
    **NET,
    "algorithm": "fedmd",
    "num-rounds": 2,
    "public-rows-per-round": 100,
    "initial-epochs": 2,
}
DD: Config = {**DIGITS, **NET, "algorithm": "dd", "num-rounds": 2, "public-rows-per-round": 100, "steps-per-round": 10}
FEDPROX: Config = {**DIGITS, **NET, "algorithm": "fedprox", "num-rounds": 3, "local-epochs": 1}
FEDKT_PROX: Config = {
    **FEDPROX,
    **VOTED,
    "algorithm": "fedkt-prox",
    "num-rounds": 2,
    "teacher-model": "decision-tree",
    "student-model": "decision-tree",
    "teachers-per-student": 2,
}

EXTRAS: dict[str, Config] = {
    # FedCT
    "fedct-majority": FEDCT,
    "fedct-mixed-models": {**FEDCT, "model": "mixed:decision-tree,knn,logistic-regression,extra-trees"},
    "fedct-qualified-majority": {**FEDCT, "consensus": "qualified-majority", "quorum": 0.75},
    "fedct-qualified-majority-all": {**FEDCT, "consensus": "qualified-majority", "quorum": 1.0},
    "fedct-dawid-skene": {**FEDCT, "consensus": "dawid-skene"},
    "fedct-uninformative-leave-out": {**FEDCT, **UNEVEN, "one-class-voters": "leave-out"},
    "fedct-uninformative-half": {**FEDCT, **UNEVEN, "one-class-voters": "half"},
    "fedct-uninformative-counted": {**FEDCT, **UNEVEN, "one-class-voters": "count"},
    "fedct-ties-lowest": {**FEDCT, "ties": "lowest"},
    "fedct-stops": {**FEDCT, "seed": 2, "paper.stop-when-converged": True},
    "fedct-goes-on": {**FEDCT, "seed": 2, "paper.stop-when-converged": False},
    "fedct-net": {**FEDCT, **NET, "steps-per-round": 10},
    "fedct-net-dawid-skene": {
        **FEDCT,
        **NET,
        "steps-per-round": 10,
        "consensus": "dawid-skene",
    },
    "fedct-synthetic": {**DIGITS, "algorithm": "fedct", "dataset": "synthetic(rows=1200, features=8, classes=4)"},
    "fedct-pathological": {**FEDCT, "partitioner": "pathological(classes=4)"},
    "fedct-shard": {**FEDCT, "partitioner": "shard(blocks=3)"},
    "fedct-size-skewed": {**FEDCT, "partitioner": "size-skewed"},
    "fedct-class-order": {**FEDCT, "partitioner": "dirichlet(class_order='label')"},
    "fedct-inner-dirichlet": {**FEDCT, "partitioner": "inner-dirichlet", "seed": 5},
    "fedct-randomized-response": {**FEDCT, "label-mechanism": "randomized-response", "noise-strength": 3.0},
    "fedct-xor": {**FEDCT, "label-mechanism": "xor", "epsilon": 3000.0},
    # FedKT
    "fedkt-consistent": FEDKT,
    "fedkt-three-students": {**FEDKT, "students-per-party": 3},
    "fedkt-ties-lowest": {**FEDKT, "ties": "lowest"},
    "fedkt-uninformative-half": {**FEDKT, **UNEVEN, "one-class-voters": "half"},
    "fedkt-uninformative-leave-out": {**FEDKT, **UNEVEN, "one-class-voters": "leave-out"},
    "fedkt-no-party-models": {**FEDKT, "paper.party-models": False},
    "fedkt-roles": {
        **FEDKT,
        "teacher-model": "mixed:decision-tree,knn",
        "student-model": "extra-trees(n_estimators=5)",
        "final-model": "random-forest(n_estimators=10)",
    },
    "fedkt-net": {**FEDKT, **NET, "teachers-per-student": 2},
    "fedkt-synthetic": {**SYNTHETIC, "algorithm": "fedkt"},
    "fedkt-l1-gaussian": {
        **FEDKT,
        "num-parties": 10,
        "partitioner": "iid",
        "level": "L1",
        "noise": "gaussian",
        "epsilon": 20.0,
        "num-queries": 80,
    },
    "fedkt-l1-laplace": {**FEDKT, "partitioner": "iid", "level": "L1", "noise": "laplace", "noise-strength": 0.5},
    "fedkt-l1-counts": {
        **FEDKT,
        "partitioner": "iid",
        "level": "L1",
        "noise": "gaussian",
        "noise-strength": 1.0,
        "learn-from": "counts",
    },
    "fedkt-l1-confident": {
        **FEDKT,
        "num-parties": 10,
        "partitioner": "iid",
        "level": "L1",
        "noise": "confident-gaussian",
        "noise-strength": 1.0,
        "threshold": 6.0,
    },
    "fedkt-l2-laplace": {**FEDKT, "partitioner": "iid", "level": "L2", "noise": "laplace", "noise-strength": 0.5},
    # PATE
    "pate-plain": PATE,
    "pate-uneven": {**PATE, **UNEVEN, "one-class-voters": "half", "ties": "lowest"},
    "pate-counted": {**PATE, **UNEVEN, "one-class-voters": "count"},
    "pate-laplace": {**PATE, "noise": "laplace", "noise-strength": 0.5, "num-queries": 100, "final-model": "knn"},
    "pate-confident": {
        **PATE,
        "noise": "confident-gaussian",
        "epsilon": 60.0,
        "threshold": 5.0,
        "num-queries": 100,
    },
    # PrivateKT
    "privatekt-hard": {**PRIVATEKT, "transfer-rows": 4, "round-epsilon": 10.0},
    "privatekt-once": {
        **PRIVATEKT,
        "num-rounds": 2,
        "participation": "once",
        "fraction-parties": 0.5,
    },
    "privatekt-ties-lowest": {**PRIVATEKT, "ties": "lowest", "fraction-parties": 0.5},
    # FedMD
    "fedmd-logits": {**FEDMD, "answer-form": "logits"},
    "fedmd-softmax": {**FEDMD, "answer-form": "softmax"},
    "fedmd-argmax": {**FEDMD, "answer-form": "argmax"},
    "fedmd-trees": {**FEDMD, "model": "decision-tree"},
    "fedmd-mixed": {**FEDMD, "model": "mixed:mlp,decision-tree"},
    "fedmd-digests-last": {**FEDMD, "paper.final-own-rows": False},
    "fedmd-one-digest": {**FEDMD, "answer-form": "logits", "distillation-epochs": 1},
    "fedmd-no-revisit": {**FEDMD, "own-rows-epochs": 0},
    "fedmd-soft-bits-16": {**FEDMD, "score-bits": 16},
    "fedmd-logits-soft-bits-16": {**FEDMD, "answer-form": "logits", "score-bits": 16},
    "fedmd-pretrained": {**FEDMD, "public-label-column": "label", "pretrain-epochs": 2},
    "fedmd-subsets": {**FEDMD, "partitioner": "iid", "subset-rows": 40},
    "fedmd-subsets-without-replacement": {
        **FEDMD,
        "partitioner": "iid",
        "subset-rows": 40,
        "paper.subset-replacement": False,
    },
    "fedmd-laplace": {
        **FEDMD,
        "score-noise": "laplace",
        "noise-strength": 0.5,
        "answer-form": "logits",
    },
    "fedmd-randomized-response": {
        **FEDMD,
        "answer-form": "argmax",
        "label-mechanism": "randomized-response",
        "noise-strength": 3.0,
    },
    # distributed distillation
    "dd-softmax": DD,
    "dd-logits": {**DD, "answer-form": "logits", "distillation-weight": 2.0},
    "dd-argmax": {**DD, "answer-form": "argmax"},
    "dd-soft-bits-16": {**DD, "score-bits": 16},
    "dd-trees": {**DD, "model": "mixed:decision-tree,knn"},
    "dd-gaussian": {**DD, "score-noise": "gaussian", "epsilon": 50.0},
    # exchanges of weights
    "fedprox": {**FEDPROX, "proximal-mu": 0.5},
    "fedprox-average": {**FEDPROX, "proximal-mu": 0.0, "fraction-parties": 0.5, "paper.solo-epochs": 2},
    "fedprox-synthetic": {**SYNTHETIC, **NET, "algorithm": "fedprox", "num-rounds": 2},
    "fedkt-prox": FEDKT_PROX,
    "fedkt-prox-group": {**FEDKT_PROX, "proximal-mu": 1.0, "fraction-parties": 0.5},
}

# ---------------------------------------------------------------------------------------------------- keys and settings


def flatten(table: Mapping[str, Any], prefix: str = "") -> Config:
    """Return nested tables as one, keys joined by dots: what Flower makes of a run config.

    >>> flatten({"seed": 1, "fedct": {"quorum": 0.9}})
    {'seed': 1, 'fedct.quorum': 0.9}
    """
    flat: Config = {}
    for key, value in table.items():
        flat.update(flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value})
    return flat


def full_key(key: str, known: Iterable[str]) -> str:
    """Return the one key that ``key``, perhaps written without a section, means.

    >>> full_key("quorum", ["fedct.quorum", "seed"])
    'fedct.quorum'
    """
    if key in known:
        return key
    found = [name for name in known if name.rpartition(".")[2] == key]
    if len(found) != 1:
        sys.exit(f"{key} must be one key of pyproject.toml, got {found}.")
    return found[0]


def _small_params(text: str) -> str:
    """Return model parameters, ``a=1,b=2`` or JSON, with `PARAM_CAPS` applied."""

    def capped(name: str, value: Any) -> Any:
        cap = PARAM_CAPS.get(name)
        if isinstance(value, list):
            return [capped(name, item) for item in value]
        return value if cap is None else min(value, cap)

    from fedkd_flwr.checks import read_word

    name, params = read_word("model", text)
    return f"{name}({', '.join(f'{key}={capped(key, value)!r}' for key, value in params.items())})"


def _overrides(name: str, settings: Mapping[str, Any]) -> Config:
    """Return what makes a simulation small, by keys without sections."""
    named = {key.rpartition(".")[2]: value for key, value in settings.items()}
    caps = {**CAPS, **({} if str(named.get("partitioner")).startswith("file") else SIZES)}
    small: Config = {}
    for key, cap in caps.items():
        if key in named or key in SIZES:
            small[key] = min(named.get(key) or cap, cap)
    small.update({key: _small_params(value) for key, value in named.items() if key.endswith("model") and "(" in value})
    for part, changes in CHANGES.items():
        if part in f"{name}.toml":
            small.update(changes)
    if "synthetic(" in str(named.get("dataset")):
        small["dataset"] = str(named["dataset"]).replace("rows=40000", "rows=2000")
    return small


def _configs(places: Mapping[str, str]) -> Iterator[tuple[str, Config]]:
    """Yield the name and the run config of every run, complete with defaults."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    defaults = flatten(project["tool"]["flwr"]["app"]["config"])

    def complete(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> Config:
        if unknown := sorted(settings.keys() - defaults.keys()):
            sys.exit(f"Keys of a simulation must be among those of pyproject.toml, got {unknown}.")
        # a checkout from before density ratios has one rule in FedKT and PATE, and no key for it
        named = {key: value for key, value in changes.items() if {key: value} != VOTED or key in defaults}
        return {**defaults, **settings, **{full_key(key, defaults): value for key, value in named.items()}}

    for path in sorted((ROOT / "simulations").glob("*.toml")):
        if path.stem not in LEFT_OUT:
            settings = flatten(tomllib.loads(path.read_text(encoding="utf-8")))
            named = {name.rpartition(".")[2] for name in settings}
            here = {key: value for key, value in places.items() if key in named}
            yield path.stem, complete(settings, {**_overrides(path.stem, settings), **here})
    for name, changes in EXTRAS.items():
        yield f"extra-{name}", complete({}, changes)


# ----------------------------------------------------------------------------------------------------------------- runs


def _prepare() -> None:
    """Choose one thread and this checkout's package, before anything large is imported."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    package = Path(importlib.import_module("fedkd_flwr").__path__[0])
    if package.parent != ROOT:
        sys.exit(f"fedkd_flwr must be imported from {ROOT}, got {package}.")
    importlib.import_module("fedkd_flwr.app.server_app")
    logging.getLogger("flwr").setLevel(logging.CRITICAL)


def _seeded(seed: int) -> Callable[[int], bytes]:
    """Return a stand-in for ``os.urandom`` that is seeded where `fedkd_flwr` calls it, for its noise."""
    import numpy as np

    rng, system = np.random.default_rng(seed), os.urandom

    def urandom(size: int, /) -> bytes:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        return rng.bytes(size) if caller.startswith("fedkd_flwr.") else system(size)

    return urandom


def _clear_caches() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("fedkd_flwr"):
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()


def run_one(config: Config, folder: Path) -> str:
    """Run one federation in this process and return the text of its record; a failed run has one too."""
    from flwr.app import Context, RecordDict

    grid_class = importlib.import_module("grid").InProcessGrid
    server_app = importlib.import_module("fedkd_flwr.app.server_app").app
    client_app = importlib.import_module("fedkd_flwr.app.client_app").app
    config = {**config, "output-dir": str(folder)}
    parties = config["num-parties"]
    nodes = [{"partition-id": i, "num-partitions": parties} for i in range(parties)]
    record = folder / "runs" / "1" / "record.json"
    _clear_caches()
    with mock.patch.object(os, "urandom", _seeded(1)):
        try:
            server_app(grid_class(client_app, nodes, config), Context(1, 1, {}, RecordDict(), config))
        except Exception as error:
            traceback.print_exc(limit=-3)
            if not record.is_file():  # the run config was refused
                refused = {"algorithm": config["algorithm"], "status": "refused", "reason": str(error)}
                return json.dumps({**refused, "config": {}, "rounds": [], "parties": []})
    return record.read_text(encoding="utf-8")


def run(out: Path, places: Mapping[str, str], only: str) -> int:
    """Run all configs whose name contains ``only``; return how many did not complete."""
    configs = {name: config for name, config in _configs(places) if only in name}
    if not configs:
        sys.exit(f"--only must be part of a run's name, got {only!r}.")
    _prepare()
    out.mkdir(parents=True, exist_ok=True)
    began, failed, count = time.monotonic(), 0, 0
    for name, config in configs.items():
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            text = run_one(config, Path(folder))
        (out / f"{name}.json").write_text(text, encoding="utf-8")
        record = json.loads(text)
        # a party that cannot answer leaves a run that completes, and shows little
        left_out = sorted({left["code"] for one_round in record["rounds"] for left in one_round["rejected"]})
        count, failed = count + 1, failed + (record["status"] != "completed")
        said = [name, record["status"], record["reason"], " ".join(left_out), f"{time.monotonic() - start:.1f} s"]
        print("  ".join(word for word in said if word), flush=True)
    for name, reason in LEFT_OUT.items():
        print(f"{name}  left out: {reason}")
    print(f"{count} runs, {failed} failed, {len(LEFT_OUT)} left out, {time.monotonic() - began:.0f} s")
    return failed


# ----------------------------------------------------------------------------------------------------------- comparison

# Fields of a record that two equal runs need not share, wherever they stand.
IGNORED = ("seconds", "startup_seconds", "started", "versions", "run_id", "schema_version", "sends", "one_shot")
IGNORED += ("last_word", "process", "asked_at", "doing", "num_rounds", "ended", "final_asked", "digest")
IGNORED_OF_PARTY = ("model_bytes",)  # skops varies it by a few bytes
PLACES = ("output-dir", "data-root", "partition-path")


def _comparable(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without times, versions, places and the config, flattened to path -> value.

    An empty list or object keeps a path of its own.
    """
    flat: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict | list) and value:
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                ignored = IGNORED_OF_PARTY if path.startswith("parties.") else IGNORED
                if key not in ignored:
                    walk(item, f"{path}.{key}" if path else str(key))
        else:
            flat[path] = Path(value).name if isinstance(value, str) and value.startswith("/") else value

    walk({key: value for key, value in record.items() if key != "config"}, "")
    return flat


def _settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's config by keys without their section."""
    bare = {name.rpartition(".")[2]: value for name, value in record["config"].items()}
    return {key: value for key, value in bare.items() if key not in PLACES}


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (path, value in ``a``, value in ``b``) wherever two records differ.

    Settings are compared where both have them.
    """
    absent = "(absent)"
    flat_a, flat_b = _comparable(a), _comparable(b)
    found = []
    for path in dict.fromkeys([*flat_a, *flat_b]):
        pair = flat_a.get(path, absent), flat_b.get(path, absent)
        if pair[0] != pair[1]:
            found.append((path, *pair))
    settings_a, settings_b = _settings(a), _settings(b)
    for key in sorted(settings_a.keys() & settings_b.keys()):
        if settings_a[key] != settings_b[key]:
            found.append((f"config.{key}", settings_a[key], settings_b[key]))
    return found


def compare(first: Path, second: Path) -> int:
    """Print every difference between two folders of records; return how many records are not equal."""
    names = sorted({path.name for folder in (first, second) for path in folder.glob("*.json")})
    equal = 0
    for name in names:
        missing = [str(folder) for folder in (first, second) if not (folder / name).is_file()]
        if missing:
            print(f"{name}: missing in {missing[0]}")
            continue
        a, b = (json.loads((folder / name).read_text(encoding="utf-8")) for folder in (first, second))
        found = differences(a, b)
        for path, left, right in found:
            print(f"{name}: {path}: {left!r} | {right!r}")
        equal += not found
    print(f"{equal} of {len(names)} records are equal")
    return len(names) - equal if names else 1


def main() -> None:
    """Parse the command line and run or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="run everything and keep the records")
    runs.add_argument("out", type=Path, metavar="OUT_DIR")
    runs.add_argument("--data-root", default=os.environ.get("FEDKD_DATA", ""), help="data sets (default: $FEDKD_DATA)")
    runs.add_argument(
        "--partition-path", default="", help="default: ../oracles/fedkt-a9a-partitions.npz beside the data sets"
    )
    runs.add_argument("--only", default="", metavar="SUBSTRING", help="runs whose name contains this")
    pair = commands.add_parser("compare", help="compare two folders of records")
    pair.add_argument("first", type=Path, metavar="DIR_A")
    pair.add_argument("second", type=Path, metavar="DIR_B")
    options = parser.parse_args()
    if options.command == "compare":
        sys.exit(1 if compare(options.first, options.second) else 0)
    if not options.data_root:
        parser.error("--data-root must be given, or FEDKD_DATA set: the folder of the data sets.")
    data = Path(options.data_root).resolve()
    partitions = options.partition_path or data.parent / "oracles" / "fedkt-a9a-partitions.npz"
    places = {"data-root": str(data), "partition-path": str(Path(partitions).resolve())}
    sys.exit(1 if run(options.out, places, options.only) else 0)


if __name__ == "__main__":
    main()
