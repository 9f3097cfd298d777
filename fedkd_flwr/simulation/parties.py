"""A whole federation on one machine: a Flower grid whose parties compute in a few processes, without Ray.

Each process plays many parties, one message at a time. All are forked from one process that has imported what parties
need, so a process is there within milliseconds, also where one was lost. Messages travel between the processes as
Flower's own bytes, as they would to a SuperNode.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from typing import Any

from flwr.app import Context, Message
from flwr.app.error import Error
from flwr.common.constant import ErrorCode
from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Context as ContextBytes
from flwr.proto.message_pb2 import Message as MessageBytes
from flwr.supercore.task_identity import TaskIdentity
from joblib import cpu_count

from fedkd_flwr import files
from fedkd_flwr.simulation.grid import InProcessGrid

__all__ = ["ProcessGrid", "printed_to"]

logger = logging.getLogger("flwr")


def _serve(pipe: Connection, log: str) -> None:
    """Answer messages until the other side is gone."""
    from fedkd_flwr.app.client_app import app

    files.durable = False
    gc.freeze()  # what was imported stays: collecting garbage need not look at it again and again
    _write_to(log)  # what models print, too
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command too, which asks first
    parent, me = parent_process(), os.getpid()
    if parent is not None:  # a lost server must not leave a party training
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    while True:
        try:
            state, received = pipe.recv_bytes(), pipe.recv_bytes()
        except (EOFError, OSError):
            return
        about = context_from_proto(ContextBytes.FromString(state))
        message = message_from_proto(MessageBytes.FromString(received))
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = about.run_id, 1, about.node_id
        try:
            reply = app(message, about)
        except Exception as error:  # as Flower's own backends do
            logger.exception("a ClientApp raised an exception")
            reply = Message(
                Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, f"{type(error)}:<{error!r}>"), reply_to=message
            )
        if os.getpid() != me:  # a model forked, and its child came back from the call, too
            os._exit(0)
        pipe.send_bytes(message_to_proto(reply).SerializeToString())


def _write_to(log: str) -> None:
    """Append what this process prints from now on to a file; to stderr if there is none."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if log else os.dup(2)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


@contextmanager
def printed_to(log: str) -> Iterator[None]:
    """Append what this process prints meanwhile to a file, also what C code prints; "": print it to stderr."""
    kept = os.dup(1), os.dup(2)
    _flush()
    _write_to(log)
    try:
        yield
    finally:
        _flush()
        for number, stream in enumerate(kept, 1):
            os.dup2(stream, number)
            os.close(stream)


def _flush() -> None:
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


class _Process:
    """One process that plays parties."""

    def __init__(self, starter: BaseContext, log: str) -> None:
        self.pipe, other = starter.Pipe()
        self.process = starter.Process(target=_serve, args=(other, log))  # type: ignore[attr-defined]
        self.process.start()
        other.close()

    def answer(self, about: bytes, message: bytes) -> bytes:
        """Return the reply; raise `EOFError` or `OSError` where the process has ended."""
        self.pipe.send_bytes(about)
        self.pipe.send_bytes(message)
        return self.pipe.recv_bytes()

    def end(self) -> None:
        """Kill the process, whatever it does."""
        self.process.kill()
        self.process.join(5.0)
        self.pipe.close()


class ProcessGrid(InProcessGrid):
    """A grid of ``num_parties`` simulated parties in processes of their own.

    A round whose time is over is left behind when the next messages are pushed: parties that still compute are ended,
    and their replies never come. A process that ends by itself, or is killed for want of memory, is one lost reply;
    another process takes its place.

    ``starter``: what `party_starter` returned. ``processes``: how many there are at most; 0: one for each core.
    ``log``: the file for what parties write to the terminal, "" for the terminal. ``progress`` is called from several
    threads.
    """

    def __init__(
        self,
        starter: BaseContext,
        num_parties: int,
        run_config: dict[str, Any],
        *,
        run_id: int,
        processes: int = 0,
        log: str = "",
        progress: Callable[[str, int, int, int], None] = lambda *_: None,
    ) -> None:
        nodes = [{"partition-id": i, "num-partitions": num_parties} for i in range(num_parties)]
        super().__init__(_not_here, nodes, run_config, run_id=run_id, progress=progress)
        self.start = partial(_Process, starter, log)
        self._pool = ThreadPoolExecutor(min(processes or cpu_count(), num_parties))
        self._lock = threading.Lock()
        self._asked: list[Future[None]] = []
        self._number = 0
        self._over = False  # whether the time of what was asked is over
        self._idle: list[_Process] = []
        self._busy: set[_Process] = set()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Queue the messages; give up what was asked before and has not been answered."""
        self._give_up()
        messages, first = list(messages), self._number + 1
        self._number += len(messages)
        for number, message in enumerate(messages, first):
            message.metadata.__dict__["_message_id"] = str(number)
        if messages:
            self._say(messages[0], len(messages))
        self._asked = [self._pool.submit(self._ask, message, len(messages)) for message in messages]
        return [message.metadata.message_id for message in messages]

    def pull_messages(
        self, message_ids: Iterable[str] = (), *, reply_to_message_ids: Iterable[str] = ()
    ) -> Iterable[Message]:
        """Return the replies to these messages, each once."""
        with self._lock:
            return super().pull_messages(message_ids, reply_to_message_ids=reply_to_message_ids)

    def close(self) -> None:
        """End all processes."""
        self._give_up()
        self._pool.shutdown()
        for process in self._idle:
            process.end()

    def _give_up(self) -> None:
        """End what still computes, and forget its replies."""
        self._over = True
        for future in self._asked:
            future.cancel()
        while wait_for(self._asked, timeout=0.0).not_done:
            with self._lock:
                late = [*self._busy]
            for process in late:
                process.process.kill()
            wait_for(self._asked, timeout=0.05)
        self._asked, self._done, self._over = [], 0, False
        self._waiting.clear()

    def _ask(self, message: Message, asked: int) -> None:
        """Have a process answer one message, and keep the reply until it is pulled."""
        with self._lock:
            process = self._idle.pop() if self._idle else None
        process = process or self.start()
        with self._lock:
            self._busy.add(process)
        node = message.metadata.dst_node_id
        try:
            about = context_to_proto(self.contexts[node]).SerializeToString()
            received = process.answer(about, message_to_proto(message).SerializeToString())
            reply = message_from_proto(MessageBytes.FromString(received))
        except (EOFError, OSError):
            process.end()
            seen = process.process.exitcode
            if not self._over:
                logger.warning("the process of party %d ended (exit code %s); another one takes its place", node, seen)
            reply = Message(Error(ErrorCode.CLIENT_APP_CRASHED, f"exit code {seen}"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = node
        with self._lock:
            self._busy.remove(process)
            if process.process.exitcode is None:
                self._idle.append(process)
            self._waiting[message.metadata.message_id] = reply
            self._done += 1
        if not self._over:
            self._say(message, asked)


def _not_here(message: Message, context: Context) -> Message:
    raise NotImplementedError("parties compute in processes of their own")
