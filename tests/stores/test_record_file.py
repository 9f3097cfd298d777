import json

import pytest

from fedkd_flwr.record.notes import Note
from fedkd_flwr.record.run_record import Rejection, RoundRecord, RunRecord
from fedkd_flwr.stores.record_file import RecordFile


def _round(number, **changes):
    left_out = [Rejection(party="b", node_id="7", code="no-reply")] if number % 2 else []
    return RoundRecord(server_round=number, asked=2, rejected=left_out, accuracy={"a": 0.5}, **changes)


def test_the_file_is_the_whole_record_each_time_it_grows(tmp_path):
    record = RunRecord(run_id="7", algorithm="fedct", notes=[Note("own", {"text": 'a "rounds": [] in a note'})])
    file = RecordFile(tmp_path / "new" / "record.json")
    for number in range(4):
        if number:
            record.rounds.append(_round(number, ended=False))
            file.write(record)
            record.rounds[-1].ended, record.rounds[-1].agreement = True, float("nan")
            record.rounds[-1].server_accuracy = 0.5 * number  # measured last, when the round has ended
        path = file.write(record)
        assert path.read_text(encoding="utf-8") == record.to_json()
        assert json.loads(path.read_text(encoding="utf-8"))["rounds"] == json.loads(record.to_json())["rounds"]
    assert [r.server_accuracy for r in RunRecord.load(path).rounds] == [0.5, 1.0, 1.5]
    assert RunRecord.load(path).process == record.process


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        RecordFile(tmp_path / "file" / "record.json").write(RunRecord(run_id="7", algorithm="fedct"))
