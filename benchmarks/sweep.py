"""Measure accuracy against epsilon: run a configuration of ``simulations/`` with several amounts of noise and seeds.

    python benchmarks/sweep.py fedkt-adult --data-root /data --vary epsilon 1 2 4 8 --seeds 1 2 3 \
        --set fedkt.level='"L1"' noise='"gaussian"' num-queries=81 --out sweep.json --picture sweep.svg

Each run is a ``flwr run``, as in ``benchmarks/simulate.py`` (Flower's simulation, Ray). In addition every seed is run
once without noise, which also gives the accuracy of parties alone (SOLO). The epsilon drawn is that of the run's
publishable claim, and not the one that was asked for. ``--page sweep.html`` writes a page of it.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_args

import simulate
from harness.sweep import Point, Sweep, accuracy_of
from harness.sweep_page import write_sweep_page
from harness.sweep_plot import accuracy_against_epsilon

from fedkd_flwr.algorithms import cards
from fedkd_flwr.algorithms.card import ExchangeConfig
from fedkd_flwr.algorithms.exchange import ClaimConfig, EpsilonConfig, LabelNoiseConfig
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.claims import claim_of

Runner = Callable[[dict[str, Any]], RunRecord]

# Settings of noise that no card declares as such: the budget is a general setting, and how a subset is drawn has no
# meaning without a subset.
_FURTHER = ("server-epsilon-budget", "paper.subset-replacement")


def noise_keys() -> frozenset[str]:
    """Return the keys of all settings of noise, or that only have a meaning with noise; the cards say which.

    They are the settings on which an algorithm's ``privacy`` depends, those of claims and of label noise, and those
    that may only be set beside another of them.

    >>> {"epsilon", "fedkt.level", "paper.noise-strength"} <= noise_keys()
    True
    """
    configs = [card.config for card in cards().values()]
    names = {name for kind in (ClaimConfig, EpsilonConfig, LabelNoiseConfig) for name in get_annotations(kind)}
    names |= {name for config in configs for name in config.model_fields if _decides_privacy(config, name)}
    while True:
        more = {
            name
            for config in configs
            for name, field in config.model_fields.items()
            if isinstance(field.json_schema_extra, dict) and names.intersection(field.json_schema_extra["only"])
        }
        if more <= names:
            break
        names |= more
    return frozenset(_FURTHER).union(key for c in configs for name, key in c.keys().items() if name in names)


def _decides_privacy(config: type[ExchangeConfig], name: str) -> bool:
    """Tell whether where noise is added depends on a setting."""
    choices = get_args(config.model_fields[name].annotation) or (0, 1)
    found = {config.model_construct(**{name: value}).privacy for value in choices}
    return len(found) > 1


def without_noise(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same run config without noise and otherwise unchanged.

    The defaults of FedKT's numbers of students and teachers depend on the level, so they are set to the level's own.
    """
    dropped = noise_keys()
    plain = {key: value for key, value in config.items() if key not in dropped}
    if config.get("algorithm") == "fedkt":
        keys = {key: name for name, key in FedKTConfig.keys().items()}
        asked = FedKTConfig.model_construct(**{keys[key]: value for key, value in config.items() if key in keys})
        if asked.level != "L0":
            plain["fedkt.students-per-party"] = asked.students
            plain["fedkt.teachers-per-student"] = asked.teachers
    return plain


