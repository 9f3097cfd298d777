"""A run record as CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedkd_flwr.files import as_shown, write_atomic
from fedkd_flwr.record.frames import FRAMES
from fedkd_flwr.record.run_record import RunRecord

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_csv_files"]


def write_csv_files(record: RunRecord, folder: Path) -> list[Path]:
    """Write each table of a record that has rows to ``folder``, as ``rounds.csv`` and so on, and return the paths.

    The tables are those of `RunRecord.to_frame`; a text that a spreadsheet would compute, such as the name that a
    party gave itself, has an apostrophe before it. Existing files are replaced.

    Raises `OSError` if a file cannot be written.
    """
    tables = {name: record.to_frame(name) for name in FRAMES}
    return [
        write_atomic(folder / f"{name}.csv", _as_csv(table).encode(errors="replace"))
        for name, table in tables.items()
        if len(table)
    ]


def _as_csv(table: pd.DataFrame) -> str:
    texts = table.select_dtypes(include=["object", "string"])
    shown = table.assign(**{str(name): column.map(as_shown) for name, column in texts.items()})
    return str(shown.to_csv(index=False, lineterminator="\n"))
