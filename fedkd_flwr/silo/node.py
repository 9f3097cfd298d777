"""A SuperNode that takes part only in runs of app bundles that its owner has approved, and runs only his own code.

Flower's SuperNode unpacks the bundle that a run brings and runs the ClientApp in it, whatever it is. With
``--isolation process`` it starts no ClientApp and waits for somebody who fetches the task: here, this process.

    SuperNode            pulls instructions and sends replies, and has no part in what is computed
    this process         fetches a task, hashes its bundle, refuses or asks the ClientApp, hands the reply over
    node_client.py       a fresh process per task, which runs the *installed* ClientApp; it is given the instruction on
                         stdin and writes the reply to stdout, so it needs no network and may be put into a sandbox

Nothing of a bundle is unpacked or imported, so a server that lies about a hash gains nothing: the hash only decides
whether the installed code answers. A task that is refused, or whose ClientApp fails, is killed or runs for too long,
gets an error reply: a SuperNode that gets none would wait for ever and serve no later run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Context as ProtoContext
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.runtime_pb2 import AcquireTaskRequest, AcquireTaskResponse, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.run import Run
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedkd_flwr.errors import Code, ConfigError, FedkdError, RefusalError, explain
from fedkd_flwr.processes.limits import leaving_nothing
from fedkd_flwr.report.terminal import one_line
from fedkd_flwr.silo.bundles import Approvals, Bundle
from fedkd_flwr.silo.node_client import read_frames, write_frames

__all__ = ["Answer", "Work", "answer", "ask_client_app", "check_bundle", "run_node"]

logger = logging.getLogger("flwr.party")

# seconds between two questions for work; Flower's own process asks as often
POLL_S = 1.0
PATIENCE_S = 20.0  # with an instruction that does not arrive, where another task waits
# how long the SuperNode may take until its port answers, and to end when it is told to
START_S, STOP_S = 60.0, 10.0
# the longest life of a ClientApp's process, whatever the server asks: Flower's own default for a message
LIMIT_S = 12 * 3600.0
# `-P`: the folder where the node happens to be started is no place for code
CLIENT = (sys.executable, "-P", "-m", "fedkd_flwr.silo.node_client")
# The thread of its local port would keep the process of a SuperNode whose loop has ended, and nobody would notice. And
# one whose parent was killed would go on fetching instructions that nobody answers.
_SUPERNODE = """
import os, signal, threading, time, traceback
from flwr.supernode.cli import flower_supernode
def end_with(parent):
    while os.getppid() == parent:
        time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGTERM)  # Flower then takes its leave of the SuperLink
    time.sleep(10)
    os._exit(1)
threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
try:
    flower_supernode()
except Exception:
    traceback.print_exc()
