import dataclasses
import json
import math

import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.run_record import WITHHELD, PartyRecord, Rejection, RoundRecord, RunRecord


@pytest.fixture
def record():
    return RunRecord(
        run_id="7",
        algorithm="fedct",
        status="failed",
        reason="party-b has 3 rows",
        config={"quorum": 0.9, "data-root": "/home/ann/Data Sets/adult.csv", "vote": "majority"},
        seconds=9.0,
        startup_seconds=3.0,
        server_model="forest ~/runs/7/model.skops",
        server_accuracy=0.8,
        centralised=0.9,
        rounds=[
            RoundRecord(
                server_round=1,
                asked=2,
                answered=["party-a"],
                rejected=[Rejection(party="party-b", node_id="123", code="no-rows")],
                agreement=0.7,
                labelled_share=0.6,
                changed_share=0.1,
                consensus_accuracy=0.8,
                accuracy={"party-a": 0.75},
                bytes_up=100,
                seconds=2.0,
            )
        ],
        parties=[PartyRecord(name="party-a", model="cnn", solo={"common": 0.6}, model_bytes=9, notes=["few rows"])],
        claims=[
            {"unit": "party", "epsilon": 1.0, "delta": 0.0, "publishable": True},
            {"unit": "record", "epsilon": 4.73, "delta": 1e-5, "publishable": False},
        ],
        notes=["party-b has 3 rows"],
    )


def damaged(record, **changes):
    return json.loads(record.to_json()) | changes


def test_a_record_reads_back_as_it_was(record, tmp_path):
    (tmp_path / "record.json").write_text(record.to_json(), encoding="utf-8")
    assert RunRecord.load(tmp_path / "record.json") == record


def test_not_a_number_is_null_in_the_file_and_nan_again(record):
    record.rounds[0].accuracy["party-a"] = math.nan
    record.rounds[0].seconds = math.inf
    data = json.loads(record.to_json())
    assert data["rounds"][0]["accuracy"]["party-a"] is None
    again = RunRecord.from_dict(data)
    assert math.isnan(again.rounds[0].accuracy["party-a"])
    assert math.isnan(again.rounds[0].seconds)


def test_a_whole_number_is_read_as_a_float_where_one_stands(record):
    again = RunRecord.from_dict(damaged(record, seconds=9))
    assert isinstance(again.seconds, float)


def test_publishable_leaves_out_what_came_from_votes_or_rows(record):
    text = record.publishable().to_json()
    for private in (
        "0.7",
        "0.75",
        "0.8",
        '0.9,\n "centr',
        "3 rows",
        "few rows",
        "no-rows",
        "123",
        "4.73",
        "Ann",
        "ann/",
        "~",
    ):
        assert private not in text
    shown = record.publishable()
    assert shown.seconds == shown.startup_seconds == shown.rounds[0].seconds == 0.0
    assert shown.parties == [PartyRecord(name="party-a", model="cnn")]


def test_publishable_keeps_what_may_be_known(record):
    shown = record.publishable()
    assert shown.config == {"quorum": 0.9, "data-root": "adult.csv", "vote": "majority"}
    assert shown.server_model == "forest model.skops"
    assert (shown.rounds[0].asked, shown.rounds[0].answered, shown.rounds[0].bytes_up) == (2, ["party-a"], 100)
    assert shown.rounds[0].rejected == [Rejection(party="party-b", node_id="", code=WITHHELD)]


def test_publishable_keeps_each_claim_and_withholds_the_numbers_that_depend_on_votes(record):
    first, second = record.publishable().claims
    assert first == record.claims[0]
    assert second == {"unit": "record", "epsilon": WITHHELD, "delta": WITHHELD, "publishable": False}


def test_a_claim_that_does_not_say_it_is_publishable_is_not(record):
    record.claims = [{"unit": "party", "epsilon": 1.0}]
    assert record.publishable().claims[0]["epsilon"] == WITHHELD


def test_publishable_changes_only_the_copy(record):
    before = dataclasses.asdict(record)
    record.publishable()
    assert record.as_dict() == before


def test_publishable_twice_is_publishable_once(record):
    assert record.publishable().publishable() == record.publishable()


@pytest.mark.parametrize("version", [None, 0, 2, "1", True])
def test_another_schema_version_is_refused(record, version):
    with pytest.raises(DataError, match="schema_version must be 1, got"):
        RunRecord.from_dict(damaged(record, schema_version=version))


def test_a_list_is_not_a_record():
    with pytest.raises(DataError, match="run record must be one JSON object, got 'list'"):
        RunRecord.from_dict([])


def test_an_unknown_field_is_refused(record):
    with pytest.raises(DataError, match=r"run record must hold only the fields of version 1, got \['colour'\]"):
        RunRecord.from_dict(damaged(record, colour="red"))


def test_a_missing_field_is_named(record):
    data = damaged(record)
    del data["run_id"]
    with pytest.raises(DataError, match=r"run record must have the fields \['run_id'\]"):
        RunRecord.from_dict(data)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("seconds", "long", "run record: seconds must be a float, got 'long'"),
        ("seed", True, "run record: seed must be a int, got True"),
        ("seed", 1.5, "run record: seed must be a int, got 1.5"),
        ("algorithm", None, "run record: algorithm must be a str, got None"),
        ("rounds", {}, "run record: rounds must be a list, got {}"),
        ("parties", ["a"], r"run record: parties\[0\] must be an object, got 'str'"),
        ("notes", [1], r"run record: notes\[0\] must be a str, got 1"),
        ("centralised", "0.9", "run record: centralised must be a float, got '0.9'"),
        ("claims", [3], r"run record: claims\[0\] must be a dict, got 3"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_place(record, field, value, message):
    with pytest.raises(DataError, match=message):
        RunRecord.from_dict(damaged(record, **{field: value}))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"run record must be a readable file, got .*none\.json \(No such file"):
        RunRecord.load(tmp_path / "none.json")


def test_a_folder_is_not_a_record(tmp_path):
    with pytest.raises(DataError, match="run record must be a readable file"):
        RunRecord.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", '{"run_id": ', "[" * 100_000])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "record.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"run record must be whole JSON, got a damaged file at .*record\.json"):
        RunRecord.load(tmp_path / "record.json")


def test_bytes_that_are_not_text_are_refused(tmp_path):
    (tmp_path / "record.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="run record must be UTF-8 text"):
        RunRecord.load(tmp_path / "record.json")
