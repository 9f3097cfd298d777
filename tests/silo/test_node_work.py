"""The answer to one instruction: by approved bundles and installed code only, in a process that ends whole."""

import os
import sys
import time

import pytest
from app_bundles import approvals, installed, make_bundle, work_of

from fedkd_flwr.errors import DataError
from fedkd_flwr.silo import node_work
from fedkd_flwr.silo.check_link import Link
from fedkd_flwr.silo.node import run_node
from fedkd_flwr.silo.node_work import CLIENT, RunEndedError, answer
from fedkd_flwr.wire.records import open_reply

__all__ = ["approvals", "installed"]


def test_an_approved_bundle_is_answered_by_the_installed_code_with_context_and_prints_kept_apart(installed, approvals):
    sandbox = ["env", "PYTHONDONTWRITEBYTECODE=1"]  # which is given the command
    reply, context, _ = answer(work_of(installed), approvals, [*sandbox, *CLIENT])
    assert reply.content["say"]["said"] == "hello north 3"
    assert reply.metadata.reply_to_message_id == "m1"
    assert context.state["seen"]["rounds"] == 1


@pytest.mark.parametrize("ask", ["raise", "nothing"])
def test_a_client_app_without_a_reply_is_answered_for_it_and_its_words_stay_here(installed, approvals, ask, capfd):
    reply, context, _ = answer(work_of(installed, ask=ask), approvals, CLIENT)
    assert (reply.error.code, reply.error.reason, context) == (8, "no-reply", None)
    assert ("private words" if ask == "raise" else "returned NoneType") in capfd.readouterr().err


@pytest.mark.parametrize(
    "script",
    ["import os; os._exit(3)", "import sys; sys.stdout.write('x' * 100)", "pass"],
    ids=["dies", "babbles", "is-silent"],
)
def test_a_process_that_writes_no_answer_is_answered_for(installed, approvals, script):
    reply, _, _ = answer(work_of(installed), approvals, [sys.executable, "-c", script])
    assert reply.error.reason == "no-reply"


def test_a_process_is_killed_with_what_it_started_when_nobody_waits_for_it(installed, approvals, tmp_path, monkeypatch):
    monkeypatch.setattr(node_work, "STOP_S", 0.2)
    pid_file = tmp_path / "pid"
    script = (
        "import pathlib, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=2)\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    started = time.monotonic()
    reply, _, _ = answer(work_of(installed, ttl=1.0), approvals, [sys.executable, "-c", script])
    assert reply.error.reason == "no-reply"
    assert time.monotonic() - started < 20
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(int(pid_file.read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the process group alone is found")
@pytest.mark.parametrize("kind", ["of the learning child", "orphan of another group"])
def test_what_left_its_process_group_is_killed_too(kind, installed, approvals, tmp_path):
    """A party learns in a child that leads a group of its own; what a model starts there would outlive both."""
    pid_file = tmp_path / "pid"
    sleeper = (
        "import pathlib, subprocess\n"
        "child = subprocess.Popen(['sleep', '60'], stdout=2)\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n"
    )
    if kind == "of the learning child":
        work = f"def work():\n    exec({sleeper!r})\n    os.kill(os.getppid(), 9)\n    time.sleep(60)\n"
        script = f"import os, time\nfrom fedkd_flwr.processes.limits import limits_of\n{work}limits_of(60.0, 0.0)(work)"
    else:
        started = f"subprocess.run([sys.executable, '-c', {sleeper!r}], stdout=2, start_new_session=True)"
        script = f"import subprocess, sys\n{started}"
    reply, _, _ = answer(work_of(installed), approvals, [sys.executable, "-c", script])
    assert reply.error.reason == "no-reply"
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(int(pid_file.read_text()))


def _wait_until_gone(pid, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        os.kill(pid, 0)
        time.sleep(0.05)


@pytest.mark.parametrize("days", [3, -3])
def test_a_clock_that_is_days_off_is_named_here_and_to_the_server_and_nothing_is_computed(
    installed, approvals, days, caplog
):
    reply, _, _ = answer(work_of(installed, ahead=days * 86400.0), approvals, ["no-such-program"])
    assert (reply.error.code, reply.error.reason) == (7, "wrong-clock")
    assert open_reply(reply, "fit").code == "wrong-clock"
    assert "clock of this node must agree with the server's, got" in caplog.text


def test_work_for_a_run_that_was_stopped_is_ended_by_its_name_and_nothing_is_sent(installed, approvals, monkeypatch):
    monkeypatch.setattr(node_work, "LOOK_S", 0.1)
    began = time.monotonic()
    with pytest.raises(RunEndedError):
        answer(work_of(installed), approvals, ["sleep", "60"], goes_on=lambda: False)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "case", ["another bundle", "other bytes", "another kind of task", "revoked", "others can write", "cannot be read"]
)
def test_what_is_not_approved_starts_no_process_and_gets_one_word(installed, approvals, caplog, case):
    """A reply in any case: without one the server would wait until its deadline."""
    other, work = make_bundle("app = 1\n", version="9\\u001b[2J"), work_of(installed)
    said = "run 5 of lab/votes"
    if "bundle" in case or "bytes" in case:
        work = work_of(other) if "another" in case else work_of(installed, sent=other.content)
        said = f"got sha256 {other.sha256}. Nothing of it was run"
    elif case == "another kind of task":
        work = work_of(installed, agent=True)
    elif case == "revoked":
        approvals.remove(installed.sha256)
    elif case == "others can write":
        approvals.folder.chmod(0o777)
        said = "writable for its owner alone"
        with pytest.raises(DataError, match=said):
            run_node({}, Link("127.0.0.1:1", insecure=True), approvals=approvals)  # nor does a node start on these
    else:
        (approvals.folder / "release.fab").symlink_to(approvals.folder / "gone.fab")
        said = "release.fab must be a file that this user can read"
    reply, context, _ = answer(work, approvals, ["no-such-program"])
    assert (reply.error.code, reply.error.reason, context) == (7, "bundle-not-approved", None)
    assert reply.metadata.reply_to_message_id == "m1"
    assert said in caplog.text
    assert "\x1b" not in caplog.text
    assert "Nothing of it" not in said or "fedkd node approve" in caplog.text
