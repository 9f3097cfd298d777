"""Public rows where there are none: drawn from the noisy sums of a run, with a page that says how, and at what cost.

    schema with bins   what everybody knows of the columns; `bin_file` makes of it the public file of a run
    noisy-sums         one round: each party's counts with noise, charged and approved as any reply
    draw               as many rows as wanted, of the model that the run left: nothing more is spent

Drawing is post-processing, so its seed may be known, and rows may be drawn as often as wanted.
"""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.algorithms.noisy_sums import difference, draw, shares_of_sums
from fedkd_flwr.app.find_run import OUTPUT, find_run
from fedkd_flwr.checks import check_whole
from fedkd_flwr.data.bins import Bins, bin_rows
from fedkd_flwr.data.public import PublicSet, short_fingerprint
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.files import make_folder, write_atomic
from fedkd_flwr.labels.priors import class_shares
from fedkd_flwr.models.estimators import BinnedLinear
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.claims import bound_text, claim_meaning, claim_words
from fedkd_flwr.report.formatting import plain
from fedkd_flwr.seeds import derive_rng
from fedkd_flwr.stores.saved_model import SavedModel, load

__all__ = ["FACTS", "bin_file", "cost_of", "make_public", "template"]

FACTS = "public.json"
"""The file beside drawn rows that says what they cost."""


def template(columns: list[str], *, label: str, classes: list[str]) -> Schema:
    """Return a schema to edit by hand: numeric columns with two bins that mean nothing, to be replaced."""
    made = tuple(Column(name=name, kind="numeric", bins=(0, 1, 2)) for name in columns if name != label)
    return Schema(columns=made, classes=tuple(classes), label=label)


def bin_file(schema: Path, folder: Path) -> PublicSet:
    """Write the public file of a run of noisy sums, made of a schema alone, and a copy of the schema beside it.

    Raises `DataError` if the schema is of images or texts, or a numeric column has no bins.
    """
    read = Schema.read(schema)
    return _write(bin_rows(read), read, folder, "bins.csv")


# a fit below it: models lost .02 to .07 on wine (.05 to .09) and Mushroom (.16 to .22), none on cod-rna (.33) and Adult
_FAR = 0.25


def make_public(
    run: str, folder: str | Path, *, rows: int = 4000, seed: int = 1, output_dir: str | Path = OUTPUT
) -> dict[str, Any]:
    """Draw public rows from the noisy sums of a run, and write them as a public file for every algorithm.

    Into ``folder`` go ``public.csv``, ``schema.toml``, ``public.md`` (how the rows were made, what they cost, how near
    they are) and ``public.json`` (the same for programs).

    Parameters
    ----------
    run : str
        A run of noisy-sums: its id or the start of it, its name, ``last``, or a path.
    folder : path
        Where the files go; made if it is not there.
    rows : int
        How many rows to draw, 1 to a million.
    seed : int
        Of the draw.
    output_dir : path
        The folder of results whose ``runs`` are searched.

    Returns
    -------
    dict
        What ``public.json`` holds.

    Raises
    ------
    ConfigError, DataError
        If there is no such run, it left no sums, or ``rows`` is out of range.
    """
    check_whole("rows", rows, 1, 10**6)
    found = find_run(run, output_dir)
    record = RunRecord.load(found)
    model = _model_of(found, record)
    sums, schema = model.classifier.estimator.sums, model.encoder.schema
    bins = _bins(model)
    rng = derive_rng(seed, "public-rows")
    codes, classes = draw(sums, bins.sizes, rows, rng=rng)
    table = bins.rows(codes, rng=rng)
    shares = tuple(class_shares(rows * shares_of_sums(sums, bins.sizes)).tolist())
    public = _write(table, replace(schema, class_shares=shares), Path(folder), "public.csv")
    facts: dict[str, Any] = {
        "run": record.run_id,
        "rows": rows,
        "seed": seed,
        "fingerprint": public.fingerprint,
        "claims": record.claims,
        "parties": len(record.parties),
        "class shares": dict(zip(schema.classes, shares, strict=True)),
        "near": _near(record, model, table, classes),
    }
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    write_atomic(Path(folder) / FACTS, text.encode())
    write_atomic(Path(folder) / "public.md", _page(facts, schema).encode())
    return facts


def cost_of(public_file: str | Path) -> dict[str, Any] | None:
    """Return the claim that stands beside drawn public rows; None where none does."""
    path = Path(public_file).parent / FACTS
    if not (Path(public_file).is_file() and path.is_file()):
        return None
    claims = json.loads(path.read_text(encoding="utf-8"))["claims"]
    return dict(claims[0]) if claims else None


