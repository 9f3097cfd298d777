"""What was found before a run: why it matters, how bad it is, and how it is printed."""

import re
from pathlib import Path

import pytest

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.silo import check
from fedkd_flwr.silo.check import WHY, Level, as_json, as_text, exit_code, fault, finding_of, ready, warning

SUBJECT = re.compile(r'(?:ready|warning|fault|finding_of)\("([^"]+)"|(?:subject = |Code\.\w+: )"([a-z ]+)"')


def test_each_subject_that_a_finding_names_has_a_reason():
    """Two had none, and the command that should say what to do ended in a KeyError."""
    files = sorted(Path(check.__file__).parent.glob("check_*.py"))
    named = {one or other for file in files for one, other in SUBJECT.findall(file.read_text(encoding="utf-8"))}
    assert len(named) > 15
    assert named <= set(WHY)


def test_a_finding_is_printed_with_its_reason_and_its_way_out_where_something_is_wrong():
    findings = [ready("rows", "1,200 rows"), warning("values", "9 cells"), fault("disk", "full", "Make room.")]
    lines = list(as_text(findings))
    assert [line.split()[0] for line in lines if line[0] != " "] == ["ready", "warning", "NOT", "Not"]
    assert sum("Why: " in line for line in lines) == 2
    assert any("Do: Make room." in line for line in lines)
    assert lines[-1] == "Not ready: 1 fault, 1 warning; 3 points were looked at."
    assert as_json(findings)["exit_code"] == exit_code(findings) == 3
    assert [one["why"] for one in as_json(findings)["findings"]] == [WHY[s] for s in ("rows", "values", "disk")]


@pytest.mark.parametrize(
    ("error", "subject", "what"),
    [
        (DataError("no rows"), "rows", "no rows"),
        (DataError("no xgboost", code=Code.MISSING_EXTRA), "extras", "no xgboost"),
        (KeyError("a"), "rows", "KeyError: 'a'"),
    ],
)
def test_an_error_becomes_a_fault_with_its_text(error, subject, what):
    found = finding_of("rows", error)
    assert (found.subject, found.level, found.what) == (subject, Level.FAULT, what)
