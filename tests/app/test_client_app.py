"""What the ClientApp does around a visit."""

import faulthandler
import os
import subprocess
import sys

import pytest
from federation import party, rows
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.app import client_app
from fedkd_flwr.app.client_app import answer, finish, never_for_ever
from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.processes import alive
from fedkd_flwr.silo.door import SiloDoor
from fedkd_flwr.stores.egress_log import EgressLog, read_log


@pytest.mark.parametrize(
    "config", [{}, {"data-path": "x", "round-limit-s": 0}, {"data-path": "x", "round-limit-s": ""}]
)
def test_nothing_is_ended_in_simulation_or_without_a_limit(config, monkeypatch):
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda *_, **__: pytest.fail("it would be ended"))
    with never_for_ever(config):
        pass


@pytest.mark.parametrize("visit", [client_app.ready, client_app.train, client_app.evaluate])
def test_every_visit_is_ended_where_it_hangs(visit, monkeypatch):
    """The first visit of every run only reads the files, and a disk that does not answer stops it there."""
    seconds, hung = [], RuntimeError("the disk does not answer")

    def client_of(context):
        assert alive._seconds
        raise hung

    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda limit, **_: seconds.append(limit))
    monkeypatch.setattr(client_app, "client_of", client_of)
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    context = Context(1, 1, {"data-path": "rows.csv", "round-limit-s": 5.0}, RecordDict(), {})
    message = Message(RecordDict({"settings": ConfigRecord({})}), dst_node_id=1, message_type="train")
    with pytest.raises(RuntimeError, match="does not answer"):
        visit(message, context)
    assert seconds == [605.0]
    assert not alive._seconds


@pytest.mark.parametrize("reply_to", [answer, finish])
def test_a_code_for_an_instruction_that_cannot_be_opened_is_in_the_egress_log(reply_to, tmp_path, monkeypatch):
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    door = SiloDoor(EgressLog(tmp_path, party="a"), run_id="1")
    content = RecordDict({"settings": ConfigRecord({})})
    message = Message(content, dst_node_id=1, message_type="train")
    message.metadata.__dict__["_message_id"] = "1"
    reply_to(FedCTClient(party("a", *rows(9, seed=0), door=door)), message)
    (line,) = read_log(door.log.path).lines
    assert (line["left"], line["code"]) == (False, "withheld")


@pytest.mark.parametrize(
    ("passed", "slept"), [(0.0, 10.0), (0.5, 9.5), (10.0, 0.0), (10.0 + 2e-15, 0.0), (13.0, 7.0), (25.0, 5.0)]
)
def test_a_reply_leaves_at_a_multiple_of_reply_at(monkeypatch, passed, slept):
    waits = []
    monkeypatch.setattr(client_app.time, "monotonic", lambda: 100.0 + passed)
    monkeypatch.setattr(client_app.time, "sleep", waits.append)
    client_app.hold_back({"reply-every-s": 10}, 100.0)
    assert waits == [pytest.approx(slept)]


@pytest.mark.skipif(os.name != "posix", reason="no pseudo-terminals")
@pytest.mark.parametrize("terminal", [False, True])
def test_the_log_has_colours_in_a_terminal_alone(terminal):
    reads, writes = os.openpty() if terminal else os.pipe()
    called = "from fedkd_flwr.app.client_app import logger; logger.warning('seven of ten')"
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    subprocess.run([sys.executable, "-c", called], stderr=writes, env=env, check=True)
    said = os.read(reads, 10_000)
    os.close(reads), os.close(writes)
    assert (b"seven of ten" in said, b"\x1b[" in said) == (True, terminal)
