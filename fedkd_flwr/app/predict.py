"""Labels for raw rows by a model that a run left: finding its file, reading the rows, and what to say about them."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from fedkd_flwr.app.find_run import OUTPUT, find_run
from fedkd_flwr.data.columns import canonical, column_texts, short_list
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import DataError, explain, printable
from fedkd_flwr.stores.saved_model import SavedModel

__all__ = ["class_shares", "find_model", "model_files", "notes", "predictions", "read_rows"]


def model_files(folder: Path) -> list[Path]:
    """Return the models in a run's folder, or in a silo's folder of a run: the server's first, then the parties'."""
    return [path for path in [folder / "model.fedkd", *sorted(folder.glob("parties/*.model"))] if path.is_file()]


def find_model(text: str, output_dir: str | Path = OUTPUT) -> Path:
    """Return the file of a model: a path, or a run, whose server's model is meant, or the only one it left.

    Parameters
    ----------
    text : str
        A model's file; a folder with models; or a run, as `fedkd_flwr.app.find_run.find_run` takes it.
    output_dir : path
        The folder of results whose ``runs`` are searched.

    Raises
    ------
    DataError
        If there is none, or several parties' and no server's; the message lists them.
    """
    path = Path(text).expanduser()
    if path.is_file() and path.suffix != ".json":
        return path
    if path.suffix in (".fedkd", ".model") and not path.exists():
        raise DataError(explain("model", "be a file", f"no file {path}", "Check the path."))
    folder = path if path.is_dir() else find_run(text, output_dir).parent
    found = model_files(folder)
    if not found:
        way_out = (
            "The server has one after fedkt, pate, privatekt and where weights are sent. Parties of a simulation keep "
            f"theirs with save-party-models=true; a silo's are in its state-dir's runs/{folder.name}/parties."
        )
        raise DataError(explain(f"run {folder}", "have left a model", "none", way_out))
    if len(found) > 1 and found[0].name != "model.fedkd":
        way_out = f"Name one, such as {found[0]}."
        names = short_list([one.name for one in found], 6)
        raise DataError(explain(f"run {folder}", "have left one model", f"{len(found)} of parties: {names}", way_out))
    return found[0]


def read_rows(source: str, model: SavedModel) -> pd.DataFrame:
    """Return the raw rows of a file in any format that `read_table` reads; ``-`` is CSV on stdin.

    Raises
    ------
    DataError, MissingExtraError
        As `read_table`.
    """
    schema = model.encoder.schema
    if source != "-":
        return read_table(source, schema)
    with TemporaryDirectory() as folder:  # readable by this user alone
        path = Path(folder) / "stdin.csv"
        path.write_bytes(sys.stdin.buffer.read())
        return read_table(path, schema)


def predictions(
    model: SavedModel, table: pd.DataFrame, *, id_column: str = "", probabilities: bool = True
) -> pd.DataFrame:
    """Return a table of answers, one row for each raw row.

    Parameters
    ----------
    model : SavedModel
    table : DataFrame
        Raw rows.
    id_column : str
        A column to carry through, as it stands in the table. "" takes the schema's id column, where the table has it.
    probabilities : bool
        Whether ``probability_<class>`` stands there for each class.

    Returns
    -------
    DataFrame
        Columns: the id column, if any; ``prediction``, class names; the probabilities, float64.

    Raises
    ------
    DataError
        If a column is missing, a value is no number where the schema says so, the label column holds a class that
        the model does not know, or the id column has the name of an answer; the message names it.
    """
    schema = model.encoder.schema
    if id_column and id_column not in table.columns:
        way_out = f"Its columns are {short_list(list(table.columns))}."
        raise DataError(explain("--id-column", "be a column of the rows", id_column, way_out))
    _refuse_other_classes(model, table)
    X = model.encoder.features(table)  # `notes` says which categories are not known
    answers = pd.DataFrame({"prediction": np.array(schema.classes)[model.answering.predict(X)]})
    if probabilities:
        known = model.answering.predict_proba(X)
        names = [f"probability_{name}" for name in schema.classes]
        answers = pd.concat([answers, pd.DataFrame(known, columns=names)], axis=1)
    carried = _carried(model, table, id_column)
    if carried:
        if carried in answers.columns:  # JSON holds each name once
            rule, way_out = "have another name than the answers", "Rename it in the rows."
            raise DataError(explain("the id column", rule, carried, way_out))
        answers.insert(0, carried, table[carried].to_numpy())
    return answers


def class_shares(text: str) -> str | dict[str, float]:
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
    known = {canonical(name) for name in schema.classes}
    others = [text for text in column_texts(table[schema.label]) if text is not None and text not in known]
    if others:
        rule = f"hold only the model's classes ({short_list(schema.classes)}), or be empty or absent"
        seen = f"{short_list([repr(text) for text in dict.fromkeys(others)], 5)} as value"
        way_out = "Are these rows of another task? If not, remove the column: it is not used."
        raise DataError(explain(f"label column {schema.label!r}", rule, seen, way_out))
