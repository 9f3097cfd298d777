"""Change bytes of model files, correct their digests, and let `fedkd predict` read them.

    python benchmarks/model_mutants.py --mutants 500 > benchmarks/results/model-mutants.json

For each learner of the zoo and some of scikit-learn's own, a model is saved by one user. Each mutant has one change: a
number or a character of the description or of a payload's text, a byte of an array, or a piece that is cut off. Its
digests fit, as anybody can compute them. Another user's `fedkd predict` reads it in a process of its own. It must
refuse it in a sentence (exit 2) or answer: every prediction a class, probabilities within [0, 1] that sum to 1. A
signal, exit 70 (a bug) or another answer counts as wrong.
``--trust`` says what the same files do with a reader who trusts them; then nothing is promised.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer
from sklearn.svm import SVC, LinearSVC, NuSVC
from threadpoolctl import threadpool_limits

from fedkd_flwr.cli.main import main as fedkd
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.models import NAMES, Classifier, make_model, serialize
from fedkd_flwr.stores.saved_model import save

SMALL: dict[str, dict[str, Any]] = {
    **{name: {"n_estimators": 5} for name in ("random-forest", "extra-trees", "xgboost")},
    "hist-gradient-boosting": {"max_iter": 5},
    "rulefit": {"n_estimators": 10},
    "mlp": {"hidden": [8], "epochs": 2},
}
OTHERS = {
    "SVC": SVC(probability=True),
    "NuSVC": NuSVC(nu=0.2),
    "k-NN, brute force": KNeighborsClassifier(algorithm="brute"),
    "k-NN, k-d tree": KNeighborsClassifier(algorithm="kd_tree"),
    "gradient boosting": GradientBoostingClassifier(n_estimators=3),
    "MLPClassifier": MLPClassifier([4], max_iter=5),
    "LogisticRegression": LogisticRegression(max_iter=500),
    "LinearSVC": LinearSVC(),
    "naive Bayes": GaussianNB(),
    "quantiles, then discriminant analysis": make_pipeline(
        QuantileTransformer(n_quantiles=20), LinearDiscriminantAnalysis()
    ),
}
CLASSES = ("setosa", "versicolor", "virginica")


def _models(folder: Path) -> dict[str, Path]:
    """Save a model of each learner, and the rows that they are asked for."""
    X, y = load_iris(return_X_y=True)
    table = pd.DataFrame(X, columns=list("abcd"))
    table.to_csv(folder / "rows.csv", index=False)
    columns = tuple(Column(name=name, kind="numeric") for name in table)
    public = make_public_set(table, Schema(columns=columns, classes=CLASSES))
    left_out = ("transformer", "cnn")  # need a pretrained model, or images; `cnn` nets are read as `mlp` is
    names = [name for name in NAMES if not name.startswith(left_out)]
    made = {name: make_model(name, num_classes=3, num_features=4, seed=1, params=SMALL.get(name, {})) for name in names}
    made |= {name: Classifier(estimator, num_classes=3) for name, estimator in OTHERS.items()}
    with threadpool_limits(1):  # a forked process has none of its parent's threads
        fitted = {name: model.fit(public.X, y) for name, model in made.items()}
    return {name: save(model, public, folder / f"{i}.fedkd") for i, (name, model) in enumerate(fitted.items())}


def _zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _changed_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with one change; texts get another number or character, others another byte or an end."""
    is_text = data[:1] in (b"{", b"[")
    if is_text and rng.random() < 0.6 and (numbers := list(re.finditer(rb"-?\d+", data))):
        found = numbers[rng.integers(len(numbers))]
        new = [b"0", b"-1", b"7", b"1000000", b"2147483647", b"1e308"][rng.integers(6)]
        return data[: found.start()] + new + data[found.end() :]
    if rng.random() < 0.1:
        return data[: rng.integers(len(data))]
    at = int(rng.integers(len(data)))
    byte = rng.integers(32, 127) if is_text else rng.integers(256)
    return data[:at] + bytes([byte]) + data[at + 1 :]


def _mutant(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with one change and digests that fit."""
    members = _unzipped(data)
    meta = json.loads(members["meta.json"])
    part = rng.choice(["payload", "payload", "payload", "payload", "meta.json", "encoder.json"])
    if part == "payload" and members[part][:2] == b"PK":
        inner = _unzipped(members[part])
        names = sorted(inner)
        name = names[rng.integers(len(names))] if rng.random() < 0.7 else "schema.json"
        inner[name] = _changed_bytes(inner[name], rng)
        members[part] = _zipped(inner)
    elif part == "payload" and meta["kind"] == "xgboost":
        members[part] = zlib.compress(_changed_bytes(zlib.decompress(members[part]), rng))
    else:
        members[part] = _changed_bytes(members[part], rng)
    if part == "meta.json":
        return _zipped(members)
    digest = "sha256" if part == "payload" else "encoder_sha256"
    meta[digest] = hashlib.sha256(members[part]).hexdigest()
    return _zipped({**members, "meta.json": json.dumps(meta).encode()})


def _asked(path: Path, rows: Path, secret: Path, *, trust: bool) -> str:
    """Let `fedkd predict` read a file in a process of its own; return how it ended."""
    out = path.with_suffix(".out")
    if not (child := os.fork()):
        code = 99
        with out.open("w") as stream, contextlib.redirect_stdout(stream), contextlib.redirect_stderr(io.StringIO()):
            serialize.SECRET = secret
            try:
                fedkd(["predict", str(path), str(rows), "--json", *(["--trust"] if trust else [])])
            except SystemExit as end:
                code = int(end.code or 0)
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    code = os.WEXITSTATUS(status)
    if code:
        return {2: "refused", 70: "exit 70"}.get(code, f"exit {code}")
    for row in json.loads(out.read_text()):
        shares = {key.removeprefix("probability_"): share for key, share in row.items() if key.startswith("prob")}
        fair = all(share is not None and 0 <= share <= 1 for share in shares.values())
        if row["prediction"] not in shares or not fair or abs(sum(shares.values()) - 1) > 1e-3:
            return "wrong answer"
    return "answered"


def main() -> None:
    """Print how each learner's mutants ended, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trust", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    began, ends, wrong = time.perf_counter(), {}, []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        first, second = folder / "first user", folder / "second user"
        serialize.SECRET = first
        models = _models(folder)
        ends = {name: Counter[str]() for name in models}
        for name, path in models.items():
            if (end := _asked(path, folder / "rows.csv", first, trust=False)) != "answered":
                raise SystemExit(f"{name}: the unchanged file is {end}")
        for number in range(options.mutants):
            name = list(models)[number % len(models)]
            rng = np.random.default_rng([options.seed, number])
            mutant = folder / "mutant.fedkd"
            mutant.write_bytes(_mutant(models[name].read_bytes(), rng))
            end = _asked(mutant, folder / "rows.csv", second, trust=options.trust)
            ends[name][end] += 1
            if end not in ("refused", "answered"):
                wrong.append(f"{name}, mutant {number}: {end}")
                print(wrong[-1], file=sys.stderr, flush=True)
    totals = sum(ends.values(), Counter[str]())
    found = {
        "mutants": options.mutants,
        "trust": options.trust,
        "totals": totals,
        "learners": ends,
        "wrong": wrong,
        "seconds": round(time.perf_counter() - began),
    }
    print(json.dumps(found, indent=1))
    sys.exit(bool(wrong) and not options.trust)


if __name__ == "__main__":
    main()
