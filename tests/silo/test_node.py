"""A node asks the installed ClientApp about approved bundles only, and every task gets a reply."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from app_bundles import make_bundle
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.fab import Fab
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.silo import node
from fedkd_flwr.silo.bundles import Approvals
from fedkd_flwr.silo.node import CLIENT, Work, answer, run_node

ROOT = Path(__file__).parents[2]
CLIENT_APP = """
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    print("a word on stdout")
    asked = message.content["ask"]["what"]
    if asked == "nothing":
        return None
    if asked == "raise":
        raise ValueError("private words")
    context.state["seen"] = ConfigRecord({"rounds": 1})
    said = f"{asked} {context.node_config['party']} {context.run_config['rounds']}"
    return Message(RecordDict({"say": ConfigRecord({"said": said})}), reply_to=message)
"""


def _work(bundle, *, ask="hello", task_type="flwr-clientapp", ttl=60.0, sent=None):
    """Return a task as a SuperNode hands it over; ``sent`` is what the server sends instead of the bundle."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 5, 1, 7
    message = Message(RecordDict({"ask": ConfigRecord({"what": ask})}), dst_node_id=7, message_type="train", ttl=ttl)
    message.metadata.__dict__["_message_id"] = "m1"
    context = Context(5, 7, {"party": "north"}, RecordDict(), {"rounds": 3})
    run = Run.create_empty(5)
    run.fab_id, run.fab_version, run.fab_hash = bundle.app, bundle.version, bundle.sha256
    return Work(task_type, 1, message, context, run, Fab(bundle.sha256, sent or bundle.content, {}))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install an app ``votes`` for the ClientApp's process; return its bundle, whose own code must never run."""
    package = tmp_path / "site" / "votes"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "client.py").write_text(CLIENT_APP, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package.parent), str(ROOT)]))
    return make_bundle("raise SystemExit('the code of a bundle ran')\n")


@pytest.fixture
def approvals(tmp_path, installed):
    approvals = Approvals(tmp_path / "approved")
    approvals.add(installed)
    return approvals


def test_an_approved_bundle_is_answered_by_the_installed_code_with_context_and_prints_kept_apart(installed, approvals):
    reply, context = answer(_work(installed), approvals, CLIENT)
    assert reply.content["say"]["said"] == "hello north 3"
    assert reply.metadata.reply_to_message_id == "m1"
    assert context.state["seen"]["rounds"] == 1


@pytest.mark.parametrize("case", ["another bundle", "other bytes under the approved hash", "another kind of task"])
def test_what_is_not_approved_starts_no_process_and_gets_one_word(installed, approvals, caplog, case):
    other = make_bundle("app = 1\n", version="9\\u001b[2J")
    work = {
        "another bundle": _work(other),
        "other bytes under the approved hash": _work(installed, sent=other.content),
        "another kind of task": _work(installed, task_type="flwr-agentapp"),
    }[case]
    reply, context = answer(work, approvals, ["no-such-program"])
    assert (reply.error.code, reply.error.reason, context) == (7, "bundle-not-approved", None)
    assert reply.metadata.reply_to_message_id == "m1"
    assert "run 5 of lab/votes" in caplog.text
    assert "\x1b" not in caplog.text
    if "bundle" in case:
        assert f"got sha256 {other.sha256}. Nothing of it was run" in caplog.text
        assert "fedkd node approve" in caplog.text


def test_a_revoked_bundle_is_refused_at_the_next_task(installed, approvals):
    approvals.remove(installed.sha256)
    assert answer(_work(installed), approvals, ["no-such-program"]).reply.has_error()


def test_approvals_that_others_can_write_refuse_everything(installed, approvals, caplog):
    approvals.folder.chmod(0o777)
    assert answer(_work(installed), approvals, ["no-such-program"]).reply.error.reason == "bundle-not-approved"
    assert "writable for its owner alone" in caplog.text


def test_an_approval_that_cannot_be_read_costs_no_task_its_reply(installed, approvals, caplog):
    """Without a reply the SuperNode would wait, and send each later reply one instruction too late."""
    (approvals.folder / "release.fab").symlink_to(approvals.folder / "gone.fab")
    assert answer(_work(installed), approvals, ["no-such-program"]).reply.error.reason == "bundle-not-approved"
    assert "release.fab must be a file that this user can read" in caplog.text


@pytest.mark.parametrize("ask", ["raise", "nothing"])
def test_a_client_app_without_a_reply_is_answered_for_it_and_its_words_stay_here(installed, approvals, ask, capfd):
    reply, context = answer(_work(installed, ask=ask), approvals, CLIENT)
    assert (reply.error.code, reply.error.reason, context) == (8, "no-reply", None)
    assert ("private words" if ask == "raise" else "returned NoneType") in capfd.readouterr().err


@pytest.mark.parametrize(
    "script",
    ["import os; os._exit(3)", "import sys; sys.stdout.write('x' * 100)", "pass"],
    ids=["dies", "babbles", "is-silent"],
)
def test_a_process_that_writes_no_answer_is_answered_for(installed, approvals, script):
    reply, _ = answer(_work(installed), approvals, [sys.executable, "-c", script])
    assert reply.error.reason == "no-reply"


