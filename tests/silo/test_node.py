"""A node asks the installed ClientApp about approved bundles only, and every task gets a reply."""

import io
import sys

import pytest
from app_bundles import approvals, installed, work_of
from flwr.app.message import remove_content_from_message
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState
from flwr.supernode.start_client_internal import _pull_and_store_message

from fedkd_flwr.silo import node_work
from fedkd_flwr.silo.node import Node
from fedkd_flwr.silo.node_client import serve
from fedkd_flwr.silo.node_work import CLIENT
from fedkd_flwr.silo.review import log_text
from fedkd_flwr.stores.egress_log import read_log

__all__ = ["approvals", "installed"]


# ------------------------------------------------------------------------------------- the way to the SuperLink


class Link:
    """What Flower's connection yields to a node, over instructions that are given here."""

    def __init__(self, bundle, *asks, stopped=()):
        self.bundle, self.waits, self.sent, self.confirmed = bundle, [], [], []
        self.stopped = set(stopped)  # names of calls that find the run stopped, once each
        self.objects = {}
        for number, ask in enumerate(asks):
            work = work_of(bundle, ask=ask)
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
        return work_of(self.bundle).run

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


@pytest.fixture
def served(tmp_path, monkeypatch, approvals):
    """Serve so many instructions of a link in this process: what is tested is the way to the SuperLink."""
    for name in ("votes", "votes.client"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path / "site")

    def output(command, given, *_):
        names = ("task_id", "run_id", "node_id")
        before = [getattr(TaskIdentity, name) for name in names]
        said = serve(io.BytesIO(given))
        for name, value in zip(names, before, strict=True):
            setattr(TaskIdentity, name, value)  # which in a process of its own would not be this one's
        return said

    def serve_all(link, count):
        TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 99  # of nothing here
        node = Node(link.calls(), {"party": "north"}, approvals, CLIENT)
        assert [node.serve_one() for _ in range(count + 1)] == [True] * count + [False]

    monkeypatch.setattr(node_work, "_output", output)
    return serve_all


@pytest.mark.parametrize("call", ["receive", "run", "fab", "pull", "confirm", "send", "push"])
def test_a_run_that_is_stopped_at_any_call_leaves_each_later_reply_under_its_own_instruction(
    served, installed, call, caplog
):
    """In Flower's own loop the instruction stays behind: see the next test."""
    link = Link(installed, "one", "two", "three", stopped=[call])
    served(link, 4 if call == "receive" else 3)
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


def test_a_connection_that_breaks_while_a_reply_leaves_is_not_called_sent(served, installed, caplog):
    link = Link(installed, "one", "two")
    push, broken = link.push, [True]

    def breaks(*given):
        if broken:
            broken.clear()
            raise ConnectionError("gone")
        push(*given)

    link.push = breaks
    with caplog.at_level("INFO"):
        served(link, 2)
    assert "round 1: the reply was perhaps sent: the connection broke (gone)." in caplog.text
    assert "round 2: the reply was sent." in caplog.text


def test_an_instruction_that_never_arrives_whole_is_confirmed_and_keeps_back_no_other(served, installed, caplog):
    link = Link(installed, "one", "two")
    lost = link.waits[0][0].message.object_id
    del link.objects[lost]
    served(link, 2)
    assert link.said() == {"two": "two"}
    assert link.confirmed == ["one", "two"]
    assert "did not arrive whole" in caplog.text


def test_a_reply_to_another_instruction_is_not_sent_and_the_node_says_so(served, installed, caplog, monkeypatch):
    """Whatever a ClientApp's process writes: here the answer to the instruction before."""
    made, written = node_work._output, []
    monkeypatch.setattr(node_work, "_output", lambda *given: written.append(made(*given)) or written[0])
    link = Link(installed, "one", "two")
    served(link, 2)
    (first, _), (second, number) = link.sent
    assert (first, second) == ("one", "two")
    assert inflate_object_from_contents(number, dict(link.objects)).error.reason == "no-reply"
    assert "its reply is to another instruction" in caplog.text


@pytest.mark.parametrize(("stopped", "outcome"), [([], "sent"), (["send"], "not sent: the run had ended")])
def test_the_egress_log_says_of_each_answer_whether_the_superlink_took_it(
    served, installed, tmp_path, stopped, outcome
):
    code = """
from pathlib import Path
from fedkd_flwr.silo.node_client import note
from fedkd_flwr.stores.egress_log import EgressLog
from votes.own import app
log = EgressLog(Path(STATE), party="north")
note(log, log.append({"left": True, "run": "5", "round": 1})["number"])
"""
    package = tmp_path / "site" / "votes"
    (package / "client.py").rename(package / "own.py")
    (package / "client.py").write_text(code.replace("STATE", repr(str(tmp_path / "state"))), encoding="utf-8")
    link = Link(installed, "one", stopped=stopped)
    served(link, 1)
    (path,) = (tmp_path / "state").rglob("log.jsonl")
    found = read_log(path)
    assert found.problems == []
    first, second = found.lines
    assert (second["answer"], second["outcome"]) == (first["number"], outcome)
    shown = log_text(found.lines)
    assert ("held, not sent: the run had ended" in shown) == bool(stopped)
    assert ("answer, sent" in shown) == (not stopped)
