"""What an attack found, on the page: figures with their intervals, the claim beside what is proven."""

from dataclasses import replace

import pytest

from fedkd_flwr.record.run_record import AttackFigures, AuditRecord, Measured, ProvenEpsilon
from fedkd_flwr.report.page import write_page
from fedkd_flwr.report.tables import audit_text


@pytest.fixture
def audited(make_record, hostile):
    auc, *found, bare = (Measured(value=v, low=v - 0.01, high=v + 0.01) for v in (0.611, 0.033, 0.014, 0.52))
    shares = {"found_at_1_percent": found[0], "found_at_1_permille": found[1]}
    figures = AttackFigures(members=1234, fresh=1234, auc=auc, **shares)
    record = make_record()
    record.audit = AuditRecord(
        sent=["labels", hostile],
        shadows=16,
        everybody=figures,
        parties={hostile: figures},
        without_shadows=bare,
        claims=[ProvenEpsilon(unit="record", neighbouring_relation=hostile, epsilon=2.5, delta=1e-5, proven=0.75)],
    )
    return record


def test_the_section_says_figures_intervals_and_what_is_proven_beside_the_claim(audited, tmp_path, no_pictures):
    text = write_page(audited, tmp_path / "a.html").read_text()
    for words in ("0.611 (0.601 to 0.621)", "1234", "2.5 at delta 1e-05", "0.75", "repeated the run 16 times"):
        assert words in text
    assert "<script>" not in text


def test_a_claimed_epsilon_is_rounded_up_and_a_proven_one_down(audited, tmp_path, no_pictures):
    audited.audit.claims[0] = replace(audited.audit.claims[0], epsilon=1.00004, proven=0.99996)
    page = write_page(audited, tmp_path / "a.html").read_text()
    assert "1.001 at delta 1e-05 (record): the attack proves 0.9999" in page
    assert "claimed epsilon 1.001 at delta 1e-05 (record): the attack proves 0.9999\n" in audit_text(audited.audit)


def test_a_page_has_the_section_only_where_an_attack_was_tried(audited, make_record, tmp_path, no_pictures):
    title = "What an attack finds"
    assert title in write_page(audited, tmp_path / "a.html").read_text()
    assert title not in write_page(make_record(), tmp_path / "b.html").read_text()
    assert title not in write_page(audited, tmp_path / "c.html", publishable=True).read_text()
