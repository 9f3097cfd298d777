import pytest
from pages import Page, written

from fedkd_flwr.report.public_set import consensus_line, fit_line, fit_table, fits
from fedkd_flwr.report.table import summary_table


@pytest.fixture
def fitted(make_record):
    record = make_record(3, 2)
    record.consensus_rule, record.consensus_reason = "majority", "The public rows look like nobody's data."
    for party, fit in zip(record.parties, (0.9, 0.1, 0.5), strict=True):
        party.public_fit, party.trust = fit, 1.0
    return record


def test_without_a_fit_nothing_is_said(make_record, tmp_path):
    record = make_record(3, 2)
    assert (consensus_line(record), fit_line(record), fits(record)) == ("", "", [])
    assert "public set fit" not in summary_table(record)


def test_the_worst_fit_comes_first_and_is_named(fitted):
    assert [p.name for p, _ in fits(fitted)] == ["party-001", "party-002", "party-000"]
    assert fit_line(fitted) == "0.500 (0.100 to 0.900); lowest: party-001"
    assert fit_table(fitted).rows[0] == ["party-001", "0.100"]


@pytest.mark.usefixtures("no_pictures")
def test_table_and_page_say_what_was_chosen_and_why(fitted, tmp_path):
    text = summary_table(fitted)
    assert "consensus                 majority: The public rows look like nobody's data." in text
    assert "public set fit            0.500" in text
    page = Page(written(fitted, tmp_path))
    assert "majority: The public rows look like nobody's data." in page.text
    assert "how far the other parties confirm" in page.text
