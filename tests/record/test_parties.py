"""What a record holds of each party."""

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import PartyRecord, RunRecord


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


def test_parties_stay_sorted_by_name_and_each_has_one_record():
    record = RunRecord(run_id="1", algorithm="fedct")
    made = {name: record.party(name) for name in ("party-10", "party-2", "a", "party-1")}
    assert [party.name for party in record.parties] == ["a", "party-1", "party-10", "party-2"]
    assert all(record.party(name) is party for name, party in made.items())
    assert len(record.parties) == 4
