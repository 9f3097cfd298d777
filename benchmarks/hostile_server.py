"""Attack a silo that demands privacy as a hostile server would, and count how often the attacker is right.

    python benchmarks/hostile_server.py --out benchmarks/results/hostile-server.json

The silo has ``require-privacy`` and ``epsilon-budget = 0.1``, and the server asks for noise of 1e9 (so that the ledger
lets it ask again and again). In each trial a fair coin picks one of two private files that differ in one row or one
label, or, where the claim is for the whole party, in all labels. The server, which knows both files, names a model, its
parameters, seeds, how many rounds and how many runs, and gets every reply: those of the rounds, the final visits,
refusals too. All that it received is what the attacker looks at: codes, keys, sizes, numbers of examples, and every bit
of every array.

For each attack there are several plans (what the server asks, and the two files). The attacker learns from trials of
which it knows the coin, and then guesses others: a random forest, or one thing that was seen with one file alone. The
table has right guesses among those, the chance that guessing blindly does as well, and the trials in which the two
files were answered or refused differently.

``--broken`` takes the noise away, to show that the attacker can win. It exits with 1 if an attack did better than blind
guessing would in one of 1,000 repetitions, or, with ``--broken``, if none did.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import silent_failures as silo
from scipy.stats import binomtest
from sklearn.ensemble import RandomForestClassifier

from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.privacy.noise import labels, sampling

NODE = {
    "party": "a",
    "allow-algorithms": silo.ALLOW,
    "require-privacy": True,
    "epsilon-budget": 0.1,
    "test-fraction": 0.2,
}
SUBSET = {"epsilon-budget": 0.1, "delta-budget": 0.6, "rows-at-least": 20}
"""NFDP's bound is a delta alone: a silo that allows none of it refuses each request, whatever its rows are."""
QUICK = [one for one in silo.MODELS if one[0] not in ("rulefit", "random-forest")]
"""RuleFit takes ten times as long as all others; the forest is what the silo has where its owner names no model."""
PLANS = 4
LEARNT, COUNTED = 60, 50
"""Trials of a plan from which the attacker learns, and in which its guesses count."""
CHANCE = 1e-3


# ------------------------------------------------------------------------------------------------------ attacks

Settings = Callable[[np.random.Generator], dict[str, Any]]


def _l2(rng: np.random.Generator) -> dict[str, Any]:
    many = int(rng.choice([2, 4, 8]))  # so many teachers leave two or three rows to each: pairs of labels
    asked = int(rng.integers(8, silo.PUBLIC_ROWS + 1))
    return {"level": "L2", **silo.noise_of_votes(rng), "num_queries": asked, "teachers_per_student": many}


def _privatekt(rng: np.random.Generator) -> dict[str, Any]:
    return silo.privatekt(rng, most_rows=4)


def _noisy_scores(rng: np.random.Generator) -> dict[str, Any]:
    quick = {"initial_epochs": 1, "distillation_epochs": 1}
    if rng.integers(2):
        return {"answer_form": "argmax", **quick, "label_mechanism": "randomized-response", "noise_strength": 1e-9}
    noise = str(rng.choice(["laplace", "gaussian"]))
    return {"answer_form": "softmax", **quick, "score_noise": noise, "noise_strength": 1e9}


def _subset(rng: np.random.Generator) -> dict[str, Any]:
    quick = {"initial_epochs": 1, "distillation_epochs": 1}
    replacement = bool(rng.integers(2))
    return {"answer_form": "argmax", **quick, "subset_rows": 1, "subset_replacement": replacement}


