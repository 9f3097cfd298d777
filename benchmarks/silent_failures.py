"""Count the requests in which private rows decide anything on the wire but the mechanism's output.

    python benchmarks/silent_failures.py --cases 10000 --out benchmarks/results/silent-failures.json

A case is an algorithm with noise at the party (or NFDP), its settings, a model of the zoo with parameters, a node
config, and several private files, as CSV (plain or in quotes), Parquet or NPZ: random rows, and files that
make a difference to some learner or reader: one label changed, one row more or less, a row that cannot be read, one
class, one row, constant columns, missing and huge values, a column of dates or lists, a quote that nobody closes,
half of a file, no rows, no table. A hostile server picks the settings. For each file the real ClientApp answers the
same one or two rounds, the final visit, and in some cases the question whether it is ready, a
repeated and a senseless request, the last round once more in a run that continues this one, or files that are put in
the place of the first one after round 1, while the output of each mechanism is held fixed (it checks its input as
ever, and then answers alike). The records of the replies must then be the same,
byte for byte: arrays, keys, their order, numbers of examples, codes, loss. A case in which they are not is printed
with the seed that makes it again.

What is held fixed says nothing about noise; that it has its law is tested elsewhere. Nor does this look at time.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import platform
import shlex
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.algorithms import find_card
from fedkd_flwr.app import assembly
from fedkd_flwr.app.client_app import answer, client_of, finish
from fedkd_flwr.clients.score_exchange import ScoreClient
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.models.serialize import dumps
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.scores import NoisyScores
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax
from fedkd_flwr.report.canvas import Canvas
from fedkd_flwr.stores.checkpoints import sealed
from fedkd_flwr.wire.label_codec import PublicSpec, decode_labels, digest, encode_labels
from fedkd_flwr.wire.records import WIRE_VERSION, instruction_record, numbered
from fedkd_flwr.wire.score_codec import encode_rows, encode_scores

PUBLIC_ROWS = 24
CLASSES = ("red", "green", "blue")
SCHEMA = Schema(
    columns=(
        Column(name="a", kind="numeric"),
        Column(name="b", kind="numeric"),
        Column(name="c", kind="categorical", categories=("xx", "yy")),
    ),
    classes=CLASSES,
)
TEXTS = Schema(columns=(*SCHEMA.columns[:2], Column(name="c", kind="text")), classes=CLASSES)
"""The same files, whose last column is read as free text."""
NUMBERS = {"red": "0", "green": "1", "blue": "2", "purple": "7", "xx": "1.0", "yy": "2.0"}
"""What stands for a word in NPZ files, which hold numbers."""
FORMATS = {"csv": 0.4, "quoted csv": 0.15, "parquet": 0.3, "npz": 0.15}
"""Formats of private files, and how often each is drawn."""


def _of_numbers(names: tuple[str, ...]) -> Schema:
    columns = tuple(Column(name=name, kind="numeric") for name in names)
    return Schema(columns=columns, classes=tuple(NUMBERS[name] for name in CLASSES))


SCHEMAS = {
    "": SCHEMA,
    "texts": TEXTS,
    "npz": _of_numbers(("x0", "x1", "x2")),
}
ALLOW = "fedct,fedkt,privatekt,fedmd,dd,dsfl,scarlet"
NET = "(hidden=[4], epochs=2, batch_size=8%s)"
MODELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("decision-tree", ("", "(max_depth=1)", "(min_samples_leaf=9)", "(min_samples_split=30)")),
    ("knn", ("(n_neighbors=5)", "(n_neighbors=20)", "(n_neighbors=1, metric='cosine')")),
    ("logistic-regression", ("(max_iter=1)", "(max_iter=20, solver='liblinear')", "(max_iter=20, C=1e12)")),
    (
        "hist-gradient-boosting",
        ("(max_iter=2)", "(max_iter=2, early_stopping=True)", "(max_iter=2, validation_fraction=1)"),
    ),
    ("random-forest", ("(n_estimators=2)", "(n_estimators=2, max_samples=3)", "(n_estimators=2, oob_score=True)")),
    ("extra-trees", ("(n_estimators=2)", "(n_estimators=2, max_features=3)")),
    ("xgboost", ("(n_estimators=2)", "(n_estimators=2, min_child_weight=9)", "(n_estimators=1, subsample=0.1)")),
    ("rulefit", ("(max_rules=4)", "(max_rules=4, tree_size=2)", "(max_rules=2, memory_par=0.5)")),
    ("mlp", (NET % "", NET % ", lr=1e30, optimizer='sgd'", NET % ", dropout=0.9")),
)
"""Cheap ones, each with parameters of which some fail on some rows."""
_WEIGHTS = np.array([0.2 if name == "rulefit" else 1.0 for name, _ in MODELS])  # drawn alike, it took 95 % of the time
SHARES = _WEIGHTS / _WEIGHTS.sum()


# ------------------------------------------------------------------------------------------------------ private files


def _rows(rng: np.random.Generator, count: int, classes: tuple[str, ...] = CLASSES) -> list[list[str]]:
    return [
        [f"{rng.normal():.4f}", f"{rng.normal():.4f}", str(rng.choice(["xx", "yy"])), str(rng.choice(classes))]
        for _ in range(count)
    ]


def _csv(rows: list[list[str]], header: str = "a,b,c,label") -> str:
    return "\n".join([header, *map(",".join, rows)]) + "\n"


def private_files(rng: np.random.Generator, most: int, form: str = "csv") -> dict[str, bytes]:
    """Return some private files by what they are: the first one, its neighbours, and stranger ones."""
    rows = _rows(rng, int(rng.integers(2, 31)))
    at, column = int(rng.integers(len(rows))), int(rng.integers(2))

    def changed(column: int, value: str) -> list[list[str]]:
        return [[*row[:column], value, *row[column + 1 :]] if i == at else row for i, row in enumerate(rows)]

    other = str(rng.choice([name for name in CLASSES if name != rows[at][3]]))
    one_class = [[*row[:3], CLASSES[0]] for row in rows]
    write = {"csv": _as_csv, "quoted csv": _as_quoted_csv, "parquet": _as_parquet, "npz": _as_npz}
    strange = {"parquet": _strange_parquet, "npz": _strange_npz}.get(form, _strange_csv)
    tables = {
        "rows": rows,
        "one label changed": changed(3, other),
        "one row more": [*rows, *_rows(rng, 1)],
        "one row less": [row for i, row in enumerate(rows) if i != at],
        "an unknown class": changed(3, "purple"),
        "no label": changed(3, ""),
        "no number": changed(column, "many"),
        "a missing value": changed(column, "nan"),
        "an infinite value": changed(column, "inf"),
        "a huge value": changed(column, "3e38"),
        "a value beyond float32": changed(column, "-1e300"),
        "an unknown category": changed(2, "zz"),
        "one class": one_class,
        "one class but for a row": [*one_class, [*rows[at][:3], CLASSES[1]]],
        "one row": rows[:1],
        "a constant column": [["1.0", *row[1:]] for row in rows],
        "all columns constant": [["1.0", "1.0", "xx", row[3]] for row in rows],
        "all values missing": [["nan", "nan", "", row[3]] for row in rows],
        "all classes unknown": [[*row[:3], "purple"] for row in rows],
        "all values huge": [["3e38", "-3e38", *row[2:]] for row in rows],
        "no rows": [],
        "no label column": [row[:3] for row in rows],
        "other rows": _rows(rng, int(rng.integers(1, 60))),
    }
    files = {name: write[form](table) for name, table in tables.items()}
    half = files["rows"][: len(files["rows"]) // 2]
    files |= {"nothing": b"", "half of the file": half, "no table": b"\x00\x01\x02 certainly\n1,2,3,4,5\n"}
    files |= strange(rows, at, column)
    first = files.pop("rows")
    names = [str(name) for name in rng.permutation(list(files))[:most]]
    return {"rows": first, **{name: files[name] for name in names}}


def _header(rows: list[list[str]]) -> list[str]:
    return ["a", "b", "c", "label"][: len(rows[0]) if rows else 4]


def _as_csv(rows: list[list[str]]) -> bytes:
    return _csv(rows, ",".join(_header(rows))).encode()


def _as_quoted_csv(rows: list[list[str]]) -> bytes:
    return _csv([[f'"{value}"' for value in row] for row in rows], ",".join(_header(rows))).encode()


def _strange_csv(rows: list[list[str]], at: int, column: int) -> dict[str, bytes]:
    """Return files that a reader of CSV may stumble over at one row."""

    def changed(value: str, row: list[str] | None = None) -> bytes:
        parts = [[*r[:column], value, *r[column + 1 :]] if i == at else r for i, r in enumerate(rows)]
        return _csv(parts if row is None else [*rows[:at], row, *rows[at:]]).encode("latin-1")

    return {
        "a row too long": changed("", [*rows[at], "more"]),
        "a row too short": changed("", rows[at][:2]),
        "an empty line": changed("", [""]),
        "a quote that nobody closes": changed('"' + rows[at][column]),
        "a quote within a value": changed('1"2'),
        "a cell over two lines": changed('"1\n2"'),
        "a comma in quotes": changed('"1,5"'),
        "a long text": changed("many" * 40_000),
        "bytes that are no UTF-8": changed("\xe9\x81"),
        "a byte of 0": changed("1\x002"),
        "line ends of all kinds": changed("1.5\r").replace(b"\n", b"\r\n", 2),
        "carriage returns alone": _csv(rows).replace("\n", "\r").encode(),
        "carriage returns and a line feed": _csv(rows).replace("\n", "\r").replace(",", "\n,", 1).encode(),
        "half a character of UTF-16": changed("\xe9").decode("latin-1").encode("utf-16")[:-1],
        "minus nan": changed("-nan"),
    }


def _as_parquet(rows: list[list[str]]) -> bytes:
    return _parquet({name: _typed([row[i] for row in rows]) for i, name in enumerate(_header(rows))})


def _typed(values: list[str]) -> pa.Array:
    """Return numbers, where all are such or missing, else texts: a column of Parquet has one type."""
    try:
        return pa.array([float(value) if value else None for value in values], pa.float64())
    except ValueError:
        return pa.array([value or None for value in values], pa.string())


def _parquet(columns: Mapping[str, pa.Array]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), file)
    return file.getvalue()


def _strange_parquet(rows: list[list[str]], at: int, column: int) -> dict[str, bytes]:
    """Return files with columns of types, and values, that CSV does not know."""
    names = _header(rows)
    plain = {name: _typed([row[i] for row in rows]) for i, name in enumerate(names)}
    whole = [10**17 + i for i in range(len(rows))]

    def with_column(kind: pa.DataType, values: list[Any], name: str = names[column]) -> bytes:
        return _parquet({**plain, name: pa.array(values, kind)})

    def spoilt(values: list[Any], value: Any = None) -> list[Any]:
        return [value if i == at else one for i, one in enumerate(values)]

    texts = [row[2] for row in rows]
    return {
        "whole numbers": with_column(pa.int64(), whole),
        "whole numbers, one missing": with_column(pa.int64(), spoilt(whole)),
        "dates": with_column(pa.timestamp("us"), whole),
        "a date beyond the calendar": with_column(pa.timestamp("s"), spoilt([0] * len(rows), 10**15)),
        "a day beyond the calendar": with_column(pa.date32(), spoilt([0] * len(rows), 2**31 - 1)),
        "lists": with_column(pa.list_(pa.float64()), [[1.0, 2.0]] * len(rows)),
        "one list": with_column(pa.list_(pa.float64()), spoilt([None] * len(rows), [1.0])),
        "records": with_column(pa.struct([("a", pa.int8())]), [{"a": 1}] * len(rows)),
        "yes and no": with_column(pa.bool_(), spoilt([True] * len(rows), False)),
        "yes and no, one missing": with_column(pa.bool_(), spoilt([True] * len(rows))),
        "days, one missing": with_column(pa.date32(), spoilt([1] * len(rows))),
        "lists, one missing": with_column(pa.list_(pa.float64()), spoilt([[1.0, 2.0]] * len(rows))),
        "bytes": with_column(pa.binary(), spoilt([b"1.0"] * len(rows), b"\xff")),
        "half floats": with_column(pa.float16(), np.full(len(rows), np.float16(0.5))),
        "decimals": with_column(pa.decimal128(38, 4), spoilt([Decimal("1.5")] * len(rows), Decimal("1e30"))),
        "nothing but missing": with_column(pa.null(), [None] * len(rows)),
        "texts by number": with_column(pa.dictionary(pa.int8(), pa.string()), texts, "c"),
        "labels as bytes": with_column(pa.binary(), [row[3].encode() for row in rows], "label"),
        "labels missing": with_column(pa.null(), [None] * len(rows), "label"),
        "another column": _parquet({**plain, "more": _typed([row[0] for row in rows])}),
        "a column less": _parquet({name: values for name, values in plain.items() if name != names[column]}),
    }


def _as_npz(rows: list[list[str]]) -> bytes:
    numbers = np.array([[_number(value) for value in row[:3]] for row in rows], dtype=np.float64).reshape(-1, 3)
    if rows and len(rows[0]) < 4:
        return _npz(X=numbers)
    return _npz(X=numbers, y=np.array([NUMBERS.get(row[3], row[3]) for row in rows], dtype=str))


def _number(value: str) -> float:
    try:
        return float(NUMBERS.get(value, value))
    except ValueError:
        return float("nan")


def _npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _strange_npz(rows: list[list[str]], at: int, column: int) -> dict[str, bytes]:
    """Return files with arrays of other shapes and types."""
    plain = [[_number(value) for value in row[:3]] for row in rows]
    X, y = np.array(plain), np.array([NUMBERS[row[3]] for row in rows])
    missing = np.where(np.arange(len(rows)) == at, np.nan, y.astype(np.float64))
    return {
        "float labels, one missing": _npz(X=X, y=missing),
        "whole labels": _npz(X=X, y=y.astype(np.int8)),
        "whole labels, one unknown": _npz(X=X, y=np.where(np.arange(len(rows)) == at, 7, y.astype(np.int8))),
        "huge labels": _npz(X=X, y=np.full(len(rows), 2**63, dtype=np.uint64)),
        "labels of bytes": _npz(X=X, y=y.astype("S")),
        "labels in a column": _npz(X=X, y=y[:, None]),
        "a label less": _npz(X=X, y=y[1:]),
        "half floats": _npz(X=X.astype(np.float16), y=y),
        "texts": _npz(X=X.astype(str), y=y),
        "complex numbers": _npz(X=X.astype(complex), y=y),
        "dates": _npz(X=X.astype("datetime64[s]"), y=y),
        "a column more": _npz(X=np.hstack((X, X[:, :1])), y=y),
        "a column less": _npz(X=X[:, :2], y=y),
        "images": _npz(X=np.zeros((len(rows), 3, 1), np.uint8), y=y),
        "a number": _npz(X=np.float64(1), y=y),
        "Python objects": _npz(X=X.astype(object), y=y),
        "other names": _npz(features=X, labels=y),
    }


# ------------------------------------------------------------------------------------------------------ what is asked


def noise_of_votes(rng: np.random.Generator) -> dict[str, Any]:
    """Return settings of noise that FedKT adds to votes."""
    noise = str(rng.choice(["laplace", "gaussian", "confident-gaussian"]))
    strength: dict[str, dict[str, Any]] = {
        "laplace": {"noise_strength": 1e-9},
        "gaussian": {"noise_strength": 1e9},
        "confident-gaussian": {"threshold": 2.0, "noise_strength": 1e9},
    }
    release = str(rng.choice(["labels", "counts"])) if noise != "confident-gaussian" else "labels"
    return {"noise": noise, "learn_from": release, **strength[noise]}


def dp_fedct(rng: np.random.Generator) -> dict[str, Any]:
    """Return settings of FedCT with noise."""
    kind = str(rng.choice(["randomized-response", "xor"]))
    return {"label_mechanism": kind, "noise_strength": 1e-9, "steps_per_round": int(rng.integers(1, 6))}


def privatekt(rng: np.random.Generator, most_rows: int = 3) -> dict[str, Any]:
    """Return settings of PrivateKT."""
    rows = int(rng.integers(1, most_rows + 1))
    return {"round_epsilon": 1e-6, "transfer_rows": rows, "local_epochs": 1, "solo_epochs": 1}


def settings_of(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Return an algorithm and settings under which it claims something at the party."""
    name = str(rng.choice(["fedkt", "fedct", "privatekt", "fedmd", "dd", "dsfl", "scarlet"]))
    if name == "fedkt":
        return name, {
            "level": "L2",
            **noise_of_votes(rng),
            "num_queries": int(rng.integers(1, PUBLIC_ROWS + 1)),
            "students_per_party": int(rng.integers(1, 3)),
            "teachers_per_student": int(rng.choice([1, 2, 3, 5, 25], p=[0.2, 0.3, 0.2, 0.2, 0.1])),
            "party_models": bool(rng.integers(2)),
        }
    if name == "fedct":
        return name, dp_fedct(rng)
    if name == "privatekt":
        return name, privatekt(rng)
    share = str(rng.choice(["softmax", "argmax"] if name in ("dsfl", "scarlet") else ["softmax", "argmax", "logits"]))
    quick: dict[str, Any] = {"steps_per_round": 3} if name == "dd" else {"initial_epochs": 1, "distillation_epochs": 1}
    if rng.integers(2):
        subset = {"subset_rows": int(rng.integers(1, 12)), "subset_replacement": bool(rng.integers(2))}
        return name, {"answer_form": share, **quick, **subset}
    if share == "argmax":
        return name, {"answer_form": share, **quick, "label_mechanism": "randomized-response", "noise_strength": 1e-9}
    noise = str(rng.choice(["laplace", "gaussian"]))
    return name, {"answer_form": share, **quick, "score_noise": noise, "noise_strength": 1e9}


