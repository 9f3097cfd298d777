"""What an audit found is part of a record."""

from fedkd_flwr.record.audit import AttackFigures, AuditRecord, Measured, ProvenEpsilon
from fedkd_flwr.record.run_record import RunRecord


def test_what_an_audit_found_reads_back_as_it_was_and_is_never_published(record, tmp_path):
    half = Measured(value=0.5, low=0.4, high=0.6)
    figures = AttackFigures(members=9, fresh=9, auc=half, found_at_1_percent=half, found_at_1_permille=half)
    claim = ProvenEpsilon(unit="record", neighbouring_relation="replace one", epsilon=2.5, delta=1e-5, proven=0.75)
    record.audit = AuditRecord(
        sent=["labels"], shadows=2, everybody=figures, parties={"party-a": figures}, without_shadows=half,
        claims=[claim],
    )  # fmt: skip
    (tmp_path / "record.json").write_text(record.to_json())
    assert RunRecord.load(tmp_path / "record.json") == record
    assert record.publishable().audit is None
