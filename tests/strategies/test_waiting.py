"""Waiting for nodes and replies: long enough, not for ever, and saying so."""

import json
import logging
import time

import httpx
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.errors import TooFewPartiesError
from fedkd_flwr.strategies import waiting
from fedkd_flwr.strategies.waiting import Readiness, WatchedGrid, start_processes, wait_for_nodes


@pytest.fixture(autouse=True)
def _identity(monkeypatch):
    """Flower makes messages for the node that its process belongs to."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class _Nodes:
    """Registers nodes as a script says: one list of node ids per look, the last one for ever."""

    def __init__(self, *looks):
        self.looks = list(looks)
        self.seen = 0

    def get_node_ids(self):
        self.seen += 1
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def _wait(*looks, wanted=0, settle_s=0.0, deadline_s=0.2, **more):
    waiting = {"wanted": wanted, "settle_s": settle_s, "deadline_s": deadline_s, **more}
    return wait_for_nodes(_Nodes(*looks), minimum=2, poll_s=0.001, **waiting)


def test_it_waits_until_the_wanted_number_has_registered_and_returns_them_sorted():
    assert _wait([], [9], [9, 4], [9, 4, 7], wanted=3) == [4, 7, 9]


def test_without_a_number_it_waits_until_the_count_is_stable():
    began = time.monotonic()
    assert _wait([1, 2], [1, 2, 3], [1, 2, 3, 4], settle_s=0.05, deadline_s=5.0) == [1, 2, 3, 4]
    assert time.monotonic() - began >= 0.05


def test_a_stable_count_below_the_minimum_is_not_enough():
    with pytest.raises(TooFewPartiesError, match=r"number of nodes must reach 2 within 0.05 s, got 1\. Start more"):
        _wait([1], deadline_s=0.05)


def test_the_deadline_says_how_many_came_and_what_to_do():
    message = r"must reach 5 within 0.05 s, got 2\. .*SuperNodes.*lower num-parties.*node-deadline-s.*clock"
    with pytest.raises(TooFewPartiesError, match=message):
        _wait([1, 2], wanted=5, deadline_s=0.05)


def test_a_long_wait_is_logged_now_and_then(caplog, monkeypatch):
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr(waiting.time, "monotonic", lambda: float(next(clock)))
    with caplog.at_level(logging.INFO, logger="flwr"), pytest.raises(TooFewPartiesError):
        _wait([1], wanted=3, deadline_s=60.0)
    lines = [r.getMessage() for r in caplog.records]
    assert "waiting for nodes: 1 registered, 1 of them ready, 3 wanted" in lines
    assert 3 <= len(lines) <= 6


class _Says(Readiness):
    """A readiness whose nodes answer as a script says: node -> code of each look, None where there is no answer yet."""

    def __init__(self, **answers):
        super().__init__(None, {}, "[{}]".format)
        self.answers = {int(node[1:]): list(said) for node, said in answers.items()}

    def ask(self, registered):
        for node in registered:
            said = self.answers[node]
            code = said.pop(0) if len(said) > 1 else said[0]
            if code is not None:
                self.codes.pop(node, None)
                self.codes |= {node: code} if code else {}
                self._ready |= set() if code else {node}
        return [node for node in registered if node in self._ready]


@pytest.mark.parametrize(
    ("first", "wanted", "settle_s", "returned"),
    [
        (["no-rows"], 2, 60.0, [2, 3]),  # it does not count
        (["no-rows"] * 3 + [""], 3, 60.0, [1, 2, 3]),  # it becomes ready meanwhile
        (["no-rows"], 3, 0.02, [2, 3]),  # all wanted are there: it goes on with enough of them
        ([None], 3, 0.02, [1, 2, 3]),  # no answer yet
    ],
)
def test_nodes_that_are_ready_or_have_not_answered_are_returned(first, wanted, settle_s, returned):
    readiness = _Says(n1=first, n2=[""], n3=[""])
    assert _wait([1, 2, 3], wanted=wanted, settle_s=settle_s, deadline_s=0.3, readiness=readiness) == returned


def test_too_few_that_are_ready_end_the_wait_with_their_names():
    readiness = _Says(n1=["no-rows"], n2=["missing-file"], n3=[""])
    readiness.names = {1: "north"}
    message = (
        r"^number of nodes that are ready must reach 2 within 0\.05 s, got 1 of 3 "
        r"\(north: no-rows, node 2: missing-file\)\. \[missing-file\] \[no-rows\]$"
    )
    with pytest.raises(TooFewPartiesError, match=message):
        _wait([1, 2, 3], wanted=3, settle_s=0.02, deadline_s=0.05, readiness=readiness)


@pytest.mark.parametrize(
    ("answers", "wanted", "settle_s", "ends"),
    [
        ({"n1": ["not-allowed"], "n2": ["budget-exceeded"]}, 2, 60.0, True),
        ({"n1": ["not-allowed"], "n2": [""]}, 2, 60.0, True),  # one is left, and two are needed
        ({"n1": ["not-allowed"], "n2": ["budget-exceeded"]}, 0, 0.02, True),  # nobody else came meanwhile
        ({"n1": ["not-allowed"], "n2": ["budget-exceeded"]}, 0, 60.0, False),
        ({"n1": ["not-allowed"], "n2": ["budget-exceeded"]}, 3, 0.0, False),  # the third may come
        ({"n1": ["not-allowed"], "n2": [None]}, 2, 60.0, False),  # who refuses too is named
        ({"n1": ["not-allowed"], "n2": [None]}, 2, 0.02, True),
        ({"n1": ["missing-file"], "n2": ["bundle-not-approved"]}, 2, 60.0, False),  # their owners may mend it meanwhile
    ],
)
def test_refusals_that_leave_too_few_end_the_wait_before_its_deadline(answers, wanted, settle_s, ends):
    rule = r"must reach \d, got . of 2 \(.*\[" if ends else r"must reach \d within 0\.4 s"
    began = time.monotonic()
    with pytest.raises(TooFewPartiesError, match=rule):
        _wait([1, 2], wanted=wanted, settle_s=settle_s, deadline_s=0.4, readiness=_Says(**answers))
    assert (time.monotonic() - began < 0.4) == ends


@pytest.mark.parametrize(
    ("privacy", "code", "ready"),
    [
        ("server", "class-outside-schema", True),
        ("server", "no-rows", True),
        ("server", "not-allowed", False),
        ("none", "no-rows", False),
    ],
)
def test_beside_noise_at_the_server_what_a_party_holds_does_not_decide_who_is_asked(privacy, code, ready):
    readiness = Readiness(None, {"privacy": privacy}, str)
    content = RecordDict({"ready": ConfigRecord({"party": "north", "code": code})})
    readiness._take(1, Message(content, dst_node_id=1, message_type="query"))
    assert (1 in readiness._ready, readiness.codes.get(1)) == (ready, None if ready else code)


class _Slow:
    """Answers one more message after each look at all of them; the last ``silent`` ones never."""

    def __init__(self, *, silent=0):
        self.silent, self.looks = silent, 0
        self.open = []
        self.types = []

    def get_node_ids(self):
        return [1, 2, 3]

    def push_messages(self, messages):
        for i, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = str(i)
            self.types.append(message.metadata.message_type)
            self.open.append(message)
        return [m.metadata.message_id for m in self.open]

    def pull_messages(self, message_ids):
        (asked,) = message_ids
        self.looks += asked == self.open[-1].metadata.message_id
        ready = int(asked) <= self.looks and int(asked) < len(self.open) - self.silent
        return [Message(RecordDict(), reply_to=self.open[int(asked)])] if ready else []


def _messages(count):
    return [Message(RecordDict(), dst_node_id=i + 1, message_type="train") for i in range(count)]


ALL = [("0", 1), ("1", 2), ("2", 3)]


def _heard(grid, timeout=5.0):
    """Return which message each reply answers, and whose it is taken to be."""
    replies = WatchedGrid(grid).send_and_receive(_messages(3), timeout=timeout)
    return [(reply.metadata.reply_to_message_id, reply.metadata.src_node_id) for reply in replies]


@pytest.mark.parametrize(
    ("field", "written", "timeout", "heard"),
    [
        ("_src_node_id", 2, 5.0, ALL),  # as it is: each reply once, however they trickle in
        ("_src_node_id", 3, 5.0, ALL),  # the SuperLink checks the id beside a reply, and hands on the one within it
        ("_src_node_id", 77, 5.0, ALL),
        ("_reply_to_message_id", "0", 0.05, [ALL[0], ALL[2]]),  # which another node has answered
        ("_reply_to_message_id", "nothing that was asked", 0.05, [ALL[0], ALL[2]]),
    ],
)
def test_a_reply_is_its_node_s_own_whatever_the_node_writes_into_it(field, written, timeout, heard):
    class Forged(_Slow):
        def pull_messages(self, message_ids):
            for reply in super().pull_messages(message_ids):
                if reply.metadata.reply_to_message_id == "1":
                    reply.metadata.__dict__[field] = written
                yield reply

    assert _heard(Forged(), timeout) == heard


def test_a_grid_that_only_returns_the_ids_it_gave_to_copies_of_the_messages_is_answered():
    """Flower's own grids also write an id into the message; its ``Grid`` does not ask that of others."""

    class Copying(_Slow):
        def push_messages(self, messages):
            return super().push_messages([_messages(1)[0] for _ in messages])

    assert _heard(Copying()) == ALL


