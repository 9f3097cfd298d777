"""`fedkd server rehearse`: who answers, and who would be missing."""

import json
from types import SimpleNamespace

import pytest
import skops.io  # noqa: F401 - once here, and not in the child of every final visit

from fedkd_flwr.cli.main import main


def test_the_command_says_who_answers_and_who_would_be_missing(monkeypatch, capsys):
    log = ["rehearsal: north answers", "rehearsal: south would be missing: no-rows. Give it rows.", "other words"]
    monkeypatch.setattr("fedkd_flwr.app.submit.submit", lambda values, superlink: SimpleNamespace(run_id="7"))
    monkeypatch.setattr("fedkd_flwr.app.submit.follow", lambda *_: log)
    for how, code in (("finished:completed", 1), ("finished:failed", 2)):
        monkeypatch.setattr("fedkd_flwr.app.submit.status", lambda *_, how=how: (how, "too  few"))
        with pytest.raises(SystemExit) as ended:
            main(["server", "rehearse", "public-path=/srv/public.csv", "--json"])
        told = json.loads(capsys.readouterr().out)
        assert ended.value.code == told["exit_code"] == code
        missing = {"party": "south", "code": "no-rows", "what_to_do": "Give it rows."}
        assert (told["answered"], told["missing"]) == (["north"], [missing])
        assert told["reason"] == ("" if code == 1 else "too few")