def _told(name: str, settings: Mapping[str, Any], public: PublicSet) -> dict[str, Any]:
    config = find_card(name).config(**settings)
    config = config.resolved(num_public=public.num_rows, num_classes=public.num_classes, num_rounds=2)
    return {
        **config.told(),
        "algorithm": name,
        "privacy": config.privacy,
        "fingerprint": public.fingerprint,
    }


def _net(params: str, public: PublicSet, seed: int) -> list[np.ndarray]:
    model = make_model(
        f"mlp{params}",
        num_classes=public.num_classes,
        num_features=public.num_features,
        seed=seed,
    )
    return [array.copy() for array in model.initialize().arrays()]


def arrays_of(
    name: str, settings: Mapping[str, Any], params: str, public: PublicSet, server_round: int, seed: int, *, final: bool
) -> dict[str, np.ndarray]:
    """Return what the server sends besides settings; some of it is made to break training."""
    rng = np.random.default_rng([seed, server_round])
    spec = PublicSpec(num_public=public.num_rows, num_classes=public.num_classes, fingerprint=public.fingerprint)
    labels = rng.integers(-1, len(CLASSES), public.num_rows).astype(np.int16)
    if name == "fedkt":
        if final:
            return {"labels": encode_labels(labels, public=spec, server_round=server_round)}
        asked = np.sort(rng.permutation(public.num_rows)[: settings["num_queries"]])
        return {"indices": asked.astype(np.int32)}
    if name == "fedct":
        if server_round == 1 and not final:
            return {}
        return {"labels": encode_labels(labels, public=spec, server_round=server_round)}
    if name == "privatekt":
        net = _net(params, public, seed)
        spoilt = rng.integers(4)
        if spoilt == 1:  # the loss overflows on some rows and not on others
            net = [np.full_like(array, 3e38) for array in net]
        elif spoilt == 2:
            net[0][:] = np.nan
        asked = rng.permutation(public.num_rows)[: settings["transfer_rows"]]
        return {**numbered("model", net), **({} if final else {"indices": asked.astype(np.int32)})}
    arrays: dict[str, np.ndarray] = {}
    kind = "logits" if settings["answer_form"] == "logits" else "probs"
    rows = np.sort(rng.permutation(public.num_rows)[:10]).astype(np.int64)
    if server_round > 1 or final:
        scores = rng.random((len(rows), len(CLASSES)))
        scores = scores * 3e38 if kind == "logits" and rng.integers(2) else scores / scores.sum(axis=1, keepdims=True)
        arrays["previous"] = encode_rows(rows, num_public=public.num_rows)
        arrays[kind] = encode_scores(scores, public=spec.rows(len(rows)), server_round=server_round, kind=kind)
        if name == "scarlet":
            three = PublicSpec(num_public=len(rows), num_classes=3, fingerprint=public.fingerprint)
            arrays["signals"] = encode_labels(np.zeros(len(rows), np.int16), public=three, server_round=server_round)
    if not final:
        arrays["indices"] = encode_rows(rows, num_public=public.num_rows)
    return arrays


