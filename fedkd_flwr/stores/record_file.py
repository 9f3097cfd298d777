"""A run's record in a file, written anew each time it grows: a process that is killed leaves what it knew."""

from __future__ import annotations

from pathlib import Path

from fedkd_flwr.files import write_atomic
from fedkd_flwr.processes.alive import this_process
from fedkd_flwr.record.run_record import RunRecord, now_text

__all__ = ["RecordFile"]


class RecordFile:
    """Keeps one run's record in one file; a reader sees an old record or the whole new one.

    ``path``: the file, usually ``record.json``. Missing folders are made.

    ``FedCT(public=public, on_round=RecordFile("runs/1/record.json").write)`` in a project of your own.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._old: list[tuple[str, bytes]] = []  # all rounds but the last, as JSON: they do not change any more

    def write(self, record: RunRecord) -> Path:
        """Write the record, with the time and this process, and return the path.

        Raises `OSError` if it cannot be written; the file is then as it was.
        """
        record.last_word, record.process = now_text(), record.process or this_process()
        for one in record.rounds[len(self._old) : -1]:
            self._old.append(one.to_json())
        rounds = [*self._old, *(one.to_json() for one in record.rounds[len(self._old) :])]
        return write_atomic(self.path, record.to_json_with(rounds).encode())