os._exit(1)
"""
SUPERNODE = (sys.executable, "-P", "-c", _SUPERNODE)


class Work(NamedTuple):
    """One task as the SuperNode hands it over."""

    type: str
    task_id: int
    message: Message
    context: Context
    run: Run
    fab: Fab


class Answer(NamedTuple):
    """What goes back: a reply, and the context after it (None: as it was)."""

    reply: Message
    context: Context | None


def run_node(supernode: Sequence[str], *, approvals: Approvals, sandbox: Sequence[str] = ()) -> int:
    """Run a SuperNode that serves approved bundles, until it ends or this process is told to.

    Parameters
    ----------
    supernode : sequence of str
        Options for ``flower-supernode``. Its isolation, its host and port (a free one of this machine's loopback) and
        the secret between the two processes are chosen here.
    approvals : Approvals
        The approved bundles, read again for each task.
    sandbox : sequence of str
        A command that runs the command appended to it, with its stdin and stdout: where the ClientApp's process is put.

    Returns
    -------
    int
        The SuperNode's exit status.

    Raises
    ------
    ConfigError
        If an option would have the SuperNode talk TLS to this process.
    DataError
        If somebody else may change what is approved.
    """
    for option in supernode:
        if option.startswith(("--ssl", "--appio-ssl")):
            way_out = "The port is on this machine's loopback, and only this process knows its secret."
            raise ConfigError(explain("options of the SuperNode", "have no TLS for its local port", option, way_out))
    known = approvals.files().values()
    logger.info("This node answers runs of %d approved app bundle(s) in %s.", len(known), approvals.folder)
    for bundle in known:
        logger.info("  %s %s %s", bundle.sha256, one_line(bundle.app), one_line(bundle.version))
    secret, address = secrets.token_bytes(32), f"127.0.0.1:{_free_port()}"
    with _terminated_by_signal(), tempfile.TemporaryDirectory(prefix="fedkd-node-") as private:  # mode 0700
        secret_file = Path(private) / "secret"
        secret_file.write_bytes(secret)
        # of an option given twice, the last counts
        host, _, port = address.partition(":")
        forced = ["--isolation", "process", "--host", host, "--port", port, "--superexec-auth-secret-file"]
        process = subprocess.Popen([*SUPERNODE, *supernode, *forced, str(secret_file)])
        try:
            with _waiting_client(address, secret, process) as client:
                secret_file.unlink()
                while process.poll() is None:
                    _serve_one(client, address, approvals, [*sandbox, *CLIENT])
                    time.sleep(POLL_S)
        finally:
            _end(process)
    return process.returncode


def check_bundle(work: Work, approvals: Approvals) -> Bundle:
    """Return the owner's copy of the bundle that a task belongs to.

    Raises
    ------
    RefusalError
        If the task is no ClientApp's, or its bundle is not approved. The text is for the owner's log.
    DataError
        If somebody else may change what is approved.
    """
    run = f"run {work.run.run_id} of {one_line(work.run.fab_id)} {one_line(work.run.fab_version)}"
    if work.type != TaskType.CLIENT_APP:
        raise RefusalError(explain(run, "ask a ClientApp", one_line(work.type), "This node runs nothing else."))
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


def answer(work: Work, approvals: Approvals, command: Sequence[str]) -> Answer:
    """Return the answer to one task: the ClientApp's, or an error with one word for the server."""
    try:
        bundle = check_bundle(work, approvals)
    except FedkdError as error:
        logger.error("%s", error)
        return Answer(
            Message(Error(ErrorCode.INVALID_FAB, Code.BUNDLE_NOT_APPROVED.value), reply_to=work.message), None
        )
    try:
        return ask_client_app(work, bundle.client_app, command)
    except Exception as error:  # whatever it is, the SuperNode waits for a reply
        logger.error("run %s: the ClientApp gave no reply: %s", work.run.run_id, error)
        return Answer(Message(Error(ErrorCode.CLIENT_APP_CRASHED, "no-reply"), reply_to=work.message), None)


def ask_client_app(work: Work, client_app: str, command: Sequence[str]) -> Answer:
    """Run a ClientApp in a process of its own and return its answer.

    Parameters
    ----------
    work : Work
        The task.
    client_app : str
        ``"package.module:object"``, as the owner's copy of the bundle names it; imported from what is installed.
    command : sequence of str
        The program that reads the task and writes the answer (`node_client`), perhaps inside a sandbox.

    Raises
    ------
    RuntimeError
        If the process ends with an error.
    TimeoutError
        If it has no answer when its instruction expires, or after 12 hours.

    Notes
    -----
    Whatever it started is ended with it, however it ends: on Linux also what left its process group, such as the
    child in which a party learns and what a model started there (`fedkd_flwr.processes.limits`). On Windows the process
    alone is ended.
    """
    metadata = work.message.metadata
    seconds = min(metadata.created_at + metadata.ttl - time.time(), LIMIT_S)
    header = json.dumps({"client-app": client_app, "task-id": work.task_id}).encode()
    protos = context_to_proto(work.context), message_to_proto(work.message)
    asked = write_frames(header, *(proto.SerializeToString() for proto in protos))
    with (
        leaving_nothing() as end,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process,
    ):
        try:
            output, _ = process.communicate(asked, timeout=max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            process.terminate()  # a sandbox may have something to end by itself
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STOP_S)
            message = f"killed after {seconds:.0f} s, when its instruction had expired"
            raise TimeoutError(message) from None
        finally:
            if hasattr(os, "fork"):
                end(process.pid)
            else:  # Windows
                process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"its process ended with {process.returncode}; what it wrote is above")
    reply, context = read_frames(output, 2)
    return Answer(
        message_from_proto(ProtoMessage.FromString(reply)), context_from_proto(ProtoContext.FromString(context))
    )


def _serve_one(client: RuntimeHttpClient, address: str, approvals: Approvals, command: Sequence[str]) -> None:
    """Fetch one task, if there is one, and see to it that its instruction gets a reply."""
    task = _next_task(client)
    while task is not None:
        task = _serve(task, client, address, approvals, command)


