"""A node asks the installed ClientApp about approved bundles only, and every task gets a reply."""

import os
import sys
import time
from pathlib import Path

import pytest
from app_bundles import make_bundle
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.run import Run, RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState
from flwr.supernode.start_client_internal import _pull_and_store_message

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.silo import node, node_work
from fedkd_flwr.silo.bundles import Approvals
from fedkd_flwr.silo.node import Node, run_node
from fedkd_flwr.silo.node_work import CLIENT, RunEndedError, Work, answer
from fedkd_flwr.silo.review import log_text
from fedkd_flwr.stores.egress_log import read_log
from fedkd_flwr.wire.records import open_reply

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


def _work(bundle, *, ask="hello", agent=False, ttl=60.0, ahead=0.0, sent=None):
    """Return an instruction with what belongs to it; ``sent`` is what the server sends instead of the bundle."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 5, 1, 7
    message = Message(RecordDict({"ask": ConfigRecord({"what": ask})}), dst_node_id=7, message_type="train", ttl=ttl)
    message.metadata.__dict__["_message_id"] = "m1"
    message.metadata.created_at = time.time() - ahead
    context = Context(5, 7, {"party": "north"}, RecordDict(), {})
    run = Run.create_empty(5)
    run.fab_id, run.fab_version, run.fab_hash = bundle.app, bundle.version, bundle.sha256
    if agent:
        run.primary_task_type = TaskType.AGENT_APP
    return Work(message, context, run, Fab(bundle.sha256, sent or bundle.content, {}))


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
    reply, context, _ = answer(_work(installed), approvals, CLIENT)
    assert reply.content["say"]["said"] == "hello north 3"
    assert reply.metadata.reply_to_message_id == "m1"
    assert context.state["seen"]["rounds"] == 1


@pytest.mark.parametrize("case", ["another bundle", "other bytes under the approved hash", "another kind of task"])
def test_what_is_not_approved_starts_no_process_and_gets_one_word(installed, approvals, caplog, case):
    other = make_bundle("app = 1\n", version="9\\u001b[2J")
    work = {
        "another bundle": _work(other),
        "other bytes under the approved hash": _work(installed, sent=other.content),
        "another kind of task": _work(installed, agent=True),
    }[case]
    reply, context, _ = answer(work, approvals, ["no-such-program"])
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
    """Without a reply the server would wait until its deadline."""
    (approvals.folder / "release.fab").symlink_to(approvals.folder / "gone.fab")
    assert answer(_work(installed), approvals, ["no-such-program"]).reply.error.reason == "bundle-not-approved"
    assert "release.fab must be a file that this user can read" in caplog.text


@pytest.mark.parametrize("ask", ["raise", "nothing"])
def test_a_client_app_without_a_reply_is_answered_for_it_and_its_words_stay_here(installed, approvals, ask, capfd):
    reply, context, _ = answer(_work(installed, ask=ask), approvals, CLIENT)
    assert (reply.error.code, reply.error.reason, context) == (8, "no-reply", None)
    assert ("private words" if ask == "raise" else "returned NoneType") in capfd.readouterr().err


@pytest.mark.parametrize(
    "script",
    ["import os; os._exit(3)", "import sys; sys.stdout.write('x' * 100)", "pass"],
    ids=["dies", "babbles", "is-silent"],
)
def test_a_process_that_writes_no_answer_is_answered_for(installed, approvals, script):
    reply, _, _ = answer(_work(installed), approvals, [sys.executable, "-c", script])
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
    reply, _, _ = answer(_work(installed, ttl=1.0), approvals, [sys.executable, "-c", script])
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
    reply, _, _ = answer(_work(installed), approvals, [sys.executable, "-c", script])
    assert reply.error.reason == "no-reply"
    with pytest.raises(ProcessLookupError):
        _wait_until_gone(int(pid_file.read_text()))


def _wait_until_gone(pid, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        os.kill(pid, 0)
        time.sleep(0.05)


def test_a_sandbox_is_given_the_command(installed, approvals):
    reply, _, _ = answer(_work(installed), approvals, ["env", "PYTHONDONTWRITEBYTECODE=1", *CLIENT])
    assert reply.content["say"]["said"] == "hello north 3"


@pytest.mark.parametrize("option", ["--ssl-certfile", "--isolation=process", "--port"])
def test_options_that_mean_nothing_here_are_refused(approvals, option):
    with pytest.raises(ConfigError, match=f"have a meaning here, got '{option}'"):
        run_node([option, "x"], approvals=approvals)


def test_a_node_does_not_start_on_approvals_that_others_can_write(approvals):
    approvals.folder.chmod(0o777)
    with pytest.raises(DataError, match="writable for its owner alone"):
        run_node(["--insecure"], approvals=approvals)


@pytest.mark.parametrize("days", [3, -3])
def test_a_clock_that_is_days_off_is_named_here_and_to_the_server_and_nothing_is_computed(
    installed, approvals, days, caplog
):
    reply, _, _ = answer(_work(installed, ahead=days * 86400.0), approvals, ["no-such-program"])
    assert (reply.error.code, reply.error.reason) == (7, "wrong-clock")
    assert open_reply(reply, "fit").code == "wrong-clock"
    assert "clock of this node must agree with the server's, got" in caplog.text


def test_work_for_a_run_that_was_stopped_is_ended_by_its_name_and_nothing_is_sent(installed, approvals, monkeypatch):
    monkeypatch.setattr(node_work, "LOOK_S", 0.1)
    began = time.monotonic()
    with pytest.raises(RunEndedError):
        answer(_work(installed), approvals, ["sleep", "60"], goes_on=lambda: False)
    assert time.monotonic() - began < 20


def test_a_node_that_was_stopped_for_a_minute_says_so_once_it_goes_on(caplog):
    now = [0.0]
    passes = iter([5.0, 65.0, 5.1])

    def sleep(seconds):
        now[0] += next(passes)

    with pytest.raises(StopIteration):
        node.notice_pauses(clock=lambda: now[0], sleep=sleep)
    assert caplog.text.count("This node stood still") == 1
    assert "stood still for 60 s" in caplog.text


# ------------------------------------------------------------------------------------- the way to the SuperLink


class Link:
    """What Flower's connection yields to a node, over instructions that are given here."""

    def __init__(self, bundle, *asks, stopped=()):
        self.bundle, self.waits, self.sent, self.confirmed = bundle, [], [], []
        self.stopped = set(stopped)  # names of calls that find the run stopped, once each
        self.objects = {}
        for number, ask in enumerate(asks):
            work = _work(bundle, ask=ask)
            work.message.metadata.__dict__["_message_id"] = work.message.object_id
            work.message.metadata.__dict__["_group_id"] = str(number + 1)
            self.waits.append((work, get_object_tree(work.message)))
            self.objects |= {k: v.deflate() for k, v in get_all_nested_objects(work.message).items()}
        self.asked = {work.message.object_id: ask for (work, _), ask in zip(self.waits, asks, strict=True)}

    def calls(self):
        return (7, *(self._may_stop(name) for name in ("receive", "send", "run", "fab", "pull", "push", "confirm")))

    def _may_stop(self, name):
        def call(*given):
            if name in self.stopped:
                self.stopped.remove(name)
                raise RunNotRunningException
            return getattr(self, name)(*given)

        return call

    def receive(self):
        if not self.waits:
            return None
        work, tree = self.waits.pop(0)
        return remove_content_from_message(work.message), tree

    def run(self, run_id):
        return _work(self.bundle).run

    def fab(self, digest, run_id):
        return Fab(self.bundle.sha256, self.bundle.content, {})

    def pull(self, run_id, number):
        return self.objects[number]

    def confirm(self, run_id, number):
        self.confirmed.append(self.asked[number])

    def send(self, reply, tree, seconds):
        self.sent.append((self.asked[reply.metadata.reply_to_message_id], tree.object_id))
        return {one.object_id for one in iterate_object_tree(tree)}, "session"

    def push(self, run_id, session, number, content):
        self.objects[number] = content

    def said(self):
        """Return each instruction whose reply arrived whole, with what that says."""
        whole = {ask: number for ask, number in self.sent if number in self.objects}
        replies = {ask: inflate_object_from_contents(number, dict(self.objects)) for ask, number in whole.items()}
        return {ask: reply.content["say"]["said"].split()[0] for ask, reply in replies.items()}


