"""Waiting that a person can follow: for nodes before the first round, for replies within each.

Flower starts the ServerApp before the nodes have registered, and its own sampling waits for ever; a one-shot
algorithm cannot afford either.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from logging import INFO
from typing import Any

from flwr.app import Message, MessageType, RecordDict
from flwr.common import log
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from fedkd_flwr.errors import TooFewPartiesError, explain

__all__ = ["WatchedGrid", "start_processes", "wait_for_nodes"]


def wait_for_nodes(
    grid: Grid, *, wanted: int, minimum: int, settle_s: float, deadline_s: float, poll_s: float = 0.2
) -> list[int]:
    """Return the node ids once enough have registered.

    ``wanted`` is the number of nodes to wait for; 0: until there are ``minimum`` and their number has not changed for
    ``settle_s`` seconds. Raises `TooFewPartiesError` if ``deadline_s`` seconds pass first.
    """
    start = changed = said = time.monotonic()
    count = -1
    while True:
        nodes = sorted(grid.get_node_ids())
        now = time.monotonic()
        if len(nodes) != count:
            count, changed = len(nodes), now
        enough = count >= (wanted or max(minimum, 1))
        quiet = 0.0 if wanted else changed + settle_s - now  # seconds for which their number must not change any more
        if enough and quiet <= 0:
            return nodes
        if now - start >= deadline_s:
            way_out = (
                "Start more SuperNodes (simulation: num-supernodes in --federation-config), lower num-parties, or "
                "raise node-deadline-s."
            )
            rule = f"reach {wanted or minimum} within {deadline_s:g} s"
            raise TooFewPartiesError(explain("number of nodes", rule, count, way_out))
        if now - said >= 10.0:
            said = now
            log(INFO, "waiting for nodes: %d registered, %s wanted", count, wanted or "a stable number")
        time.sleep(min(poll_s, quiet) if enough else poll_s)


def start_processes(grid: Grid, nodes: Iterable[int], timeout: float) -> dict[int, str]:
    """Ask each node to load what it needs: start-up then is apart from the first round (simulation only).

    Whoever cannot is named in the first round, as anybody else who does not answer. Returns the party names by node.
    """
    messages = [Message(RecordDict(), dst_node_id=node, message_type=MessageType.QUERY) for node in nodes]
    names = {}
    for reply in WatchedGrid(grid).send_and_receive(messages, timeout=timeout):
        if not reply.has_error() and "ready" in reply.content.config_records:
            names[reply.metadata.src_node_id] = str(reply.content.config_records["ready"].get("party", ""))
    return names


class WatchedGrid(Grid):
    """A grid that logs how many parties have answered while a round is under way.

    Parameters
    ----------
    grid : Grid
        The grid that does the work.
    every_s : float
        Seconds between two lines.
    """

    def __init__(self, grid: Grid, *, every_s: float = 10.0) -> None:
        self.grid = grid
        self.every_s = every_s

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self.grid.set_run(run)

    @property
    def run(self) -> Run:
        """Run information."""
        return self.grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Create a message."""
        return self.grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Get node ids."""
        return self.grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """Get what the SuperLink knows of each node; nothing from a grid that does not say."""
        get_nodes = getattr(self.grid, "get_nodes", None)
        return [] if get_nodes is None else list(get_nodes())

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages."""
        return self.grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Pull replies."""
        return self.grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push messages and pull their replies until all are there or ``timeout`` seconds have passed."""
        messages = list(messages)
        open_ids = {one for one in self.push_messages(messages) if one}  # None: the SuperLink did not take the message
        node_of = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
        asked, replies = len(messages), list[Message]()
        start = said = time.monotonic()
        pause = 0.02
        while open_ids:
            arrived = list(self.pull_messages(open_ids))
            replies += arrived
            for message in arrived:
                metadata = message.metadata
                if message.has_error() and metadata.src_node_id == SUPERLINK_NODE_ID:
                    # for a node that is gone the SuperLink answers; Flower gives the field no setter
                    metadata.__dict__["_src_node_id"] = node_of.get(metadata.reply_to_message_id, SUPERLINK_NODE_ID)
            open_ids -= {message.metadata.reply_to_message_id for message in arrived}
            now = time.monotonic()
            if not open_ids or (timeout is not None and now - start >= timeout):
                break
            if now - said >= self.every_s:
                said = now
                log(INFO, "\t%d of %d parties have answered after %.0f s", len(replies), asked, now - start)
            time.sleep(pause)
            # short rounds are not stretched by polling, long ones do not hammer the server
            pause = min(pause * 1.5, 0.2 if now - start < 30.0 else 1.0)
        return replies