ATTACKS: dict[str, tuple[str, Settings, str, str]] = {
    "FedKT L2: pairs of labels": ("fedkt", _l2, "one label changed", "all"),
    "FedKT L2: a row that cannot be used": ("fedkt", _l2, "an unknown class", "all"),
    "DP-FedCT: number of rows": ("fedct", silo.dp_fedct, "one row more", "all"),
    "DP-FedCT: one class or two": ("fedct", silo.dp_fedct, "one class but for a row", "all"),
    "final visit: one label": ("any", silo.dp_fedct, "one label changed", "last"),
    "PrivateKT: one class or two": ("privatekt", _privatekt, "one class but for a row", "all"),
    "PrivateKT: number of rows": ("privatekt", _privatekt, "one row less", "all"),
    "FedMD, noise: one class or two": ("fedmd", _noisy_scores, "one class but for a row", "all"),
    "FedMD, noise: a huge value": ("fedmd", _noisy_scores, "a huge value", "all"),
    "FedMD, NFDP: one label": ("fedmd", _subset, "one label changed", "all"),
    "FedMD, NFDP: number of rows": ("fedmd", _subset, "one row more", "all"),
    "DP-FedCT: all labels": ("fedct", silo.dp_fedct, "every label another", "all"),
    "PrivateKT: all labels": ("privatekt", _privatekt, "every label another", "all"),
    "FedMD, noise: all labels": ("fedmd", _noisy_scores, "every label another", "all"),
}
"""Algorithm, its settings, how the second file differs from the first, and which replies are looked at."""
OWN = {"any": (("fedkt", _l2), ("fedct", silo.dp_fedct), ("fedmd", _noisy_scores), ("privatekt", _privatekt))}


def make_plan(name: str, seed: int) -> dict[str, Any]:
    """Return what the server asks in all trials of a plan, and the two files."""
    algorithm, settings, change, _ = ATTACKS[name]
    rng = np.random.default_rng([seed, list(ATTACKS).index(name)])
    if algorithm in OWN:
        algorithm, settings = OWN[algorithm][seed % len(OWN[algorithm])]
    model, params = silo.MODELS[-1] if algorithm == "privatekt" else QUICK[int(rng.integers(len(QUICK)))]
    chosen = str(rng.choice(params))
    files: dict[str, bytes] = {}
    while change not in files or len(files["rows"].splitlines()) < 5:
        files = silo.private_files(rng, 99)
        files["every label another"] = files["one class"].replace(b",red\n", b",green\n")
    first = files["one class" if change in ("one class but for a row", "every label another") else "rows"]
    # a silo that demands privacy follows no run's model: it has a forest, or what its owner names (as for PrivateKT)
    owner = algorithm == "privatekt" or seed % 2 == 0
    return {
        "algorithm": algorithm,
        "settings": settings(rng),
        "model": model,
        "params": chosen,
        "node": {"model": f"{model}{chosen}"} if owner else {},
        "whose": "node" if owner else "run",
        "net": chosen if algorithm == "privatekt" else silo.NET % "",
        "runs": int(rng.integers(1, 3)),
        # they decide how many rounds there are and what else is asked, see `silent_failures.trace`
        "seeds": [int(s) for s in rng.integers(0, 2**30, 3)],
        "files": [first, files[change]],
    }


def received(plan: Mapping[str, Any], which: int, folder: Path, public_path: str, public: PublicSet) -> list[Any]:
    """Return all that one trial brings to the server: for each run, each reply."""
    subset = "subset_rows" in plan["settings"]
    node = {**NODE, **(SUBSET if subset else {}), **plan["node"], "public-path": public_path}
    said = []
    with tempfile.TemporaryDirectory(dir=folder) as own:
        there = silo.Silo(Path(own), plan["files"][which], node, silo.run_config(plan, public_path))
        for number in range(plan["runs"]):
            there.context.run_id = 7 + number
            said += silo.trace(there, {**plan, "seed": plan["seeds"][number]}, public)
    return said


# ------------------------------------------------------------------------------------------------------ guesses


def outside(said: Any) -> Any:
    """Return what the noise of a mechanism has no part in: everything but the bytes of arrays."""
    if isinstance(said, (list, tuple)):
        return tuple(outside(one) for one in said)
    return len(said) if isinstance(said, bytes) else str(said)


def _bits(said: Any) -> Iterator[np.ndarray]:
    if isinstance(said, bytes):
        yield np.unpackbits(np.frombuffer(said, np.uint8))
    elif isinstance(said, (list, tuple)):
        for one in said:
            yield from _bits(one)


