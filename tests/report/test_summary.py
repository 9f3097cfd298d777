import pytest
from pages import Page, written

from fedkd_flwr.report.summary import consensus_line, summary
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