def _next_task(client: RuntimeHttpClient) -> AcquireTaskResponse | None:
    """Return a task that waits; None where none does."""
    try:
        # every type: a task that nobody fetches would keep the SuperNode waiting for ever
        acquired = client.AcquireTask(AcquireTaskRequest(supported_task_types=list(TaskType)))
    except Exception as error:
        logger.warning("The SuperNode did not say whether there is work: %s", error)
        return None
    return acquired if acquired.token else None


def _serve(
    acquired: AcquireTaskResponse,
    client: RuntimeHttpClient,
    address: str,
    approvals: Approvals,
    command: Sequence[str],
) -> AcquireTaskResponse | None:
    """See to it that one task's instruction gets a reply; return the next task where this one was given up."""
    with contextlib.closing(_client(address, RuntimeTokenHttpInterceptor(acquired.token))) as task_client:
        heartbeat = HeartbeatSender(_heartbeat(task_client))
        heartbeat.start()
        try:
            pulled = _pulled(task_client, lambda: _next_task(client))
            if isinstance(pulled, AcquireTaskResponse):
                # Else the SuperNode makes an error reply for this task when its heartbeats stop, takes that for the
                # reply to the instruction it then waits for, and sends each later reply one instruction too late.
                with contextlib.suppress(Exception):
                    push_task_output(task_client, None, SubStatus.FAILED, "its instruction never arrived whole")
                return pulled
            work = Work(acquired.task.type, acquired.task.task_id, *pulled)
            TaskIdentity.task_id = work.task_id
            TaskIdentity.run_id, TaskIdentity.node_id = work.context.run_id, work.context.node_id
            reply, context = answer(work, approvals, command)
            push_message(task_client, reply, work.context)
            failed = reply.has_error()
            status = SubStatus.FAILED if failed else SubStatus.COMPLETED
            push_task_output(task_client, context, status, str(reply.error.reason) if failed else "")
        except Exception:  # without heartbeats the SuperNode makes an error reply itself, after a minute
            logger.exception("A task could not be served.")
        finally:
            heartbeat.stop()
    return None


def _pulled(
    client: RuntimeHttpClient, next_task: Callable[[], AcquireTaskResponse | None]
) -> tuple[Message, Context, Run, Fab] | AcquireTaskResponse:
    """Fetch a task's instruction; return another task instead, where that waits and this one's does not come.

    The objects of an instruction whose server was killed never arrive, and Flower waits for them for more than an hour:
    meanwhile this node would answer no other run.
    """
    found: queue.Queue[tuple[Message, Context, Run, Fab] | Exception] = queue.Queue()

    def pull() -> None:
        try:
            found.put(pull_task_input(client))
        except Exception as error:
            found.put(error)

    threading.Thread(target=pull, daemon=True).start()
    began = time.monotonic()
    while True:
        with contextlib.suppress(queue.Empty):
            result = found.get(timeout=POLL_S)
            if isinstance(result, Exception):
                raise result
            return result
        if time.monotonic() - began > PATIENCE_S and (other := next_task()) is not None:
            logger.warning("A task is given up, because another one waits: its instruction never arrived whole.")
            return other


def _heartbeat(client: RuntimeHttpClient) -> Callable[[], bool]:
    def send() -> bool:
        with contextlib.suppress(Exception):  # the next one may arrive
            client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        return True

    return send


def _client(
    address: str, *interceptors: RuntimeTokenHttpInterceptor | SuperExecAuthHttpInterceptor
) -> RuntimeHttpClient:
    version = RuntimeVersionHttpInterceptor(component_name="fedkd node")
    return RuntimeHttpClient.from_server_address(address, True, None, [version, *interceptors])


@contextlib.contextmanager
def _waiting_client(address: str, secret: bytes, process: subprocess.Popen[bytes]) -> Iterator[RuntimeHttpClient]:
    """Yield a client that may fetch tasks, once the SuperNode answers or has ended."""
    method = "/flwr.proto.Runtime/AcquireTask"
    auth = SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={method})
    host, _, port = address.partition(":")
    deadline = time.monotonic() + START_S
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
            break
        if not time.monotonic() < deadline:
            raise TimeoutError(explain("SuperNode", f"open its port within {START_S:g} s", "no answer", "See its log."))
        time.sleep(0.1)
    with contextlib.closing(_client(address, auth)) as client:
        yield client


@contextlib.contextmanager
def _terminated_by_signal() -> Iterator[None]:
    """Let SIGTERM end the block like an exception, so that the processes it started are ended too."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(0)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
