import pytest
from pages import Page, written

from fedkd_flwr.record.run_record import RoundRecord, RunRecord
from fedkd_flwr.report.summary import answered, consensus_line, known_rounds, left_out, summary, traffic
from fedkd_flwr.report.table import summary_table
from fedkd_flwr.report.tables import public_set_fit


@pytest.mark.usefixtures("no_pictures")
def test_the_worst_fit_comes_first_and_table_and_page_say_what_was_chosen_and_why_and_nothing_without_a_fit(
    make_record, tmp_path
):
    record = make_record(3, 2)
    assert (consensus_line(record), public_set_fit(record).rows) == ("", [])
    assert "public set fit" not in summary_table(record)
    record.consensus_rule, record.consensus_reason = "majority", "The public rows look like nobody's data."
    for party, fit in zip(record.parties, (0.9, 0.1, 0.5), strict=True):
        party.public_fit, party.trust = fit, 1.0
    (line,) = (one for one in summary(record) if one.label == "public set fit")
    assert line.value == "0.500 (0.100 to 0.900); lowest: party-001"
    rows = public_set_fit(record).rows
    assert rows == [("party-001", "0.100"), ("party-002", "0.500"), ("party-000", "0.900")]
    text = summary_table(record)
    assert "consensus                 majority: The public rows look like nobody's data." in text
    assert "public set fit            0.500" in text
    page = Page(written(record, tmp_path))
    assert "majority: The public rows look like nobody's data." in page.text
    assert "how far the other parties confirm" in page.text


def test_bytes_up_are_of_those_that_answered_and_bytes_down_of_those_asked_in_rounds_that_are_known():
    rounds = [
        RoundRecord(server_round=1, asked=4, answered=["a", "b"], bytes_up=200, bytes_down=800),
        RoundRecord(server_round=2, asked=4, answered=list("abcd"), bytes_up=80, bytes_down=40),
        RoundRecord(server_round=3, asked=4, answered=list("abcd"), bytes_up=160, bytes_down=40),
        RoundRecord(server_round=4, asked=4, answered=["a"], bytes_up=7, bytes_down=999, ended=False),
        RoundRecord(server_round=5, asked=4, ended=False),
    ]
    record = RunRecord(run_id="1", algorithm="x", rounds=rounds, status="stopped")
    assert traffic(record) == pytest.approx(((100 + 20 + 40) / 3, (200 + 10 + 10) / 3))
    assert [one.server_round for one in known_rounds(record)] == [1, 2, 3]
    assert answered(record) == "2 to 4 answered of 4 asked"
    record.status = "failed"
    assert [one.server_round for one in known_rounds(record)] == [1, 2, 3, 4]
    record.rounds = rounds[1:3]
    assert answered(record) == "4 answered of 4 asked, in every round"
    record.rounds = rounds[:1]
    assert answered(record) == "2 answered of 4 asked"
    for one in record.rounds:
        one.bytes_up = 0  # left out
    assert traffic(record) == (None, None)


def test_a_party_is_listed_once_per_reason(make_record, failed_record):
    first = failed_record.rounds[0]
    failed_record.rounds.append(make_record(5, 2).rounds[1])
    failed_record.rounds[1].rejected = first.rejected[:1]
    found = left_out(failed_record)
    assert [(entry.who, entry.rounds) for entry in found[:2]] == [("party-001", [1, 2]), ("party-002", [1])]
    assert found[-1].who == f"node {'9' * 19} (its party is not known)"
