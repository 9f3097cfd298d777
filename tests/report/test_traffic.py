import pytest

from fedkd_flwr.record.run_record import RoundRecord, RunRecord
from fedkd_flwr.report import traffic


def test_bytes_up_are_of_those_that_answered_and_bytes_down_of_those_asked_in_rounds_that_are_known():
    rounds = [
        RoundRecord(server_round=1, asked=4, answered=["a", "b"], bytes_up=200, bytes_down=800),
        RoundRecord(server_round=2, asked=4, answered=list("abcd"), bytes_up=80, bytes_down=40),
        RoundRecord(server_round=3, asked=4, answered=list("abcd"), bytes_up=160, bytes_down=40),
        RoundRecord(server_round=4, asked=4, answered=["a"], bytes_up=7, bytes_down=999, ended=False),
        RoundRecord(server_round=5, asked=4, ended=False),
    ]
    record = RunRecord(run_id="1", algorithm="x", rounds=rounds, status="stopped")
    assert traffic.traffic(record) == pytest.approx(((100 + 20 + 40) / 3, (200 + 10 + 10) / 3))
    assert [one.server_round for one in traffic.known_rounds(record)] == [1, 2, 3]
    assert traffic.answered(record) == "2 to 4 answered of 4 asked"
    record.status = "failed"
    assert [one.server_round for one in traffic.known_rounds(record)] == [1, 2, 3, 4]
    record.rounds = rounds[1:3]
    assert traffic.answered(record) == "4 answered of 4 asked, in every round"
    record.rounds = rounds[:1]
    assert traffic.answered(record) == "2 answered of 4 asked"
    for one in record.rounds:
        one.bytes_up = 0  # left out
    assert traffic.traffic(record) == (None, None)


def test_a_party_is_listed_once_per_reason(make_record, failed_record):
    first = failed_record.rounds[0]
    failed_record.rounds.append(make_record(5, 2).rounds[1])
    failed_record.rounds[1].rejected = first.rejected[:1]
    found = traffic.left_out(failed_record)
    assert [(entry.who, entry.rounds) for entry in found[:2]] == [("party-001", [1, 2]), ("party-002", [1])]
    assert found[-1].who == f"node {'9' * 19} (its party is not known)"
