import dataclasses
import errno
import json
import math
import re
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.privacy.claims.claim import label_privacy, noisy_max_at_party, noisy_max_at_server
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.votes import GaussianMax, LaplaceMax
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import WITHHELD, ColumnRecord, PartyRecord, Rejection, RoundRecord, RunRecord, signed


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
        server={"common": Metrics(n=2000, accuracy=0.8)},
        centralised={"common": Metrics(n=2000, accuracy=0.9)},
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
        parties=[
            PartyRecord(
                name="party-a",
                model="cnn",
                solo={"common": Metrics(n=20, accuracy=0.6, confusion=[[12, 3], [5, 0]])},
                model_bytes=9,
                notes=[Note("few-rows", {"rows": 3})],
            )
        ],
        claims=[
            {"unit": "party", "epsilon": 1.0, "delta": 0.0, "publishable": True},
            {"unit": "record", "epsilon": 4.73, "delta": 1e-5, "publishable": False},
        ],
        notes=[Note(NoteCode.NOT_FINISHED, {"party": "party-b", "code": "no-rows", "failure": "3 rows"})],
    )


def damaged(record, **changes):
    return json.loads(record.to_json()) | changes


def test_one_changed_digit_of_a_record_is_refused_and_what_is_changed_on_purpose_is_signed(record, tmp_path):
    path, text = tmp_path / "record.json", record.to_json()
    for place in [found.start() for found in re.finditer(r"\d", text)]:
        path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
        with pytest.raises(DataError, match="must"):
            RunRecord.load(path)
    path.write_text(json.dumps(record.as_dict()))
    with pytest.raises(DataError, match=r"be what its digest was made of, got no digest in .*record\.json"):
        RunRecord.load(path)
    path.write_text(json.dumps(signed(damaged(record, seed=record.seed + 1))))
    assert RunRecord.load(path).seed == record.seed + 1


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


def test_a_row_of_numbers_takes_one_line_and_no_text_is_changed(record):
    record.notes = [Note("own", {"text": "a [\n 1,\n 2 ]", "more": "[ 1,  2 ]"})]
    text = record.to_json()
    assert "[ 12, 3 ],\n" in text
    assert json.loads(text) == signed(record.as_dict())


def test_what_a_party_reports_is_stored_and_anything_else_is_noted():
    party, found = PartyRecord(name="a"), Metrics(n=4, accuracy=0.5, recall=[0.5, None], support=[2, None])
    party.report({"solo-own": found.to_bytes(), "model": "knn", "model-bytes": 7}, num_classes=2)
    assert (party.solo, party.federated, party.model, party.model_bytes, party.notes) == (
        {"own": found}, {}, "knn", 7, [],
    )  # fmt: skip
    other = PartyRecord(name="b")
    other.report({"solo-own": found.to_bytes(), "federated-own": 0.75, "model-bytes": True}, num_classes=3)
    assert (other.solo, other.federated, other.model_bytes) == ({}, {}, None)
    assert other.notes == [
        Note(NoteCode.BAD_METRICS, {"metrics": "solo-own"}),
        Note(NoteCode.BAD_METRICS, {"metrics": "federated-own"}),
    ]


def test_figures_by_model_name_the_server_s_and_the_centralised_model_beside_the_means_of_parties(record):
    found = record.figures_by_model()
    assert {key: found[key] for key in ("server-common", "centralised-common")} == {
        "server-common": 0.8,
        "centralised-common": 0.9,
    }
    assert record.mean_accuracies().items() <= found.items()
    assert "server-common" not in record.figures_by_model("balanced_accuracy")  # not measured


def test_a_whole_number_is_read_as_a_float_where_one_stands(record):
    again = RunRecord.from_dict(damaged(record, seconds=9))
    assert isinstance(again.seconds, float)


