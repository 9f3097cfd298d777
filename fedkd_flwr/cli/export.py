"""The command ``fedkd export``: a model that a run left as ONNX, for programs without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, print_json
from fedkd_flwr.cli.predict import ModelName, Trust, read_models
from fedkd_flwr.errors import DataError, explain

__all__ = ["export"]


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
    does: both run on the same rows, each label must be the same and each probability within 1e-5. Models of raw text
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
    cells = {} if loaded.encoder.schema.text_columns else expected_cells(loaded.encoder.schema)
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