def _model_of(found: Path, record: RunRecord) -> SavedModel:
    path = found.parent / "model.fedkd"
    if record.algorithm != "noisy-sums" or not path.is_file():
        way_out = "Make one: fedkd simulate algorithm=noisy-sums ..., or fedkd server run algorithm=noisy-sums ..."
        raise DataError(
            explain(f"run {record.run_id}", "have left noisy sums", record.algorithm or "no model", way_out)
        )
    model = load(path)
    if not isinstance(model.classifier.estimator, BinnedLinear):
        raise DataError(explain(f"model {path}", "hold noisy sums", type(model.classifier.estimator).__name__))
    return model


def _bins(model: SavedModel) -> Bins:
    made = model.classifier.estimator
    arrays = {name: getattr(made, name) for name in ("columns", "thresholds", "lows", "highs")}
    return Bins(schema=model.encoder.schema, **arrays)


def _write(table: pd.DataFrame, schema: Schema, folder: Path, name: str) -> PublicSet:
    """Write rows and their schema, and return them as whoever reads the files will."""
    make_folder(folder)
    if schema.header:  # files of this schema have no line of names, and all columns in this order
        table = table.reindex(columns=next(csv.reader([schema.header])))
    text = table.to_csv(index=False, header=not schema.header, lineterminator="\n")
    write_atomic(folder / name, text.encode())
    schema.write(folder / "schema.toml")
    return load_public(folder / name)


def _near(record: RunRecord, model: SavedModel, table: pd.DataFrame, classes: NDArray[np.int16]) -> dict[str, Any]:
    """Return how near drawn rows are to the private ones, which whoever simulates holds; nothing at silos."""
    if not record.simulation:
        return {}
    from fedkd_flwr.data.shift import FEWEST_ROWS, find_shift
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.simulation.rows import simulated_pool

    values = {key: value for key, value in record.config.items() if value is not None}
    pool, bins, drawn = simulated_pool(parse_run_config(values)), _bins(model), model.encoder.features(table)
    own, other = (bins.counts(X, y, num_classes=len(model.classes)) for X, y in ((pool.X, pool.y), (drawn, classes)))
    names, cuts = [column.name for column in model.encoder.schema.columns], np.cumsum(bins.sizes)[:-1]
    pairs = list(zip(np.split(own, cuts), np.split(other, cuts), strict=True))
    columns = {n: difference(a, [len(a)], b.sum(axis=1)) for n, (a, b) in zip(names, pairs, strict=True)}
    by_class = {
        label: float(np.mean([difference(a[:, [c]], [len(a)], b[:, c]) for a, b in pairs]))
        for c, label in enumerate(model.classes)
    }
    found: dict[str, Any] = {"columns": columns, "classes": by_class}
    if min(len(pool.X), len(drawn)) >= FEWEST_ROWS:
        shift = find_shift(pool.X, drawn, rng=np.random.default_rng(0))
        found |= {"auc": shift.auc, "fit": shift.fit}
    return found


def _page(facts: dict[str, Any], schema: Schema) -> str:
    """Return the page beside drawn rows, as Markdown."""
    claims = facts["claims"]
    cost = [f"- epsilon {bound_text(one['epsilon'])}: {claim_words(one)}. {claim_meaning(one)}" for one in claims]
    shares = ", ".join(f"{plain(name)} {share:.3f}" for name, share in facts["class shares"].items())
    lines = [
        "# Public rows drawn from noisy sums",
        "",
        f"{facts['rows']:,} rows, nobody's: each was drawn from counts that {facts['parties']} parties released with "
        f"noise in run {facts['run']}. First a class was drawn, then each of {len(schema.columns)} columns given the "
        "class, independently of the others: what two columns have in common beyond the class is not in the rows.",
        "",
        f"Fingerprint: {short_fingerprint(facts['fingerprint'])}. Seed of the draw: {facts['seed']}. More rows cost no "
        "more.",
        "",
        "## What they cost",
        "",
        *(cost or ["- no claim: the noise protects nothing."]),
        "",
        "Labels that parties give these rows are another release, with a claim of its own or none.",
        "",
        "## How near they are",
        "",
        f"Class shares in the noisy sums, which the schema holds and the server's model answers for: {shares}.",
    ]
    near = facts["near"]
    if not near:
        return "\n".join([*lines, "Each silo sees by `fedkd doctor` with its node's file how far its rows are.", ""])
    if "auc" in near:
        words = f"A forest tells a private row from a drawn one with AUC {near['auc']:.2f} (0.5: not at all, 1: always)"
        lines.append(f"{words}; public set fit {near['fit']:.2f} (1: best).")
        if near["fit"] < _FAR:
            lines.append("**These rows are far from private ones.** Where they were, models lost up to seven points.")
    rows = [("column", near["columns"]), ("within class", near["classes"])]
    lines += ["", "| | differs by (0: alike, 1: nothing in common) |", "|---|---|"]
    lines += [f"| {kind} {plain(name)} | {value:.3f} |" for kind, values in rows for name, value in values.items()]
    return "\n".join([*lines, "", "Computed from private rows, as a simulation may: do not publish this part.", ""])