def test_a_process_is_killed_with_what_it_started_when_nobody_waits_for_it(installed, approvals, tmp_path, monkeypatch):
    monkeypatch.setattr(node, "STOP_S", 0.2)
    pid_file = tmp_path / "pid"
    script = (
        "import pathlib, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdout=2)\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    started = time.monotonic()
    reply, _ = answer(_work(installed, ttl=1.0), approvals, [sys.executable, "-c", script])
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
    reply, _ = answer(_work(installed), approvals, [sys.executable, "-c", script])
    assert reply.error.reason == "no-reply"
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(int(pid_file.read_text()))


def _wait_until_gone(pid, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        os.kill(pid, 0)
        time.sleep(0.05)


def test_a_sandbox_is_given_the_command(installed, approvals):
    reply, _ = answer(_work(installed), approvals, ["env", "PYTHONDONTWRITEBYTECODE=1", *CLIENT])
    assert reply.content["say"]["said"] == "hello north 3"


def test_the_node_decides_about_isolation_and_ends_with_its_supernode_s_status(approvals, tmp_path, monkeypatch):
    script = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(' '.join(sys.argv[2:])); sys.exit(3)"
    monkeypatch.setattr(node, "SUPERNODE", (sys.executable, "-c", script))
    given = [str(tmp_path / "seen"), "--isolation", "subprocess", "--host", "0.0.0.0"]
    assert run_node(given, approvals=approvals) == 3
    options = (tmp_path / "seen").read_text().split()
    assert options[:4] == given[1:]
    # of an option given twice, argparse takes the last
    assert options[4:8] == ["--isolation", "process", "--host", "127.0.0.1"]
    assert options[-2] == "--superexec-auth-secret-file"
    assert not os.path.exists(options[-1])


def _flower_whose_supernode(tmp_path, does):
    """Return an environment in which Flower's SuperNode does this instead."""
    package = tmp_path / "flwr" / "supernode"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()  # else the installed Flower goes first
    (package / "cli.py").write_text(f"import os, pathlib, threading, time\ndef flower_supernode():\n    {does}\n")
    return os.environ | {"PYTHONPATH": str(tmp_path)}


def test_a_supernode_whose_loop_has_ended_ends_though_a_thread_of_it_goes_on(tmp_path):
    env = _flower_whose_supernode(tmp_path, "threading.Thread(target=time.sleep, args=(60,)).start()")
    assert subprocess.run(node.SUPERNODE, env=env, timeout=30, check=False).returncode == 1


def test_a_supernode_ends_with_the_process_that_started_it_also_where_that_is_killed(tmp_path):
    """Else it would go on fetching instructions, and nobody would answer them."""
    seen = tmp_path / "seen"
    env = _flower_whose_supernode(tmp_path, f"pathlib.Path({str(seen)!r}).write_text(str(os.getpid())); time.sleep(60)")
    parent = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({node.SUPERNODE!r})"], env=env)
    until = time.monotonic() + 20.0
    while not (seen.is_file() and seen.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(int(seen.read_text()))


def test_options_that_would_lock_this_process_out_are_refused(approvals):
    with pytest.raises(ConfigError, match=r"no TLS for its local port, got '--ssl-certfile'"):
        run_node(["--ssl-certfile", "x"], approvals=approvals)


def test_a_node_does_not_start_on_approvals_that_others_can_write(approvals):
    approvals.folder.chmod(0o777)
    with pytest.raises(DataError, match="writable for its owner alone"):
        run_node(["--insecure"], approvals=approvals)


def test_a_task_whose_instruction_never_arrives_gives_way_to_the_next_one(monkeypatch, caplog):
    """As when the server was killed that sent it: Flower would wait for more than an hour."""
    never, other = threading.Event(), object()
    monkeypatch.setattr(node, "POLL_S", 0.01)
    monkeypatch.setattr(node, "PATIENCE_S", 0.03)
    monkeypatch.setattr(node, "pull_task_input", lambda client: never.wait(5.0))
    waiting = iter([None, other])
    assert node._pulled(None, lambda: next(waiting)) is other
    assert "A task is given up, because another one waits" in caplog.text
    never.set()
    monkeypatch.setattr(node, "pull_task_input", lambda client: ("message", "context", "run", "bundle"))
    assert node._pulled(None, lambda: None) == ("message", "context", "run", "bundle")
    monkeypatch.setattr(node, "pull_task_input", lambda client: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        node._pulled(None, lambda: None)


@pytest.mark.parametrize("told", [True, False])
def test_a_task_that_is_given_up_leaves_no_reply_that_the_supernode_would_take_for_the_next_one_s(monkeypatch, told):
    """Without a word the SuperNode makes an error reply a minute later, and is one reply late from then on."""
    from flwr.common.constant import Status
    from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
    from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState
    from flwr.supernode.servicer.runtime.runtime_handlers import push_task_output

    class Client:
        def PushTaskOutput(self, request):
            return push_task_output(request, state, state.get_task_by_token(token))

        def SendTaskHeartbeat(self, request):
            pass

        def close(self):
            pass

    state = InMemoryNodeState(InMemoryObjectStore())
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 5, 1, 7
    lost = Message(RecordDict(), dst_node_id=7, message_type="train")
    lost.metadata.__dict__["_message_id"] = lost.object_id
    task = state.create_task("flwr-clientapp", run_id=5, fab_hash="f")
    token = state.claim_task(task)
    state.activate_task(task)
    state.store_message(lost)
    state.get_messages_legacy(run_ids=[5], is_reply=False, limit=1)
    state.record_message_processing_start(lost.object_id)
    other = node.AcquireTaskResponse(token="other")
    monkeypatch.setattr(node, "_client", lambda *_: Client())
    monkeypatch.setattr(node, "_pulled", lambda *_: other)
    if not told:
        monkeypatch.setattr(node, "push_task_output", lambda *_: None)
    assert node._serve(node.AcquireTaskResponse(token=token), Client(), "", None, []) is other
    if (record := state.task_token_store.get(task)) is not None:
        record.active_until = record.active_until.replace(year=2000)
    assert len(state.get_messages_legacy(is_reply=True)) == (0 if told else 1)
    assert state.get_tasks(task_ids=[task])[0].status.status == Status.FINISHED