# ------------------------------------------------------------------------------------------------------ what is held


def _instead(original: Callable[..., Any], value: Callable[..., Any]) -> Callable[..., Any]:
    """Return a mechanism's method that checks its input as ever and then answers without looking at it."""

    def method(self: Any, given: Any, /, *, rng: Any = None) -> Any:
        made = original(self, given, rng=np.random.default_rng(0))
        return value(np.asarray(made))

    return method


def _cycle(made: np.ndarray) -> np.ndarray:
    return (np.arange(made.size) % 3).reshape(made.shape).astype(made.dtype)


@contextlib.contextmanager
def fixed_outputs() -> Iterator[None]:
    """Hold the output of every mechanism fixed; NFDP's is what was learnt from the subset."""
    with contextlib.ExitStack() as stack:
        methods = [(RandomizedResponse, "privatize"), (BitFlip, "privatize")]
        methods += [(kind, "privatize") for kind in (NoisyScores, ConfidentGaussianMax)]
        methods += [(kind, name) for kind in (LaplaceMax, GaussianMax) for name in ("privatize", "noisy_counts")]
        for kind, name in methods:
            value = (lambda made: _cycle(made) % 2) if kind is BitFlip else _cycle
            stack.enter_context(mock.patch.object(kind, name, _instead(getattr(kind, name), value)))
        answers = ScoreClient._answers

        def learnt(self: ScoreClient, model: Any, instruction: Any) -> dict[str, np.ndarray]:
            found = answers(self, model, instruction)
            return dict(self.fixed(instruction).values) if instruction.config.subset_rows else found

        stack.enter_context(mock.patch.object(ScoreClient, "_answers", learnt))
        yield


