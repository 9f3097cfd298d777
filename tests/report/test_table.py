import math
import unicodedata

import numpy as np
import pytest

from fedkd_flwr.metrics import Metrics, measure
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.report.table import summary_table

NO_PRIVACY = "privacy: none: labels are shared as they are (no noise)"


@pytest.mark.parametrize(("parties", "rounds"), [(1, 1), (5, 1), (12, 3), (13, 3), (100, 10)])
def test_no_line_is_wider_than_a_terminal(make_record, parties, rounds):
    assert max(map(len, summary_table(make_record(parties, rounds)).splitlines())) <= 100


def test_the_means_are_those_of_the_record(make_record):
    record = make_record(4, 2)
    alone = [p.solo["common"].accuracy for p in record.parties]
    after = [p.federated["common"].accuracy for p in record.parties]
    text = summary_table(record)
    assert f"{sum(alone) / 4:.3f} ({min(alone):.3f} to {max(alone):.3f})" in text
    assert f"{sum(after) / 4:.3f} ({min(after):.3f} to {max(after):.3f}); better than alone: 4 of 4" in text
    assert "accuracy, own rows" in text
    assert "own alone" in text
    assert NO_PRIVACY in text.splitlines()
    assert "2.9 KB up, 2.5 KB down" in summary_table(make_record(10, 2))
    record.parties[0].solo = {"common": Metrics(n=5, accuracy=math.nan)}  # a dash, and no mean
    assert "nan" not in summary_table(record)
    assert "better than alone: 3 of 3 parties" in summary_table(record)


@pytest.fixture
def measured_record(make_record):
    """Return a record whose common test rows have a rare class, with every figure."""
    record, y = make_record(3, 2, algorithm="fedkt"), np.repeat([0, 1], [1960, 40])
    for i, party in enumerate(record.parties):
        probs = np.linspace(0.0, 1.0, 2000) ** (i + 1)
        found = measure(y, (probs > 0.95).astype(int), np.column_stack([1 - probs, probs]), num_classes=2)
        party.solo["common"] = party.federated["common"] = found
    record.server["common"] = found
    return record


def test_where_classes_are_imbalanced_balanced_accuracy_leads_and_the_baseline_stands_there(measured_record):
    lines = summary_table(measured_record).splitlines()
    balanced = [p.solo["common"].balanced_accuracy for p in measured_record.parties]
    at = next(i for i, line in enumerate(lines) if line.startswith("balanced accuracy         on common test rows"))
    assert f"{sum(balanced) / 3:.3f} ({min(balanced):.3f} to {max(balanced):.3f})" in lines[at + 1]
    assert any(line.startswith("server's model            balanced accuracy 0.") for line in lines)
    assert any(line.startswith("baseline                  0.980 (accuracy of always answering") for line in lines)
    assert "2,000 common test rows)" in " ".join(" ".join(lines).split())
    assert any(line.startswith("party (balanced accuracy)") for line in lines)
    assert not any(line.startswith("accuracy, common") for line in lines)


def test_a_command_stands_on_a_line_of_its_own_and_no_word_is_broken_so_that_both_can_be_copied(make_record):
    record = make_record(2, 2)
    command = "fedkd simulate dataset=table " + " ".join(f"num-private-{i}=1200" for i in range(9))
    path = "/home/ann/" + "a-long-folder/" * 9 + "rows.csv"
    record.notes = [Note(NoteCode.LOOK_AT_COLUMNS, {"command": command}), _own(f"look into {path} again")]
    lines = summary_table(record).splitlines()
    at = lines.index("note: columns were left out, or say little (see their notes); to drop them all:")
    assert lines[at + 1] == f"      {command}"
    assert any(path in line for line in lines)
    said = "done before: fedkd report 7. For more rounds start anew.", " ".join(["sixteen-letters"] * 20)
    record.notes = list(map(_own, said))
    assert "note: done before: fedkd report 7. For more rounds start anew." in summary_table(record).splitlines()
    assert not any(line.endswith("sixteen-") for line in summary_table(record).splitlines())


def test_few_parties_have_a_row_each_and_many_are_best_median_and_worst(make_record):
    assert all(f"party-{i:03d}" in summary_table(make_record(12, 2)) for i in range(12))
    record = make_record(101, 2)
    ranked = sorted(record.parties, key=lambda p: p.federated["common"].accuracy)
    text = summary_table(record)
    for word, party in (("best", ranked[-1]), ("median", ranked[50]), ("worst", ranked[0])):
        assert f"{word}: {party.name}" in text
    assert text.split("─" * 100)[-2].count("party-") == 3  # the warning above names losers


def test_rows_stand_beside_each_party_where_all_are_known_and_there_is_room(make_record):
    record = make_record(2, 1)
    assert "rows" not in _head(record)
    for party, count in zip(record.parties, (1200, 34), strict=True):
        party.class_counts = [count, 5]
    assert _head(record)[:4] == ["party", "model", "rows", "alone"]
    assert [line.split()[2] for line in summary_table(record).splitlines() if line.startswith("party-")] == [
        "1,205",
        "39",
    ]
    for party in record.parties:
        party.name, party.model, party.solo["own"] = f"{party.name:x>40}", "x" * 40, party.solo["common"]
    assert "rows" not in _head(record)
    record.parties[0].class_counts = []
    assert max(map(len, summary_table(record).splitlines())) <= 100


def _head(record):
    return next(line for line in summary_table(record).splitlines() if line.startswith("party ")).split()


def test_a_claim_is_never_a_bare_epsilon(make_record, claims):
    record = make_record(3, 1)
    record.claims = claims
    text = " ".join(summary_table(record).split())
    first = text[text.index("privacy: ") : text.index("privacy (OPERATOR ONLY)")]
    for said in (
        "protects: one record",
        "against: the server",
        "trusted for it: the party's own software alone",
        "epsilon: 1;",
        "delta: 1e-05 (1 in 100,000)",
        "data sets compared: replace one record",
        "basis: proven",
        "may be passed on: yes",
    ):
        assert said in first
    assert "epsilon: 4.73" not in first
    assert NO_PRIVACY not in text


def test_a_failed_run_gives_its_reason_and_who_was_missing(failed_record):
    text = summary_table(failed_record)
    assert "reason: min-parties must be reached" in text
    assert "left out: party-001 in round 1: no-reply" in text
    assert "left out: node 9999999999999999999 (its party is not known) in round 1: bad-payload" in text


def test_notes_of_the_run_and_of_parties_are_shown_and_counted(make_record):
    record = make_record(3, 1)
    record.notes = [_own("quorum labelled nothing")]
    record.parties[0].notes = [_own(f"remark {i}") for i in range(20)]
    text = summary_table(record)
    assert "note: quorum labelled nothing" in text
    assert "note: 9 more are in the record" in text


def test_a_hostile_text_cannot_drive_the_terminal(hostile_record):
    text = summary_table(hostile_record)
    assert {unicodedata.category(c) for c in text if c != "\n"}.isdisjoint({"Cc", "Cf"})
    assert max(map(len, text.splitlines())) <= 100


def _own(text):
    return Note("own", {"text": text})
