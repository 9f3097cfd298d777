"""What was found before a run: how bad it is, what to do, and how it is printed."""

import json

import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.silo.check import Level, as_json, as_text, exit_code, fault, finding_of, ready, warning


def test_a_finding_is_printed_with_its_way_out_where_something_is_wrong():
    findings = [ready("rows", "1,200 rows"), warning("values", "9 cells"), fault("disk", "full", "Make room.")]
    lines = list(as_text(findings))
    assert [line.split()[0] for line in lines if line[0] != " "] == ["ready", "warning", "NOT", "Not"]
    assert any("Do: Make room." in line for line in lines)
    assert lines[-1] == "Not ready: 1 fault, 1 warning; 3 points were looked at."
    told = json.loads(json.dumps(as_json(findings)))
    assert told["exit_code"] == exit_code(findings) == 3
    assert [one["level"] for one in told["findings"]] == ["ready", "warning", "fault"]
    assert [told["findings"][2][name] for name in ("subject", "what", "way_out")] == ["disk", "full", "Make room."]


@pytest.mark.parametrize(("error", "what"), [(DataError("no rows"), "no rows"), (KeyError("a"), "KeyError: 'a'")])
def test_an_error_becomes_a_fault_with_its_text(error, what):
    found = finding_of("rows", error)
    assert (found.subject, found.level, found.what) == ("rows", Level.FAULT, what)
