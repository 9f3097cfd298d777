"""What the ServerApp notes in a run's record before the first round."""

from __future__ import annotations

from types import SimpleNamespace

from fedkd_flwr.apps.server_app import _say_how_it_was_read
from fedkd_flwr.run_record import RunRecord


def test_the_command_that_names_left_out_columns_is_the_same_in_a_continued_run_so_that_it_is_noted_once():
    noted = []
    for more in ("name=first", "name=first resume-from=/runs/7/record.json"):
        record = RunRecord(run_id="7", algorithm="fedct")
        command = f"fedkd simulate table=a.csv id-column=id {more}"
        _say_how_it_was_read(SimpleNamespace(columns=[], next_command=command), record)
        noted += record.notes
    assert len(set(noted)) == 1
    assert noted[0].endswith(": fedkd simulate table=a.csv id-column=id")
