"""The ClientApp's own process: it gets a task on stdin and writes its answer, and only that, to stdout."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flwr.app import Context, Message, RecordDict
from flwr.common.serde import context_to_proto, message_to_proto
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.silo.node_client import read_frames, serve, write_frames

ROOT = str(Path(__file__).parents[2])


def test_frames_come_back_and_anything_else_is_refused():
    data = write_frames(b"one", b"", b"three")
    assert read_frames(data, 3) == [b"one", b"", b"three"]
    for broken in (data[:-1], data + b"x", b"", data[:5]):
        with pytest.raises(ValueError, match="parts"):
            read_frames(broken, 3)


def test_what_is_no_client_app_is_not_called():
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 5, 1, 7
    message = Message(RecordDict(), dst_node_id=7, message_type="train")
    protos = context_to_proto(Context(5, 7, {}, RecordDict(), {})), message_to_proto(message)
    header = json.dumps({"client-app": "os:system", "task-id": 1}).encode()
    task = write_frames(header, *(proto.SerializeToString() for proto in protos))
    with pytest.raises(TypeError, match="os:system is no ClientApp"):
        serve(io.BytesIO(task))


def test_an_error_ends_the_process_and_leaves_stdout_empty():
    command = [sys.executable, "-P", "-m", "fedkd_flwr.silo.node_client"]
    done = subprocess.run(command, input=b"", capture_output=True, env=os.environ | {"PYTHONPATH": ROOT}, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"3 parts expected, got 0" in done.stderr