def _served(link, approvals, count, command=CLIENT):
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 99  # of nothing here
    served = Node(link.calls(), {"party": "north"}, approvals, command)
    assert [served.serve_one() for _ in range(count + 1)] == [True] * count + [False]


@pytest.mark.parametrize("call", ["receive", "run", "fab", "pull", "confirm", "send", "push"])
def test_a_run_that_is_stopped_at_any_call_leaves_each_later_reply_under_its_own_instruction(
    installed, approvals, call, caplog
):
    """In Flower's own loop the instruction stays behind: see the next test."""
    link = Link(installed, "one", "two", "three", stopped=[call])
    _served(link, approvals, 4 if call == "receive" else 3)
    arrived = ["one", "two", "three"] if call == "receive" else ["two", "three"]
    assert link.said() == {ask: ask for ask in arrived}
    assert ("the reply was not sent: the run had ended" in caplog.text) == (call == "send")
    assert ("the reply was perhaps sent: the run ended meanwhile" in caplog.text) == (call == "push")
    assert ("the run ended while its instruction arrived" in caplog.text) == (call in ("run", "fab", "pull", "confirm"))


def test_flower_s_own_loop_keeps_an_instruction_whose_run_is_stopped_while_it_is_confirmed(installed):
    """The reason why this node has a loop of its own; where this fails, Flower has mended its own."""
    store = InMemoryObjectStore()
    state = InMemoryNodeState(store)
    state.set_node_id(7)
    link = Link(installed, "one", stopped=["confirm"])
    _, receive, _, get_run, get_fab, pull, _, confirm = link.calls()
    pulled = _pull_and_store_message(
        state=state,
        object_store=store,
        node_config={},
        receive=receive,
        get_run=get_run,
        get_fab=get_fab,
        pull_object=pull,
        confirm_message_received=confirm,
        trusted_entities=None,
    )
    assert pulled is None
    assert [task.status.status for task in state.get_tasks()] == ["pending"]  # somebody will answer it
    assert len(state.get_messages_legacy(run_ids=[5], is_reply=False)) == 1


