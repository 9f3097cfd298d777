"""One instruction at a silo: whether its bundle is approved, and what the installed ClientApp answers to it."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from flwr.app import Context, Error, Message
from flwr.common.config import get_fused_config_from_fab
from flwr.common.constant import ErrorCode
from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Context as ProtoContext
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.run import Run

from fedkd_flwr.errors import Code, FedkdError, RefusalError, explain
from fedkd_flwr.processes.limits import leaving_nothing
from fedkd_flwr.report.formatting import one_line
from fedkd_flwr.silo.bundles import Approvals, Bundle
from fedkd_flwr.silo.node_client import pack, unpack

__all__ = ["CLIENT", "Answer", "RunEndedError", "Work"]
__all__ += ["answer", "ask_client_app", "check_bundle", "seconds_left", "settle"]

logger = logging.getLogger("flwr.party")

LOOK_S = 15.0  # how often a node asks whether the run that it works for goes on
CLOCK_S = 300.0  # how far behind the server's clock a node's may be
SETTLE_S = 120.0  # how long a line in the egress log may take
STOP_S = 10.0  # how long a ClientApp's process may take to end when it is told to
LIMIT_S = 12 * 3600.0  # the longest life of a ClientApp's process: Flower's own default for a message
# `-P`: the folder where the node happens to be started is no place for code
CLIENT = (sys.executable, "-P", "-m", "fedkd_flwr.silo.node_client")


class RunEndedError(Exception):
    """The run was stopped, or ended, while its instruction was at work here: nothing of it is sent."""


class Work(NamedTuple):
    """One instruction, and what belongs to it."""

    message: Message
    context: Context
    run: Run
    fab: Fab


class Answer(NamedTuple):
    """What goes back: a reply, the context after it (None: as it was), and receipts (`fedkd_flwr.silo.node_client`)."""

    reply: Message
    context: Context | None
    receipt: bytes = b""


def check_bundle(work: Work, approvals: Approvals) -> Bundle:
    """Return the owner's copy of an instruction's bundle; else raise, with a text for the owner's log."""
    run = f"run {work.run.run_id} of {one_line(work.run.fab_id)} {one_line(work.run.fab_version)}"
    if work.run.primary_task_type == TaskType.AGENT_APP:
        raise RefusalError(explain(run, "ask a ClientApp", "an AgentApp", "This node runs nothing else."))
    bundle = approvals.find(work.fab.content)
    if bundle is None:
        seen = sha256(work.fab.content).hexdigest()
        way_out = (
            f"Nothing of it was run; the server gets `{Code.BUNDLE_NOT_APPROVED}`. If you agreed to this run, get its "
            "bundle from the sender, look at it and approve it: fedkd node approve BUNDLE.fab"
        )
        rule = f"have an app bundle approved in {approvals.folder}"
        raise RefusalError(explain(run, rule, f"sha256 {seen}", way_out))
    return bundle


def answer(
    work: Work, approvals: Approvals, command: Sequence[str], *, goes_on: Callable[[], bool] = lambda: True
) -> Answer:
    """Return the answer to one instruction: the ClientApp's, or an error with one word for the server."""
    metadata = work.message.metadata
    try:
        bundle = check_bundle(work, approvals)
        seconds_left(metadata.created_at, metadata.ttl)
    except FedkdError as error:
        logger.error("%s", error)
        code = error.code if error.code == Code.WRONG_CLOCK else Code.BUNDLE_NOT_APPROVED
        return Answer(Message(Error(ErrorCode.INVALID_FAB, code.value), reply_to=work.message), None)
    try:
        work.context.run_config = get_fused_config_from_fab(work.fab.content, work.run)
        return ask_client_app(work, bundle.client_app, command, goes_on=goes_on)
    except RunEndedError:
        raise
    except Exception as error:  # whatever it is, the server waits for a reply
        logger.error("run %s: the ClientApp gave no reply: %s", work.run.run_id, error)
        return Answer(Message(Error(ErrorCode.CLIENT_APP_CRASHED, "no-reply"), reply_to=work.message), None)


def ask_client_app(
    work: Work, client_app: str, command: Sequence[str], *, goes_on: Callable[[], bool] = lambda: True
) -> Answer:
    """Run a ClientApp of the installed code, ``"package.module:object"``, in a process of its own; return its answer.

    Whatever it started is ended with it, however it ends: on Linux also what left its process group, such as the child
    in which a party learns and what a model started there (`fedkd_flwr.processes.limits`). On Windows the process alone
    is ended. Raises `RunEndedError` if ``goes_on`` says that the run does not go on.
    """
    metadata = work.message.metadata
    seconds = seconds_left(metadata.created_at, metadata.ttl)
    context, message = context_to_proto(work.context), message_to_proto(work.message)
    task = pack(app=client_app.encode(), context=context.SerializeToString(), message=message.SerializeToString())
    parts = unpack(_output(command, task, seconds, goes_on))
    made = message_from_proto(ProtoMessage.FromString(parts["reply"]))
    told = made.metadata
    if (told.reply_to_message_id, told.run_id) != (metadata.message_id, metadata.run_id):
        raise RuntimeError("its reply is to another instruction")
    return Answer(made, context_from_proto(ProtoContext.FromString(parts["context"])), parts["receipt"])


def seconds_left(created_at: float, ttl: float) -> float:
    """Return how long the server waits for a reply, by its clock and this node's; refuse where the two cannot agree."""
    left = created_at + ttl - time.time()
    if not 0 < left <= ttl + CLOCK_S:
        here, there = (datetime.fromtimestamp(one, UTC).isoformat(" ", "minutes") for one in (time.time(), created_at))
        way_out = "Nothing was computed; the server gets `wrong-clock`. Set this machine's clock, or tell the operator."
        message = explain("clock of this node", "agree with the server's", f"{here} here, {there} there", way_out)
        raise RefusalError(message, code=Code.WRONG_CLOCK)
    return min(left, LIMIT_S)


def _output(command: Sequence[str], given: bytes, seconds: float, goes_on: Callable[[], bool]) -> bytes:
    """Return what a command writes that is given these bytes; it is ended with all that it started."""
    until = time.monotonic() + seconds
    with (
        leaving_nothing() as end,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process,
    ):
        asked: bytes | None = given
        try:
            while True:
                try:
                    output, _ = process.communicate(asked, timeout=max(min(until - time.monotonic(), LOOK_S), 0.0))
                    break
                except subprocess.TimeoutExpired:
                    asked = None  # it has been written
                    expired = time.monotonic() >= until
                    if not expired and goes_on():
                        continue
                process.terminate()  # what waits for an approval says that nobody waits; a sandbox ends its own
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=STOP_S)
                if not expired:
                    raise RunEndedError
                raise TimeoutError(f"killed after {seconds:.0f} s, when its instruction had expired")
        finally:
            if hasattr(os, "fork"):
                end(process.pid)
            else:  # Windows
                process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"its process ended with {process.returncode}; what it wrote is above")
    return output


def settle(receipt: bytes, outcome: str, command: Sequence[str] = CLIENT) -> None:
    """Have this silo's egress log say whether a reply was sent, by the same command that wrote its line."""
    try:
        _output(command, pack(outcome=outcome.encode(), receipt=receipt), SETTLE_S, lambda: True)
    except Exception as error:
        logger.error("The egress log could not be told that a reply was %s: %s", outcome, error)
