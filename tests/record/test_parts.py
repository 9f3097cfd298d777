"""One round in a record and in the log, and one party."""

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.parts import Rejection, RoundRecord
from fedkd_flwr.record.publishable import WITHHELD
from fedkd_flwr.record.run_record import PartyRecord, RunRecord


def _round(**changes):
    left_out = [Rejection(party="b", node_id="123", code="no-rows", failure="3 rows")]
    measured = {"agreement": 0.7, "labelled_share": 0.6, "kept_share": 0.9, "accuracy": {"a": 0.75}, "seconds": 2.0}
    return RoundRecord(
        server_round=2, asked=3, answered=["a", "c"], rejected=left_out, bytes_up=4000, bytes_down=100,
        **{**measured, **changes},
    )  # fmt: skip


def test_its_line_in_the_log_has_figures_that_were_measured_and_bytes_of_one_party():
    assert _round(agreement=None, accuracy={"a": 0.5, "c": 0.75}).line(5) == (
        "round 2/5: 2 of 3 parties answered | labelled 0.600 | accuracy 0.625 (0.500-0.750) | "
        "2.0 KB up, 0.1 KB down a party | 2.0 s"
    )
    assert "agreement 0.700" in _round().line(5)


def test_what_a_claim_covers_is_published_and_what_it_does_not_is_withheld():
    def shown(**covered):
        one = _round().publishable(**covered)
        return one.labelled_share, one.kept_share, one.bytes_down, one.bytes_up

    assert shown(covered=False, at_party=False) == (None, None, 0, 0)
    assert shown(covered=True, at_party=False) == (0.6, None, 100, 0)
    assert shown(covered=True, at_party=True) == (0.6, 0.9, 100, 4000)
    published = _round().publishable(covered=True, at_party=True)
    assert published.rejected == [Rejection(party="b", node_id="", code=WITHHELD)]
    assert (published.agreement, published.accuracy, published.seconds) == (None, {}, 0.0)


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