def guess(learnt: list[Any], coins: np.ndarray, seen: list[Any], rng: np.random.Generator) -> np.ndarray:
    """Return the attacker's guesses: from what only one file ever brought, else a forest's over all bits."""
    by_coin = [{outside(said) for said, coin in zip(learnt, coins, strict=True) if coin == side} for side in (0, 1)]
    rows = [np.concatenate([np.zeros(0, np.uint8), *_bits(said)]) for said in [*learnt, *seen]]
    bits = np.zeros((len(rows), max(len(row) for row in rows) + 1), dtype=np.uint8)
    for line, row in zip(bits, rows, strict=True):
        line[: len(row)] = row
        line[-1] = min(len(row), 255)
    forest = RandomForestClassifier(n_estimators=200, random_state=int(rng.integers(2**31)))
    forest.fit(bits[: len(learnt)], coins)
    said = forest.predict_proba(bits[len(learnt) :])[:, 1]
    guessed = np.where(said == 0.5, rng.integers(0, 2, len(said)), said > 0.5)
    for i, one in enumerate(seen):
        there = [outside(one) in side for side in by_coin]
        if there[0] != there[1]:
            guessed[i] = there[1]
    return guessed.astype(np.int64)


def attack(name: str, folder: Path, public_path: str, *, plans: int, first: int) -> dict[str, Any]:
    """Return how often the attacker was right, over all plans of an attack."""
    public, looked_at = load_public(public_path), ATTACKS[name][3]
    rng = np.random.default_rng([first, 99, list(ATTACKS).index(name)])
    right = trials = unlike = refused = 0
    for seed in range(first, first + plans):
        plan = make_plan(name, seed)
        coins = np.concatenate((np.arange(LEARNT) % 2, rng.integers(0, 2, COUNTED)))
        seen = [received(plan, int(coin), folder, public_path, public) for coin in coins]
        if looked_at == "last":
            seen = [said[-1:] for said in seen]
        guessed = guess(seen[:LEARNT], coins[:LEARNT], seen[LEARNT:], rng)
        right += int((guessed == coins[LEARNT:]).sum())
        trials += COUNTED
        usual = outside(seen[0])
        unlike += sum(outside(said) != usual for said in seen)
        refused += sum("('code', \"'" in repr(said) for said in seen)
    chance = float(binomtest(right, trials, alternative="greater").pvalue)
    return {"right": right, "of": trials, "chance": chance, "answered unlike": unlike, "with a code": refused}


# ------------------------------------------------------------------------------------------------------ broken


def _clear(privatize: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, given, /, *, rng=None: privatize(replace(self, epsilon=60.0), given, rng=rng)


@contextlib.contextmanager
def without_noise() -> Iterator[None]:
    """Take the noise of every mechanism away."""
    with contextlib.ExitStack() as stack:
        for kind in (labels.RandomizedResponse, labels.BitFlip):
            stack.enter_context(mock.patch.object(kind, "privatize", _clear(kind.privatize)))
        for name in ("laplace_units", "gaussian_units"):
            drawn = getattr(sampling, name)
            stack.enter_context(mock.patch.object(sampling, name, lambda *a, drawn=drawn: drawn(*a) * 0))
        yield


def main() -> None:
    """Attack and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plans", type=int, default=PLANS, help=f"plans of each attack, of {COUNTED} trials each")
    parser.add_argument("--first", type=int, default=1, help="seed of the first plan")
    parser.add_argument("--attack", action="append", choices=list(ATTACKS), help="this one alone (may be repeated)")
    parser.add_argument("--broken", action="store_true", help="without noise: the attacker must win")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    began, found = time.monotonic(), {}
    noise = without_noise() if args.broken else contextlib.nullcontext()
    with silo.laboratory(held=False) as folder, noise:
        public_path = silo.write_public(folder)
        for name in args.attack or ATTACKS:
            found[name] = attack(name, folder, public_path, plans=args.plans, first=args.first)
            print(name, found[name], f"{time.monotonic() - began:.0f} s", flush=True)
    if args.out:
        command = shlex.join(["python", "benchmarks/hostile_server.py", *sys.argv[1:]])
        result = {"command": command, "python": platform.python_version(), "attacks": found}
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    won = any(one["chance"] < CHANCE / len(found) for one in found.values())
    sys.exit(not won if args.broken else won)


if __name__ == "__main__":
    main()