class _Unreadable(_Slow):
    """Hands out a reply as Flower's grid does whose head is right, and whose rest is not."""

    error = json.JSONDecodeError("Expecting value", "private", 0)

    def pull_messages(self, message_ids):
        replies = super().pull_messages(message_ids)
        if replies and replies[0].metadata.reply_to_message_id == "1":
            raise self.error
        return replies


def test_a_reply_that_flower_cannot_read_is_logged_without_a_word_of_it_and_the_others_are_returned(caplog):
    assert _heard(_Unreadable()) == ALL
    assert "the reply of node 2 cannot be read (JSONDecodeError)" in caplog.text
    assert "private" not in caplog.text


@pytest.mark.parametrize("error", [ConnectionError("refused"), httpx.ConnectError("refused")])
def test_a_superlink_that_is_gone_is_no_wrong_reply(error):
    grid = _Unreadable()
    grid.error = error
    with pytest.raises(type(error)):
        _heard(grid)


def test_at_the_timeout_the_replies_that_are_there_are_returned_and_meanwhile_it_says_how_many_there_are(caplog):
    began = time.monotonic()
    with caplog.at_level(logging.INFO, logger="flwr"):
        replies = list(WatchedGrid(_Slow(silent=1), every_s=0.0).send_and_receive(_messages(2), timeout=0.2))
    assert len(replies) == 1
    assert 0.15 < time.monotonic() - began < 2.0
    assert "1 of 2 parties have answered after 0 s" in caplog.text


def test_processes_are_started_by_a_query_and_a_silent_one_is_no_error():
    grid = _Slow(silent=1)
    start_processes(grid, [1, 2, 3], timeout=0.1)
    assert grid.types == ["query"] * 3


@pytest.mark.parametrize("ids", [[], ["", None]])
def test_a_question_that_the_superlink_does_not_take_ends_no_run(ids):
    """Flower returns no id for such a message, and no list where all together are too large."""

    class Full:
        def push_messages(self, messages):
            return ids

        def pull_messages(self, message_ids):
            pytest.fail("nobody was asked")

    readiness = Readiness(Full(), {"privacy": "none"}, str)
    assert readiness.ask([1, 2]) == []
    assert readiness.ask([1, 2]) == []


def test_an_answer_to_the_first_question_that_flower_cannot_read_stops_nobody_who_waits_for_the_others():
    readiness = Readiness(_Unreadable(), {"privacy": "none"}, str)
    ready = [readiness.ask([1, 2, 3]) for _ in range(3)][-1]
    assert ready == [1, 2, 3]  # a node that knows no such question is asked in the round, where it is turned away
