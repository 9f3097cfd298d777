"""The ClientApp's own process: it gets a task on stdin and writes its answer, and only that, to stdout."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flwr.app import Context, Message, RecordDict
from flwr.common.serde import context_to_proto, message_to_proto
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.silo.node_client import note, pack, serve, settle, taken, unpack
from fedkd_flwr.stores.egress_log import EgressLog, read_log

ROOT = str(Path(__file__).parents[2])


def test_parts_come_back_and_anything_else_is_refused():
    parts = {"one": b"1\n", "two": b"", "three": bytes(range(256))}
    data = pack(**parts)
    assert unpack(data) == parts
    for broken in (data[:-1], data + b"x", b"", b"5", b'{"a": 1}', b'{"a": "?"}'):
        with pytest.raises(ValueError):  # noqa: PT011 - json's, base64's or our own
            unpack(broken)


def test_what_is_no_client_app_is_not_called():
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 5, 1, 7
    message = Message(RecordDict(), dst_node_id=7, message_type="train")
    context = context_to_proto(Context(5, 7, {}, RecordDict(), {})).SerializeToString()
    task = pack(app=b"os:system", context=context, message=message_to_proto(message).SerializeToString())
    with pytest.raises(TypeError, match="os:system is no ClientApp"):
        serve(io.BytesIO(task))


def test_an_error_ends_the_process_and_leaves_stdout_empty():
    command = [sys.executable, "-P", "-m", "fedkd_flwr.silo.node_client"]
    done = subprocess.run(command, input=b"", capture_output=True, env=os.environ | {"PYTHONPATH": ROOT}, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"JSONDecodeError" in done.stderr


def test_what_was_noted_is_taken_once_and_settled_in_the_log_that_it_is_of(tmp_path):
    logs = [EgressLog(tmp_path / name, party=name) for name in ("a", "b")]
    for log in logs:
        note(log, log.append({"left": True})["number"])
    receipts = taken()
    assert taken() == b""
    settle(receipts, "sent")
    for log in logs:
        line, answer = read_log(log.path).lines
        assert (answer["answer"], answer["outcome"]) == (line["number"], "sent")