def test_publishable_leaves_out_what_came_from_votes_or_rows(record):
    text = record.publishable().to_json()
    for private in (
        "0.7",
        "0.75",
        "0.8",
        "confusion",
        "3 rows",
        "few-rows",
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
    assert (shown.rounds[0].asked, shown.rounds[0].answered) == (2, ["party-a"])
    assert shown.rounds[0].rejected == [Rejection(party="party-b", node_id="", code=WITHHELD)]


def test_publishable_keeps_each_claim_and_withholds_the_numbers_that_depend_on_votes(record):
    first, second = record.publishable().claims
    assert first == record.claims[0]
    assert second == {"unit": "record", "epsilon": WITHHELD, "delta": WITHHELD, "publishable": False}


def test_a_smaller_epsilon_for_the_operator_leaves_no_trace(record):
    # that there is one depends on the votes
    record.claims.append({**record.claims[0], "epsilon": 0.5, "publishable": False, "basis": "proven"})
    assert [claim["unit"] for claim in record.publishable().claims] == ["party", "record"]
    assert "0.5" not in record.publishable().to_json()


def test_a_claim_that_does_not_say_it_is_publishable_is_not(record):
    record.claims = [{"unit": "party", "epsilon": 1.0}]
    assert record.publishable().claims[0]["epsilon"] == WITHHELD


def test_publishable_changes_only_the_copy(record):
    before = dataclasses.asdict(record)
    record.publishable()
    assert record.as_dict() == before


def test_publishable_twice_is_publishable_once(record):
    assert record.publishable().publishable() == record.publishable()


# ------------------------------------------------------------- what a publishable record holds, level by level

ALWAYS = {
    *(
        "run_id",
        "algorithm",
        "sends",
        "returns",
        "schema_version",
        "started",
        "status",
        "reason",
        "simulation",
        "seed",
        "config",
    ),
    *("changed", "versions", "num_public", "num_classes", "classes", "fingerprint"),
    *("server_model", "centralised_model", "doing", "num_rounds", "final_asked"),
    *("rounds.server_round", "rounds.asked", "rounds.answered", "rounds.rejected.party", "rounds.rejected.code"),
    *("parties.name", "parties.model"),
}
AFTER_NOISE = {"claims", "rounds.labelled_share", "rounds.bytes_down", "final_bytes_down"}
AT_PARTY = AFTER_NOISE | {"rounds.bytes_up", "rounds.kept_share"}

VOTES = np.array([[9, 1], [2, 8]] * 10)
RESPONSE = RandomizedResponse(epsilon=2.0, num_classes=3)


def _labels(**changes):
    return [label_privacy(RESPONSE, num_labels=60, delta=1e-5, rounds=3, **changes)]


LEVELS = {
    "FedCT": ("fedct", [], ALWAYS, 1),
    "FedKT L0": ("fedkt", [], ALWAYS, 3),
    "FedKT L1": (
        "fedkt",
        noisy_max_at_server(LaplaceMax(gamma=0.5), num_queries=20, delta=1e-5, counts=VOTES),
        ALWAYS | AFTER_NOISE,
        3,
    ),
    "PATE": ("pate", noisy_max_at_server(GaussianMax(sigma=9.0), num_queries=20, delta=1e-5), ALWAYS | AFTER_NOISE, 3),
    "FedKT L2": (
        "fedkt",
        noisy_max_at_party(GaussianMax(sigma=9.0), num_queries=20, delta=1e-5, teachers=5),
        ALWAYS | AT_PARTY,
        3,
    ),
    "DP-FedCT": ("fedct", _labels(), ALWAYS | AT_PARTY, 3),
    "DP-FedCT, seeded": ("fedct", _labels(seeded=True), ALWAYS | {"claims"}, 1),
}


def _full(cls):
    """Return an instance whose every field differs from its default: also of fields added after this was written."""
    values = {}
    hints = get_type_hints(cls)
    for item in dataclasses.fields(cls):
        kind = hints[item.name]
        kind = next((a for a in get_args(kind) if a is not type(None)), kind) if type(None) in get_args(kind) else kind
        inner = get_args(kind)
        if dataclasses.is_dataclass(kind):
            values[item.name] = _full(kind)
        elif get_origin(kind) is dict and dataclasses.is_dataclass(inner[1]):
            values[item.name] = {"common": _full(inner[1])}
        elif get_origin(kind) is list and dataclasses.is_dataclass(inner[0]):
            values[item.name] = [_full(inner[0]) for _ in range(3)]
        else:
            values[item.name] = {
                str: "text", int: 7, float: 0.123, bool: True,
                list: ["party-a"], dict: {"party-a": 0.123},
            }[get_origin(kind) or kind]  # fmt: skip
    return cls(**values)


def _told(record):
    """Return the paths of the fields that say anything."""
    empty = {cls: cls(**{f.name: None for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING
                         and f.default_factory is dataclasses.MISSING})
             for cls in (RunRecord, RoundRecord, PartyRecord, Rejection, ColumnRecord, Note)}  # fmt: skip
    found = set()

    def look(value, path):
        for item in dataclasses.fields(value):
            inner, where = getattr(value, item.name), f"{path}{item.name}"
            if isinstance(inner, list) and inner and dataclasses.is_dataclass(inner[0]):
                for entry in inner:
                    look(entry, f"{where}.")
            elif inner != getattr(empty[type(value)], item.name) and inner not in ("", None):
                found.add(where)

    look(record, "")
    return found | {"schema_version"}


def _level(name):
    algorithm, claims, allowed, rounds = LEVELS[name]
    one_shot = algorithm in ("fedkt", "pate")
    changes = {"algorithm": algorithm, "one_shot": one_shot, "claims": [c.as_dict() for c in claims]}
    return dataclasses.replace(_full(RunRecord), **changes), allowed | ({"one_shot"} if one_shot else set()), rounds


@pytest.mark.parametrize("name", LEVELS)
def test_a_publishable_record_holds_these_fields_and_no_others(name):
    record, allowed, rounds = _level(name)
    shown = record.publishable()
    assert _told(shown) == allowed
    assert len(shown.rounds) == rounds  # without a proven claim votes may decide how many there are
    assert shown.publishable() == shown


def test_the_enumeration_sees_a_field_that_should_not_be_there():
    record, allowed, _ = _level("DP-FedCT")
    leaks = {"rounds.agreement", "rounds.seconds", "rounds.accuracy", "rounds.server_accuracy", "parties.solo",
             "rounds.rejected.node_id", "parties.model_bytes", "notes.code", "notes.values", "server", "centralised",
             "parties.federated", "rounds.tested"}  # fmt: skip
    assert leaks <= _told(record) - allowed
    for leak in ("agreement", "changed_share", "seconds"):
        shown = record.publishable()
        setattr(shown.rounds[1], leak, 0.5)
        assert _told(shown) - allowed == {f"rounds.{leak}"}


def test_measured_shares_of_kept_answers_are_not_told():
    for name, told in (("FedKT L1", False), ("DP-FedCT", True), ("DP-FedCT, seeded", False)):
        record, _, _ = _level(name)
        assert (record.publishable().rounds[0].kept_share is not None) is told


def test_the_number_of_rounds_is_told_where_votes_cannot_have_decided_it():
    record, _, _ = _level("FedCT")
    assert len(record.publishable().rounds) == 1
    record.config = {"paper.stop-when-converged": False}
    assert len(record.publishable().rounds) == 3
    record.config = {}
    record.one_shot = True
    assert len(record.publishable().rounds) == 3


def test_reasons_are_withheld_and_names_of_who_was_left_out_are_not():
    record, _, _ = _level("DP-FedCT")
    assert {(x.party, x.node_id, x.code) for r in record.publishable().rounds for x in r.rejected} == {
        ("text", "", WITHHELD)
    }
    assert record.publishable().reason == WITHHELD


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


def test_an_unknown_field_is_refused(record):
    with pytest.raises(DataError, match=r"run record must hold only the fields of version 2, got \['colour'\]"):
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
        ("notes", [1], r"run record: notes\[0\] must be an object, got 'int'"),
        ("notes", [{"values": {}}], r"run record: notes\[0\] must have the fields \['code'\]"),
        ("centralised", 0.9, "run record: centralised must be a dict, got 0.9"),
        ("server", {"own": 0.9}, r"run record: server\['own'\] must be an object, got 'float'"),
        ("server", {"own": {"n": 5, "f1": ["x"]}}, r"server\['own'\]: f1\[0\] must be a float, got 'x'"),
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


def test_parties_stay_sorted_by_name_and_each_has_one_record():
    record = RunRecord(run_id="1", algorithm="fedct")
    made = {name: record.party(name) for name in ("party-10", "party-2", "a", "party-1")}
    assert [party.name for party in record.parties] == ["a", "party-1", "party-10", "party-2"]
    assert all(record.party(name) is party for name, party in made.items())
    assert len(record.parties) == 4
