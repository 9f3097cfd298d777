"""What a model that a run left is for: ``fedkd predict`` labels raw rows, ``fedkd export`` writes it as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, complete_runs, find_own_modules, print_json
from fedkd_flwr.errors import DataError, explain

if TYPE_CHECKING:
    from fedkd_flwr.stores.saved_model import SavedModel

__all__ = ["ModelName", "Trust", "export", "predict", "read_models"]

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model's file (model.fedkd, PARTY.model), or a run whose model is meant.",
        autocompletion=complete_runs,
    ),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Read a model that can do harm although another user wrote or changed the file.")
]


def predict(
    model: ModelName,
    rows: Annotated[str, typer.Argument(metavar="ROWS", help="Raw rows: CSV, TSV, Parquet, Excel, NPZ; - reads CSV.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file, not to stdout.")] = None,
    proba: Annotated[
        bool, typer.Option("--proba/--labels-only", help="With a probability for each class, or not.")
    ] = True,
    party: Annotated[str, typer.Option(help="Of a run: answer with this party's model.")] = "",
    threshold: Annotated[
        float | None, typer.Option(help="Two classes: answer the second one from this probability on.", min=0, max=1)
    ] = None,
    id_column: Annotated[str, typer.Option(help="A column of the rows to carry through. Default: the schema's.")] = "",
    class_shares: Annotated[
        str,
        typer.Option(
            help="How common each class is among these rows: ill=0.1,well=0.9; or own, common (all parties), taught. "
            "Default: own for a party's model, else taught."
        ),
    ] = "",
    trust: Trust = False,
    as_json: AsJson = False,
    output_dir: OutputDir = OUTPUT,
) -> None:
    """Label rows with a model that a run left.

    The model is the server's or a party's; the labels are written as CSV. Rows are as in the training files:
    columns are found by name, and further ones are not used. Missing columns and other classes are refused by name.
    Where a run's server has no model, the answer is the mean of its parties' probabilities; --party takes one of
    them.

    Examples
    --------
    fedkd predict ~/.fedkd/runs/15725786395049560637/model.fedkd rows.csv > out.csv
    fedkd predict last rows.csv --id-column patient --output out.csv
    fedkd predict last rows.csv --party north --threshold 0.3
    fedkd predict ~/fedkd-state/runs/1572/parties/hospital-a.model rows.parquet --labels-only
    cat rows.csv | fedkd predict model.fedkd - --json
    fedkd predict last rows.csv --class-shares ill=0.1,well=0.9
    """
    from fedkd_flwr.app.predict import notes, predictions, read_class_shares, read_rows
    from fedkd_flwr.data.columns import column_name
    from fedkd_flwr.files import write_atomic

    models = read_models(model, output_dir, party=party, trust=trust)
    if class_shares:
        models = [one.for_shares(read_class_shares(class_shares)) for one in models]
    table, id_column = read_rows(rows, models[0]), column_name(id_column)
    found = predictions(models, table, id_column=id_column, probabilities=proba, threshold=threshold)
    if len(models) > 1:
        said = f"the server has no model: the mean of the probabilities of {len(models)} parties' models"
        typer.echo(f"note: {said}. --party NAME takes one.", err=True)
    for line in notes(models[0], table, id_column=id_column):
        typer.echo(f"note: {line}", err=True)
    if as_json:
        typer.echo(found.to_json(orient="records", date_format="iso", date_unit="s", double_precision=15, indent=1))
    elif output is not None:
        write_atomic(output, found.to_csv(index=False, lineterminator="\n").encode())
        typer.echo(f"{len(found)} rows: {output}", err=True)
    else:
        typer.echo(found.to_csv(index=False, lineterminator="\n").encode(), nl=False)  # UTF-8, as in a file


def read_models(model: str, output_dir: Path, *, party: str = "", trust: bool) -> list[SavedModel]:
    """Read the models that a user names; a type of the user's own may lie in the current folder, as in its run."""
    from fedkd_flwr.app.predict import find_models
    from fedkd_flwr.stores.saved_model import load

    paths = find_models(model, output_dir, party=party)
    find_own_modules()
    return [load(path, trust=trust) for path in paths]


def export(
    model: ModelName,
    onnx: Annotated[Path, typer.Option("--onnx", metavar="FILE", help="Write the model to this file as ONNX.")],
    check: Annotated[str, typer.Option(metavar="ROWS", help="Raw rows to compare on; default: 256 made-up ones.")] = "",
    party: Annotated[str, typer.Option(help="Of a run: this party's model.")] = "",
    trust: Trust = False,
    as_json: AsJson = False,
    output_dir: OutputDir = OUTPUT,
) -> None:
    """Write a model as an ONNX file.

    It takes raw columns, and gives class names and probabilities. The file is written only if it answers as the model
    does: both run on the same rows, each label must be the same and each probability within 1e-5. Models of texts
    are refused. Needs `pip install "fedkd-flwr[onnx]"`.

    Examples
    --------
    fedkd export ~/.fedkd/runs/15725786395049560637/model.fedkd --onnx model.onnx
    fedkd export last --onnx model.onnx --check rows.csv
    """
    from fedkd_flwr.app.predict import read_rows
    from fedkd_flwr.files import write_atomic
    from fedkd_flwr.onnx_graphs import check_onnx, expected_cells, to_onnx

    loaded, *others = read_models(model, output_dir, party=party, trust=trust)
    if others:
        seen = f"{len(others) + 1}, of parties"
        raise DataError(explain(f"run {model}", "have left one model", seen, "Name one with --party NAME."))
    data = to_onnx(loaded)
    found = check_onnx(loaded, data, read_rows(check, loaded) if check else None)
    write_atomic(onnx, data)
    cells = expected_cells(loaded.encoder.schema)
    if as_json:
        print_json({"file": str(onnx), "bytes": len(data), **found._asdict(), "expects": cells})
    else:
        typer.echo(
            f"{onnx}: {len(data):,} bytes. Compared on {found.rows} rows: the same labels, probabilities within "
            f"{found.probability:.1g}."
        )
        if cells:
            told = "; ".join(f"{name}: {how}" for name, how in cells.items())
            typer.echo(f"The graph takes numbers, and does not read cells as the schema says: {told}.")