# ------------------------------------------------------------------------------------------------------ the trace


def _said(reply: Message) -> list[Any]:
    """Return all that a reply holds, in its order, as plain values and bytes."""
    if reply.has_error():
        return ["error", reply.error.code, reply.error.reason]
    said: list[Any] = []
    for name, record in reply.content.items():
        said.append((name, type(record).__name__))
        for key, value in record.items():
            plain = (value.dtype, value.shape, bytes(value.data)) if hasattr(value, "shape") else repr(value)
            said.append((key, plain))
    return said


class Silo:
    """One node with one private file, asked by the server's own words."""

    def __init__(
        self, folder: Path, content: str | bytes, node: Mapping[str, Any], run: Mapping[str, Any], form: str = "csv"
    ) -> None:
        self.data = folder / f"private.{form.rpartition(' ')[2]}"
        self.replace_file(content)
        config = {**node, "data-path": str(self.data), "state-dir": str(folder / "state")}
        self.context = Context(7, 1, config, RecordDict(), dict(run))
        self.sent = 0

    def replace_file(self, content: str | bytes) -> None:
        """Put another private file in the place of the last one."""
        self.data.write_bytes(content.encode("latin-1") if isinstance(content, str) else content)

    def ask(self, stage: str, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> Message:
        """Return the reply of this node's ClientApp."""
        kind = "train" if stage == "fit" else "evaluate"
        content = instruction_record(arrays, config)  # type: ignore[arg-type]
        message = Message(content, dst_node_id=1, message_type=kind)
        self.sent += 1
        message.metadata.__dict__["_message_id"] = str(self.sent)
        client = client_of(self.context)
        return answer(client, message) if stage == "fit" else finish(client, message)


def trace(silo: Silo, case: Mapping[str, Any], public: PublicSet, later: bytes | None = None) -> list[Any]:
    """Return all that the rounds and the final visit of a case bring to the server; ``later`` replaces the file."""
    name, settings, seed = case["algorithm"], case["settings"], case["seed"]
    told = _told(name, settings, public)
    said, base = [], ""
    secret = "s" * 64
    told["run-seal"] = sealed(secret)
    if seed % 4 == 2:
        asked = {**told, "server-round": 1, "wire-version": WIRE_VERSION}
        client = client_of(silo.context)
        said.append(repr(client.ready(asked)))
    rounds = 1 if name == "fedkt" or seed % 2 else 2
    for server_round in range(1, rounds + 1):
        arrays = arrays_of(name, settings, case["net"], public, server_round, seed, final=False)
        config = {**told, "server-round": server_round, "last-round": server_round - 1, "base": base}
        reply = silo.ask("fit", arrays, config)
        said.append(_said(reply))
        if name == "fedct" and "code" not in reply.content["reply"]:
            payload = next(iter(reply.content["arrays"].values())).numpy()
            spec = PublicSpec(num_public=public.num_rows, num_classes=len(CLASSES), fingerprint=public.fingerprint)
            spec = spec.bits if settings["label_mechanism"] == "xor" else spec
            base = digest(decode_labels(payload, public=spec, server_round=server_round)).hex()
        if server_round == 1 and later is not None:
            silo.replace_file(later)
    if seed % 8 == 0:
        said.append(_said(silo.ask("fit", arrays, config)))
        said.append(_said(silo.ask("fit", {}, {**config, "server-round": rounds + 1})))
    if seed % 8 == 3:
        silo.context.run_id = 8
        said.append(_said(silo.ask("fit", arrays, {**config, "continues": "7", "run-proof": secret})))
    arrays = arrays_of(name, settings, case["net"], public, rounds, seed, final=True)
    final = {**told, "server-round": rounds, "last-round": rounds}
    said.append(_said(silo.ask("evaluate", arrays, final)))
    return said


# ------------------------------------------------------------------------------------------------------ cases


def make_case(seed: int) -> dict[str, Any]:
    """Return one case as plain values."""
    rng = np.random.default_rng(seed)
    name, settings = settings_of(rng)
    model, params = MODELS[-1] if name == "privatekt" else MODELS[int(rng.choice(len(MODELS), p=SHARES))]
    chosen = str(rng.choice(params))
    node: dict[str, Any] = {"party": "a", "allow-algorithms": ALLOW, "test-fraction": float(rng.choice([0.0, 0.2]))}
    whose = str(rng.choice(["node", "run"]))
    if whose == "node":
        node |= {"model": f"{model}{chosen}"}
    elif name != "privatekt" and rng.integers(4) == 0:
        node["require-privacy"] = True  # whatever the run names, it has a random forest
        model, chosen = str(rng.choice(["decision-tree", "knn", "logistic-regression"])), "max_depth=0"
    if whose == "node" and rng.integers(3) == 0:
        node["require-privacy"] = True
    if rng.integers(4) == 0:
        node |= {"epsilon-budget": 1e6, "delta-budget": 0.5}
    if rng.integers(3) == 0:
        node["rows-at-least"] = int(rng.integers(1, 20))
    case = {"seed": seed, "algorithm": name, "settings": settings, "model": model, "params": chosen, "node": node}
    texts = bool(rng.integers(4) == 0)
    form = str(rng.choice(list(FORMATS), p=list(FORMATS.values())))
    schema = form if form in SCHEMAS else "texts" if texts else ""
    return {
        **case,
        "net": chosen if name == "privatekt" else NET % "",
        "whose": whose,
        "format": form,
        "schema": schema,
    }


def run_config(case: Mapping[str, Any], public_path: str) -> dict[str, Any]:
    """Return the run config of a case."""
    keys = find_card(case["algorithm"]).config.keys()
    own = {keys[name]: value for name, value in case["settings"].items()}
    model = {"model": f"{case['model']}{case['params']}"} if case["whose"] == "run" else {}
    return {"algorithm": case["algorithm"], "public-path": public_path, **own, **model}


def write_public(folder: Path) -> str:
    """Write the public file and its schema, for each schema in a folder of its own; return the first file's path."""
    rows = [row[:3] for row in _rows(np.random.default_rng(0), PUBLIC_ROWS)]
    for name, schema in SCHEMAS.items():
        (home := folder / name).mkdir(exist_ok=True)
        schema.write(home / "schema.toml")
        words = {} if name in ("", "texts") else NUMBERS
        written = [[words.get(value, value) for value in row] for row in rows]
        (home / "public.csv").write_text(_csv(written, ",".join(schema.column_names)))
    return str(folder / "public.csv")


def differences(seed: int, public_path: str, folder: Path, *, most_files: int = 3) -> tuple[dict[str, Any], list[str]]:
    """Run one case; return it, and the files whose trace is another than that of the first one."""
    case = make_case(seed)
    public_path = str(Path(public_path).parent / case["schema"] / "public.csv")
    public = load_public(public_path)
    node = {**case["node"], "public-path": public_path}
    traces: dict[str, list[Any]] = {}
    files = private_files(np.random.default_rng([seed, 1]), most_files, case["format"])
    changes = seed % 8 in (4, 5, 6)
    for name, content in files.items():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            begun = files["rows"] if changes else content
            silo = Silo(Path(own), begun, node, run_config(case, public_path), case["format"])
            traces[name] = trace(silo, case, public, content if changes else None)
    first = traces["rows"]
    # a reply's first record is its metrics, which hold a code in place of an answer's payload
    answered = next(one for one in first if one and isinstance(one[0], tuple))
    code = next((value.strip("'") for key, value in answered[1:4] if key == "code"), "")
    return {**case, "code": code, "files": list(traces)}, [name for name, said in traces.items() if said != first]


@contextlib.contextmanager
def laboratory(*, held: bool = True) -> Iterator[Path]:
    """Hold mechanisms (if ``held``) and secrets fixed, read the public file once, keep logs quiet; yield a folder."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 7, 1, 1
    cached = lru_cache(maxsize=8)(load_public)

    def once(path: str, schema: str | None = None, *, labels: str = "") -> PublicSet:
        return cached(path, schema, labels=labels)

    log = logging.getLogger("flwr.party")
    before = log.level
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=shared))
        if held:
            stack.enter_context(fixed_outputs())
        stack.enter_context(mock.patch.object(assembly, "load_public", once))
        # each file has a state directory of its own, with a secret that was drawn and tells nothing of rows
        stack.enter_context(mock.patch.object(assembly, "node_secret", return_value=bytes(32)))
        # the owner's page at the end of each case, without its pictures, which take a second
        stack.enter_context(mock.patch.object(Canvas, "__init__", side_effect=MissingExtraError("no pictures here")))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        log.setLevel(logging.CRITICAL + 1)
        _warm_up()
        try:
            yield Path(folder)
        finally:
            log.setLevel(before)


@lru_cache(maxsize=1)
def _warm_up() -> None:
    """Use each model once: else each visit's process, a copy of this one, imports the libraries again."""
    X, y = np.eye(6, dtype=np.float32), np.arange(6) % len(CLASSES)
    for name, params in MODELS:
        model = make_model(f"{name}{params[0]}", num_classes=len(CLASSES), num_features=6, seed=0)
        dumps(model.fit(X, y))
        model.metrics(X, y)


def main() -> None:
    """Run the cases and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--files", type=int, default=3, help="private files beside the first one, for each case")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    began, counts, codes, differing = time.monotonic(), Counter[str](), Counter[str](), []
    formats, contents = Counter[str](), Counter[str]()
    with laboratory() as folder:
        public_path = write_public(folder)
        for seed in range(args.first, args.first + args.cases):
            case, found = differences(seed, public_path, folder, most_files=args.files)
            counts[case["algorithm"]] += 1
            codes[case["code"] or "answered"] += 1
            formats[case["format"]] += 1
            contents.update(case["files"][1:])
            if found:
                differing.append({**case, "differs with": found})
                print(f"case {seed} differs with {', '.join(found)}: {case}", flush=True)
    seconds = time.monotonic() - began
    compared = sum(contents.values())
    print(f"{args.cases} cases, {compared} files compared with another, {len(differing)} differ, {seconds:.0f} s")
    print(dict(counts), dict(codes), dict(formats))
    if args.out:
        result = {
            "command": shlex.join(["python", "benchmarks/silent_failures.py", *sys.argv[1:]]),
            "cases": args.cases,
            "files compared": compared,
            "cases that differ": differing,
            "algorithms": dict(counts),
            "first trace": dict(codes),
            "formats": dict(formats),
            "files by what they hold": dict(sorted(contents.items())),
            "seconds": round(seconds),
            "python": platform.python_version(),
        }
        args.out.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