def sweep(
    name: str,
    config: Mapping[str, Any],
    *,
    varied: str,
    values: Sequence[Any],
    seeds: Sequence[int],
    run: Runner,
    unit: str = "",
    baseline: bool = True,
    command: str = "",
) -> Sweep:
    """Run ``config`` with each value of ``varied`` and each seed, and once per seed without noise.

    Parameters
    ----------
    name : str
        The configuration's name.
    config : mapping
        The run config that all runs share.
    varied, values
        The setting that determines the noise, and its values.
    seeds : sequence of int
        They seed the data's split, the parties and the models. The operating system draws the noise.
    run : callable
        A function that runs one federation: it takes a run config and returns the record.
    unit : {"", "record", "party"}
        Whose epsilon is drawn; "" takes that of the first claim.
    baseline : bool
        Whether to run without noise too.
    command : str
        The command that made the sweep.

    Raises
    ------
    SystemExit
        If a run makes no publishable claim with a finite epsilon, reports no accuracy, or makes a claim without noise.
    """
    points, claim, server = [], None, False
    for value in values:
        epsilons, accuracies = [], []
        for seed in seeds:
            record = run({**config, varied: value, "seed": seed})
            made, accuracy = claim_of(record, unit), accuracy_of(record)
            if made is None or accuracy is None:
                missing = "a publishable claim with a finite epsilon" if made is None else "an accuracy"
                sys.exit(f"{varied} = {value}, seed {seed}: the run has to make {missing}, and made none.")
            claim, server = claim or made, record.server_accuracy is not None
            epsilons.append(float(made["epsilon"]))
            accuracies.append(accuracy)
            print(f"{varied} {value}  seed {seed}  epsilon {epsilons[-1]:.4g}  accuracy {accuracy:.4f}", flush=True)
        # The same settings cost the same whatever the data are. The largest epsilon holds for all seeds.
        points.append(Point(value=value, epsilon=max(epsilons), accuracies=accuracies))
    plain, alone = [], []
    for seed in seeds if baseline else ():
        record = run({**without_noise(config), "seed": seed})
        if claim_of(record) is not None:
            sys.exit("the run without noise claims privacy, so it is none. Use --no-baseline for this algorithm.")
        accuracy, solo = accuracy_of(record), record.mean_accuracies().get("solo-common")
        plain += [] if accuracy is None else [accuracy]
        alone += [] if solo is None else [solo]
        print(f"without noise  seed {seed}  accuracy {accuracy}  alone {solo}", flush=True)
    shared = {key: value for key, value in (claim or {}).items() if key != "epsilon"}
    return Sweep(
        name=name,
        varied=varied,
        measure="the server's model" if server else "the parties' mean",
        claim={**shared, "epsilon": points[0].epsilon},
        seeds=list(seeds),
        points=points,
        without_noise=plain,
        alone=alone,
        command=command,
    )


def _command() -> str:
    """Return this command, with the folders of this machine replaced."""
    words = (f"/path/to/{Path(word).name}" if word.startswith("/") else word for word in sys.argv[1:])
    return shlex.join(["python", "benchmarks/sweep.py", *words])


def main() -> None:
    """Parse the command line, run the sweep, and write the results and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="a file of simulations/, without .toml, or a path of such a file")
    parser.add_argument("--data-root", default="", help="folder of the data sets")
    parser.add_argument("--partition-path", default="", help="for partitioner = file")
    parser.add_argument("--vary", nargs="+", required=True, metavar=("KEY", "VALUE"), help="e.g. epsilon 1 2 4 8")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="further settings, as TOML")
    parser.add_argument("--unit", choices=("record", "party"), default="", help="whose epsilon (default: first claim)")
    parser.add_argument("--no-baseline", action="store_true", help="leave the runs without noise, and SOLO, out")
    parser.add_argument("--actors", type=int, default=2, help="parallel party processes (default 2)")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--picture", type=Path, help="picture to draw: a file ending in .svg, .png or .pdf")
    parser.add_argument("--page", type=Path, help="page to write, an HTML file")
    options = parser.parse_args()
    path = (
        Path(options.name) if options.name.endswith(".toml") else simulate.ROOT / "simulations" / f"{options.name}.toml"
    )
    config = simulate.configuration(path, options.data_root, options.partition_path, options.set)
    key, *texts = options.vary
    with tempfile.TemporaryDirectory() as folder:
        found = sweep(
            path.stem,
            config,
            varied=key,
            values=[simulate.settings(f"{key} = {text}")[key] for text in texts],
            seeds=options.seeds,
            run=lambda settings: simulate.run(settings, Path(folder), options.actors)[0],
            unit=options.unit,
            baseline=not options.no_baseline,
            command=_command(),
        )
    for point in found.points:
        print(f"mean  {key} {point.value}  epsilon {point.epsilon:.4g}  {statistics.fmean(point.accuracies):.4f}")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(found.to_json())
    if options.page:
        write_sweep_page(found, options.page)
    if options.picture:
        accuracy_against_epsilon(found, picture=options.picture)


if __name__ == "__main__":
    main()
