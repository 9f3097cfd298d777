"""A run record as CSV files."""

from __future__ import annotations

from pathlib import Path

from fedkd_flwr.files import write_atomic
from fedkd_flwr.run_frames import FRAMES
from fedkd_flwr.run_record import RunRecord

__all__ = ["write_csv_files"]


def write_csv_files(record: RunRecord, folder: Path) -> list[Path]:
    """Write each table of a record that has rows to ``folder``, as ``rounds.csv`` and so on, and return the paths.

    The tables are those of `RunRecord.to_frame`. Existing files are replaced.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    tables = {name: record.to_frame(name) for name in FRAMES}
    return [
        write_atomic(folder / f"{name}.csv", table.to_csv(index=False, lineterminator="\n").encode(errors="replace"))
        for name, table in tables.items()
        if len(table)
    ]
