"""Labels for raw rows by a model that a run left: finding its file, reading the rows, and what to say about them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from fedkd_flwr.app.find_run import OUTPUT, find_run
from fedkd_flwr.data.columns import canonical, column_texts, short_list
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import DataError, explain, printable
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.stores.files import file_name
from fedkd_flwr.stores.saved_model import SavedModel, logger

__all__ = ["find_models", "notes", "predictions", "read_class_shares", "read_rows"]


def find_models(text: str, output_dir: str | Path = OUTPUT, *, party: str = "") -> list[Path]:
    """Return the files of the models that are meant: the one of a path, or of a run its server's, else its parties'.

    ``text``: a model's file; a folder with models; or a run, as for `find_run`. ``party``: whose model is meant; "" for
    the server's.
    """
    path = Path(text).expanduser()
    if path.is_file() and path.suffix != ".json":
        return [path]
    if path.suffix in (".fedkd", ".model") and not path.exists():
        raise DataError(explain("model", "be a file", f"no file {path}", "Check the path."))
    folder = path if path.is_dir() else find_run(text, output_dir).parent
    first = folder  # simulated parties keep their models with the first of the runs that this one continues
    with suppress(DataError, OSError):
        first = folder.with_name(Lineage.load(folder / "checkpoint").runs[0])
    parties = sorted(one for one in first.glob("parties/*.model") if not one.stem.endswith(".alone"))
    if party:
        if not (wanted := [one for one in parties if one.stem in (party, file_name(party))]):
            known = [one.stem for one in parties]
            with suppress(DataError):
                names = {file_name(one.name): one.name for one in RunRecord.load(folder / "record.json").parties}
                known = [names.get(one, one) for one in known]
            way_out = f"There: {short_list(known, 6) or 'none'}."
            raise DataError(explain("--party", f"be a party whose model run {folder} left", party, way_out))
        return wanted[:1]
    server = folder / "model.fedkd"
    if not (found := [server] if server.is_file() else parties):
        way_out = "The server has one after fedkt, pate, privatekt, noisy-sums and with weights. Simulated parties keep"
        way_out += f" theirs unless save-party-models=false; a silo's are in its state-dir: runs/{folder.name}/parties."
        raise DataError(explain(f"run {folder}", "have left a model", "none", way_out))
    return found


def read_rows(source: str, model: SavedModel) -> pd.DataFrame:
    """Return the raw rows of a file in any format that `read_table` reads; ``-`` is CSV on stdin."""
    schema = model.encoder.schema
    if source != "-":
        return read_table(source, schema)
    with TemporaryDirectory() as folder:  # readable by this user alone
        path = Path(folder) / "stdin.csv"
        path.write_bytes(sys.stdin.buffer.read())
        return read_table(path, schema)


def predictions(
    models: Sequence[SavedModel],
    table: pd.DataFrame,
    *,
    id_column: str = "",
    probabilities: bool = True,
    threshold: float | None = None,
) -> pd.DataFrame:
    """Return a table of answers: the id column, if any; ``prediction``, class names or numbers; the probabilities.

    ``models``: one, or several of one run, whose probabilities are averaged. ``id_column``: a column to carry through;
    "" takes the schema's, where the table has it. ``threshold``: with two classes: the second one is the answer from
    this probability on.
    """
    model, *others = models
    schema = model.encoder.schema
    if threshold is not None and len(schema.classes) != 2:
        raise DataError(explain("--threshold", "be given for two classes", f"{len(schema.classes)} classes"))
    if id_column and id_column not in table.columns:
        way_out = f"Its columns are {short_list(list(table.columns))}."
        raise DataError(explain("--id-column", "be a column of the rows", id_column, way_out))
    _refuse_other_classes(model, table)
    logger.disabled = True  # once for each model and question; `notes` says it once
    try:
        known = np.mean([one.predict_proba(table) for one in models], axis=0)
        found = model.answers(known) if others else model.predict(table)
    finally:
        logger.disabled = False
    if threshold is not None:
        found = np.array(schema.classes)[(known[:, 1] >= threshold).astype(np.int64)]
    answers = pd.DataFrame({"prediction": found})
    if probabilities:
        names = [f"probability_{name}" for name in schema.classes]
        answers = pd.concat([answers, pd.DataFrame(known, columns=names)], axis=1)
    if carried := _carried(model, table, id_column):
        if carried in answers.columns:  # JSON holds each name once
            raise DataError(explain("the id column", "have another name than the answers", carried, "Rename it."))
        answers.insert(0, carried, table[carried].to_numpy())
    return answers


def read_class_shares(text: str) -> str | dict[str, float]:
    """Return the class shares in a text: ``own``, ``common`` or ``taught``, or a number a class, ``ill=1,well=9``."""
    if "=" not in text:
        return text
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            share = math.nan
        if not (name.strip() and name.strip() not in shares and 0 < share < math.inf):
            rule = "be own, common, taught, or a number above 0 for each class, with commas"
            raise DataError(explain("--class-shares", rule, text, "Such as --class-shares ill=0.1,well=0.9."))
        shares[name.strip()] = share
    return shares


def notes(model: SavedModel, table: pd.DataFrame, *, id_column: str = "") -> list[str]:
    """Return what a user should know of how these rows were read: columns not used, categories not known."""
    used = {*model.columns, id_column, _carried(model, table, id_column)}
    unused = [str(name) for name in table.columns if name not in used]
    said = [printable(f"not used: {short_list(unused)}")] if unused else []
    return [*said, *model.unknown_categories(table)]


def _carried(model: SavedModel, table: pd.DataFrame, id_column: str) -> str:
    usual = model.encoder.schema.id_column
    return id_column or (usual if usual is not None and usual in table.columns else "")


def _refuse_other_classes(model: SavedModel, table: pd.DataFrame) -> None:
    """Refuse rows whose own labels are of another problem than the model's."""
    schema = model.encoder.schema
    if schema.label not in table.columns or schema.label in model.columns:
        return
    if schema.target is not None and schema.target.is_number:
        schema.label_numbers(table[schema.label])
        return
    known = {canonical(name) for name in schema.classes}
    others = [text for text in column_texts(table[schema.label]) if text is not None and text not in known]
    if others:
        rule = f"hold only the model's classes ({short_list(schema.classes)}), or be empty or absent"
        seen = f"{short_list([repr(text) for text in dict.fromkeys(others)], 5)} as value"
        way_out = "Are these rows of another task? If not, remove the column: it is not used."
        raise DataError(explain(f"label column {schema.label!r}", rule, seen, way_out))