def test_a_connection_that_breaks_while_a_reply_leaves_is_not_called_sent(installed, approvals, caplog):
    link = Link(installed, "one", "two")
    push, broken = link.push, [True]

    def breaks(*given):
        if broken:
            broken.clear()
            raise ConnectionError("gone")
        push(*given)

    link.push = breaks
    with caplog.at_level("INFO"):
        _served(link, approvals, 2)
    assert "round 1: the reply was perhaps sent: the connection broke (gone)." in caplog.text
    assert "round 2: the reply was sent." in caplog.text


def test_an_instruction_that_never_arrives_whole_is_confirmed_and_keeps_back_no_other(installed, approvals, caplog):
    link = Link(installed, "one", "two")
    lost = link.waits[0][0].message.object_id
    del link.objects[lost]
    _served(link, approvals, 2)
    assert link.said() == {"two": "two"}
    assert link.confirmed == ["one", "two"]
    assert "did not arrive whole" in caplog.text


def test_a_reply_to_another_instruction_is_not_sent_and_the_node_says_so(installed, approvals, caplog, tmp_path):
    """Whatever a ClientApp's process writes: here the answer to the instruction before."""
    kept = tmp_path / "kept"
    script = (
        "import pathlib, subprocess, sys\n"
        f"kept = pathlib.Path({str(kept)!r})\n"
        f"made = subprocess.run({list(CLIENT)!r}, input=sys.stdin.buffer.read(), stdout=-1, check=True).stdout\n"
        "sys.stdout.buffer.write(kept.read_bytes() if kept.exists() else made)\n"
        "kept.write_bytes(made)\n"
    )
    link = Link(installed, "one", "two")
    _served(link, approvals, 2, [sys.executable, "-c", script])
    (first, _), (second, number) = link.sent
    assert (first, second) == ("one", "two")
    assert inflate_object_from_contents(number, dict(link.objects)).error.reason == "no-reply"
    assert "its reply is to another instruction" in caplog.text


@pytest.mark.parametrize(("stopped", "outcome"), [([], "sent"), (["send"], "not sent: the run had ended")])
def test_the_egress_log_says_of_each_answer_whether_the_superlink_took_it(
    installed, approvals, tmp_path, stopped, outcome
):
    code = """
from pathlib import Path
from fedkd_flwr.silo import receipts
from fedkd_flwr.stores.egress_log import EgressLog
from votes.own import app
log = EgressLog(Path(STATE), party="north")
receipts.note(log, log.append({"left": True, "run": "5", "round": 1})["number"])
"""
    package = tmp_path / "site" / "votes"
    (package / "client.py").rename(package / "own.py")
    (package / "client.py").write_text(code.replace("STATE", repr(str(tmp_path / "state"))), encoding="utf-8")
    link = Link(installed, "one", stopped=stopped)
    _served(link, approvals, 1)
    (path,) = (tmp_path / "state").rglob("log.jsonl")
    found = read_log(path)
    assert found.problems == []
    first, second = found.lines
    assert (second["answer"], second["outcome"]) == (first["number"], outcome)
    shown = log_text(found.lines)
    assert ("held, not sent: the run had ended" in shown) == bool(stopped)
    assert ("answer, sent" in shown) == (not stopped)
