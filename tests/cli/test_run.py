"""`fedkd server run`: what Flower says is believed only where it succeeded, and how a run is waited for."""

import pytest

from fedkd_flwr.app import submit
from fedkd_flwr.silo.bundles import Bundle


def _log_of_a_server(monkeypatch, lines, how, details):
    made = submit.Submitted(
        run_id="7", bundle=Bundle(content=b"", sha256="ab", app="a", version="1", client_app="", files={})
    )
    monkeypatch.setattr(submit, "submit", lambda *_, **__: made)
    monkeypatch.setattr(submit, "follow", lambda *_: iter(lines))
    monkeypatch.setattr(submit, "status", lambda *_: (how, details))


def test_a_run_that_is_waited_for_shows_the_codes_of_silos_as_they_come_and_how_it_ended(fedkd, monkeypatch):
    lines = [
        "WARNING :   north is not ready: missing-file. `fedkd doctor` there says why.",
        "WARNING :   left out of round 1: south: not-allowed",
        "INFO :      round 1/2: 2 of 3 parties answered",
    ]
    _log_of_a_server(monkeypatch, lines, "finished:stopped", "N/A")
    done = fedkd("server", "run", "--wait")
    assert done.code == 1
    told = [
        "north is not ready: missing-file. `fedkd doctor` there says why.",
        "left out of round 1: south: not-allowed",
        "error: the run was stopped",
    ]
    assert [line for line in done.err.splitlines() if line in told] == told


def test_quiet_shows_no_progress_of_a_run_that_is_waited_for_and_verbose_all_of_its_log(fedkd, monkeypatch):
    lines = ["INFO :      round 1/2: 2 of 3 parties answered", "WARNING :   left out of round 1: south: not-allowed"]
    _log_of_a_server(monkeypatch, lines, "finished:completed", "")
    assert "round 1 of 2" in fedkd("server", "run", "--wait").err
    assert fedkd("server", "run", "--wait", "-q").err == "left out of round 1: south: not-allowed\n"
    assert fedkd("server", "run", "--wait", "-v").err == "\n".join([*lines, ""])


@pytest.mark.parametrize(("how", "code"), [("finished:completed", 0), ("finished:failed", 1)])
def test_a_submitted_run_that_is_waited_for_has_its_exit_code(fedkd, monkeypatch, how, code):
    lines = ["INFO :      round 1/2: 2 of 2 parties answered", "INFO :      record: /srv/record.json"]
    _log_of_a_server(monkeypatch, lines, how, "too few parties")
    done = fedkd("server", "run", "public-path=/srv/p.csv", "--superlink", "ops", "--wait")
    assert done.code == code
    assert done.out.splitlines() == ["run     7", "bundle  ab  a 1", "record: /srv/record.json"]
    assert "round 1 of 2: 2 of 2 parties answered" in done.err
    assert ("too few parties" in done.err) is (code == 1)


def test_a_run_at_no_superlink_of_silos_is_refused_before_flower_simulates_one(fedkd, monkeypatch, tmp_path):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    done = fedkd("server", "run", "public-path=public.csv")
    assert done.code == 2
    assert "the SuperLink must be one that silos are connected to, got the default (:local:)" in done.err
    assert "fedkd dev net 3" in done.err
