"""A Flower node that takes part only in runs of app bundles that its owner has approved, and runs only his own code.

    this process     pulls an instruction from the SuperLink, hashes the run's bundle, refuses or asks the ClientApp,
                     and sends the reply; one instruction at a time
    node_client.py   a fresh process per instruction, which runs the *installed* ClientApp; it is given the instruction
                     on stdin and writes the reply to stdout, so it needs no network and may be put into a sandbox

Nothing of a bundle is unpacked, read or imported before its hash was found among the approved ones, so a server that
lies about a hash gains nothing. An instruction that is refused, or whose ClientApp fails, is killed or runs for too
long, gets an error reply.

Flower's own SuperNode is not used. It keeps instructions and replies in two lists and sends whichever reply it finds
next: an instruction of a run that is stopped while it arrives stays behind there, is answered, and from then on each
reply leaves one instruction too late (Flower 1.41 and 1.42). Here a reply and its instruction never part.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree, push_objects
from flwr.supercore.run import Run, RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_connection import http_request_response

from fedkd_flwr.app.submit import direct
from fedkd_flwr.report.formatting import one_line
from fedkd_flwr.silo.bundles import Approvals
from fedkd_flwr.silo.check import Level
from fedkd_flwr.silo.check_link import Link, check_link
from fedkd_flwr.silo.node_work import CLIENT, RunEndedError, Work, answer, settle

__all__ = ["Node", "run_node"]

logger = logging.getLogger("flwr.party")

# seconds between two questions for work: soon after an instruction, and otherwise as Flower's own SuperNode
POLL_S, IDLE_POLL_S, BUSY_S = 1.0, 3.0, 60.0
# the objects of an instruction whose server was killed never arrive
ARRIVAL_S = 600.0


def run_node(values: Mapping[str, Any], link: Link, *, approvals: Approvals, sandbox: Sequence[str] = ()) -> int:
    """Serve approved bundles until this process is told to end, or the SuperLink refuses it: exit status 1.

    ``values``: the node's config. ``sandbox``: a command that runs the command appended to it, with its stdin and
    stdout: where the ClientApp's process is put.
    """
    known = approvals.files().values()
    logger.info("This node answers runs of %d approved app bundle(s) in %s.", len(known), approvals.folder)
    for bundle in known:
        logger.info("  %s %s %s", bundle.sha256, one_line(bundle.app), one_line(bundle.version))
    roots = link.root_certificates.read_bytes() if link.root_certificates else None
    os.environ.update(direct())
    connection = http_request_response(link.address, link.insecure, roots, link.keys())
    try:
        with _ended_by_signals(), connection as calls:  # it logs an error and goes on behind the block
            logger.info("This node has the number %s at the SuperLink %s.", calls[0], link.address)
            Node(calls, values, approvals, [*sandbox, *CLIENT]).serve()
    except _ToldToEnd:
        raise
    except (SystemExit, KeyboardInterrupt):  # Flower's word for a SuperLink that refuses, or Ctrl-C
        _say_why(link)
        raise
    _say_why(link)
    return 1


def _say_why(link: Link) -> None:
    """Log what is wrong on the way to the SuperLink: its address, its certificate, the clocks."""
    for finding in check_link(link):
        if finding.level == Level.FAULT:
            logger.error("%s: %s. %s", finding.subject, finding.what, finding.way_out)


class Node:
    """Pulls instructions and answers them, one after the other.

    ``calls``: what `flwr.supernode.fleet_http_connection.http_request_response` yields: the node's number, and Flower's
    functions. ``command``: runs a ClientApp (`node_client`).
    """

    def __init__(
        self, calls: Any, node_config: Mapping[str, Any], approvals: Approvals, command: Sequence[str] = CLIENT
    ) -> None:
        self.number, self._receive, self._send, self._get_run, self._get_fab, self._pull, self._push, self._confirm = (
            calls
        )
        self.node_config, self.approvals, self.command = node_config, approvals, command
        self._run: tuple[Run, Fab] | None = None  # of the last instruction
        self._states: dict[int, RecordDict] = {}  # what ClientApps keep, by the series of runs, as Flower does

    def serve(self) -> None:
        """Answer what comes, until an error or a signal ends this."""
        busy = -BUSY_S
        while True:
            if self.serve_one():
                busy = time.monotonic()
            else:
                time.sleep(POLL_S if time.monotonic() - busy < BUSY_S else IDLE_POLL_S)

    def serve_one(self) -> bool:
        """Answer one instruction, if one waits; tell whether one did."""
        try:
            received = self._receive()
        except RunNotRunningException:
            return True
        if received is None:
            return False
        message, tree = received
        about = f"run {message.metadata.run_id}, round {message.metadata.group_id or '-'}"
        TaskIdentity.run_id, TaskIdentity.node_id = message.metadata.run_id, self.number
        TaskIdentity.task_id = 1  # a number of Flower's own SuperNode, which nobody asks for
        try:
            work = self._whole(message, tree)
        except RunNotRunningException:
            logger.info("%s: the run ended while its instruction arrived; it is left alone.", about)
            return True
        except Exception as error:
            logger.error("%s: its instruction did not arrive whole, and is left alone: %s", about, error)
            with contextlib.suppress(Exception, RunNotRunningException):  # it must not keep back the next one
                self._confirm(message.metadata.run_id, tree.object_id)
            return True
        began = time.monotonic()
        try:
            answered = answer(work, self.approvals, self.command, goes_on=lambda: self._goes_on(work.run.run_id))
        except RunEndedError:
            logger.warning("%s: the run ended while this node worked for it; nothing is sent.", about)
            return True
        if answered.context is not None:
            self._states[work.run.series_id] = answered.context.state
        outcome = self._sent(answered.reply, time.monotonic() - began)
        logger.log(logging.INFO if outcome == "sent" else logging.ERROR, "%s: the reply was %s.", about, outcome)
        if answered.receipt:
            settle(answered.receipt, outcome, self.command)
        return True

    def _whole(self, message: Message, tree: Any) -> Work:
        """Return an instruction with its objects, its run and its bundle; confirm that it arrived."""
        run_id = message.metadata.run_id
        if self._run is None or self._run[0].run_id != run_id:
            run = self._get_run(run_id)
            self._run = run, self._get_fab(run.fab_hash, run_id)
        run, fab = self._run
        whole = pull_and_inflate_object_from_tree(
            tree,
            lambda number: self._pull(run_id, number),
            lambda number: self._confirm(run_id, number),
            return_type=Message,
            max_time=ARRIVAL_S,
        )
        whole.metadata.__dict__["_message_id"] = tree.object_id  # the objects do not name it
        state = self._states.get(run.series_id, RecordDict())
        context = Context(run_id, self.number, dict(self.node_config), state, {}, series_id=run.series_id)
        return Work(whole, context, run, fab)

    def _goes_on(self, run_id: int) -> bool:
        """Tell whether the run still waits for replies; True where the SuperLink cannot be asked."""
        try:
            self._get_run(run_id)
        except RunNotRunningException:
            return False
        except Exception as error:
            logger.debug("run %s: the SuperLink does not say whether it goes on: %s", run_id, error)
        return True

    def _sent(self, reply: Message, seconds: float) -> str:
        """Send a reply; return whether the SuperLink took it: "sent", "not sent: ...", or "perhaps sent: ..."."""
        reply.metadata.__dict__["_message_id"] = reply.object_id
        run_id, taken = reply.metadata.run_id, False
        try:
            with no_object_id_recompute():
                tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
                wanted, session = self._send(remove_content_from_message(reply), tree, seconds)
                taken = True
                push_objects(objects, lambda *one: self._push(run_id, session, *one), object_ids_to_push=wanted)
        except RunNotRunningException:
            return "perhaps sent: the run ended meanwhile" if taken else "not sent: the run had ended"
        except Exception as error:
            return f"perhaps sent: the connection broke ({one_line(str(error))[:200]})"
        return "sent"


class _ToldToEnd(SystemExit):
    """Raised by SIGTERM."""


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGINT end the block like exceptions, so that the processes it started are ended too.

    Flower sends itself SIGINT where the SuperLink refuses this node; a process in the background ignores it otherwise.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        raise _ToldToEnd(0)

    before = signal.signal(signal.SIGTERM, leave), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
