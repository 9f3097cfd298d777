import errno
import json
import re

import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.record.run_record import RunRecord, signed


def damaged(record, **changes):
    return json.loads(record.to_json()) | changes


def test_a_record_reads_back_as_it_was_but_for_one_changed_digit_and_what_is_changed_on_purpose_is_signed(
    record, tmp_path
):
    path, text = tmp_path / "record.json", record.to_json()
    path.write_text(text, encoding="utf-8")
    assert RunRecord.load(path) == record
    for place in [found.start() for found in re.finditer(r"\d", text)]:
        path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
        with pytest.raises(DataError, match="must"):
            RunRecord.load(path)
    path.write_text(json.dumps(record.as_dict()))
    with pytest.raises(DataError, match=r"be what its digest was made of, got no digest in .*record\.json"):
        RunRecord.load(path)
    path.write_text(json.dumps(signed(damaged(record, seed=record.seed + 1))))
    assert RunRecord.load(path).seed == record.seed + 1


def test_figures_by_model_name_the_server_s_and_the_centralised_model_beside_the_means_of_parties(record):
    found = record.figures_by_model()
    assert (found["server-common"], found["centralised-common"]) == (0.8, 0.9)
    assert record.mean_accuracies().items() <= found.items()
    assert "server-common" not in record.figures_by_model("balanced_accuracy")  # not measured


@pytest.mark.parametrize("version", [None, 0, 1, 3, "2", True])
def test_another_schema_version_is_refused(record, version):
    with pytest.raises(DataError, match="schema_version must be 2, got"):
        RunRecord.from_dict(damaged(record, schema_version=version))


def test_a_list_is_not_a_record_and_another_version_is_told_before_its_digest(tmp_path):
    path = tmp_path / "record.json"
    for data, words in (([], "run record must be one JSON object, got 'list'"), ({"schema_version": 1}, "be 2, got 1")):
        path.write_text(json.dumps(data))
        with pytest.raises(DataError, match=words):
            RunRecord.load(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("seconds", "long", "run record: seconds must be a valid number, got 'long'"),
        ("seed", True, "run record: seed must be a valid integer, got True"),
        ("colour", "red", "run record: colour must be a field of version 2, got 'red'"),
        ("parties", ["a"], r"run record: parties.0 must be an object, got 'a'"),
        ("notes", [{"values": {}}], r"run record: notes.0.code must be given, got 'none'"),
        ("server", {"own": {"n": 5, "f1": ["x"]}}, r"run record: server.own.f1.0 must be a valid number, got 'x'"),
        ("rounds", [{"server_round": 1, "colour": 2}], r"rounds.0.colour must be a field of version 2, got 2"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_place(record, field, value, message):
    with pytest.raises(DataError, match=message):
        RunRecord.from_dict(damaged(record, **{field: value}))


@pytest.mark.parametrize("text", ["", "{", '{"run_id": ', "[" * 100_000])
def test_a_missing_or_damaged_file_is_named(tmp_path, text):
    with pytest.raises(DataError, match=r"run record must be a readable file, got .*none\.json \(No such file"):
        RunRecord.load(tmp_path / "none.json")

    (tmp_path / "record.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"run record must be whole JSON, got a damaged file at .*record\.json"):
        RunRecord.load(tmp_path / "record.json")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "The server ran out of memory (MemoryError). What the rounds before found is in this record."),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "The server's disk is full (OSError: [Errno 28]"),
    ],
)
def test_what_the_server_s_machine_lacked_is_said_in_a_sentence(error, words):
    record = RunRecord(run_id="7", algorithm="fedct")
    record.close(error)
    assert (record.status, record.reason.startswith(words)) == ("failed", True)
