"""Waiting that a person can follow: for nodes before the first round, for replies within each.

Flower starts the ServerApp before the nodes have registered, and its own sampling waits for ever; a one-shot
algorithm cannot afford either.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import INFO, WARN
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.common import log
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedkd_flwr.errors import SETTLED, Code, TooFewPartiesError, explain
from fedkd_flwr.wire.records import Scalar, open_reply

_LASTING = {Code.BUDGET_EXCEEDED, Code.NOT_ALLOWED, Code.PRIVACY_REQUIRED, Code.PUBLIC_SET_MISMATCH, Code.SUBSET_FIXED}
"""Refusals of this very run: a node that is asked again says the same."""


def wait_for_nodes(
    grid: Grid,
    *,
    wanted: int,
    minimum: int,
    settle_s: float,
    deadline_s: float,
    poll_s: float = 0.2,
    readiness: Readiness | None = None,
) -> list[int]:
    """Return the node ids once enough have registered; with ``readiness``, once enough of them say that they are ready.

    ``wanted``: nodes to wait for; 0: until there are ``minimum`` and their number has not changed for ``settle_s``
    seconds. So long a quiet is waited for too where ``wanted`` have registered and not all are ready. Nodes that are
    not ready are not returned; one that has not answered is, in the end: its rows may take long to read.

    Raises `TooFewPartiesError` after ``deadline_s`` seconds, or once so many refuse by their rules that too few are
    left; the message names each node that is not ready, and why.
    """
    start = changed = said = time.monotonic()
    before: object = None
    while True:
        registered = sorted(grid.get_node_ids())
        ready = registered if readiness is None else readiness.ask(registered)
        unready = {} if readiness is None else {node: c for node, c in readiness.codes.items() if node in registered}
        usable = [node for node in registered if node not in unready]
        now = time.monotonic()
        if (state := (registered, ready, unready)) != before:
            before, changed = state, now
        if wanted and len(ready) >= wanted:
            return usable
        quiet = changed + settle_s - now  # seconds for which nothing must change any more
        here, fewest, late = len(registered) >= (wanted or minimum), max(minimum, 1), now - start >= deadline_s
        enough = here and len(usable) >= fewest
        settled = quiet <= 0 and (readiness is not None or not wanted)
        if enough and (settled or (late and readiness is not None)):
            return usable
        refused = sum(code in _LASTING for code in unready.values())
        all_came = wanted > 0 and len(ready) + len(unready) == len(registered)  # and have answered
        lost = here and len(registered) - refused < fewest and (all_came or quiet <= 0)
        if late or lost:
            way_out = (
                "Start more SuperNodes (simulation: num-supernodes in --federation-config), lower num-parties, or "
                "raise node-deadline-s. A node that runs and is not counted cannot connect, or is refused for its key, "
                "its clock or its certificate, or is not ready: its own log and `fedkd doctor` there say which."
            )
            what = "number of nodes"
            seen: object = len(registered)
            if readiness is not None and unready:
                names = (f"{readiness.names.get(node) or f'node {node}'}: {unready[node]}" for node in sorted(unready))
                what, seen = f"{what} that are ready", f"{len(usable)} of {seen} ({', '.join(names)})"
                way_out = " ".join(map(readiness.why, sorted(set(unready.values())))) if here else way_out
            rule = f"reach {fewest if here else wanted or minimum}" + ("" if lost else f" within {deadline_s:g} s")
            raise TooFewPartiesError(explain(what, rule, seen, way_out))
        if now - said >= 10.0:
            said = now
            words = "waiting for nodes: %d registered, %d of them ready, %s wanted"
            log(INFO, words, len(registered), len(ready), wanted or "a stable number")
        time.sleep(min(poll_s, max(quiet, 0.001)) if enough else poll_s)


class Readiness:
    """Asks nodes before the first round whether they would refuse it; those that would are named and not counted.

    It costs each node one visit (about 6 s at a SuperNode), while others are waited for anyway. Without it parties that
    are ready would train, and pay from their budgets, in a run that cannot reach ``min-parties``.

    Beside noise at the server, a code that private rows may have decided (not in `SETTLED`) counts as ready: who is
    asked sets the noise of a mean and draws the groups, and everybody sees whether there is a result.

    ``names``, ``codes``: what the nodes that have answered call themselves, and why they are not ready, which is asked
    again after ``again_s`` seconds. ``why(code)`` is the sentence on a code.
    """

    again_s = 15.0

    def __init__(self, grid: Grid, settings: Mapping[str, Scalar], why: Callable[[str], str]) -> None:
        self.grid, self.settings, self.why = WatchedGrid(grid), settings, why
        self.names: dict[int, str] = {}
        self.codes: dict[int, str] = {}
        self._ready: set[int] = set()
        self._open: dict[int, Message] = {}  # node -> question
        self._asked: dict[int, float] = {}

    def believed(self) -> dict[int, str]:
        """Return the names that are believed (`believed_names`)."""
        return believed_names(self.names, self.grid.get_nodes())

    def ask(self, registered: Sequence[int], *, at_once: bool = False) -> list[int]:
        """Ask those due, or all that are not ready ``at_once``; return which are known to be ready."""
        now, pause = time.monotonic(), 0.0 if at_once else self.again_s
        due = [
            node
            for node in registered
            if node not in self._asked
            or (node in self.codes and now - self._asked[node] >= pause and node not in self._open)
        ]
        if due:
            self._asked |= dict.fromkeys(due, now)
            # nodes whose question the SuperLink did not take are waited for
            taken = self.grid.push_known([question(node, self.settings) for node in due])
            self._open |= {message.metadata.dst_node_id: message for message in taken}
        for node, asked in list(self._open.items()):
            for reply in self.grid.replies_to(asked):
                del self._open[node]
                self._take(node, reply)
        return [node for node in registered if node in self._ready]

    def _take(self, node: int, reply: Message) -> None:
        name, code = read_answer(reply)
        if name:
            self.names[node] = name
        if code and code not in SETTLED and self.settings.get("privacy") == "server":
            words = (
                "%s says that it cannot answer: %s. It is asked all the same: beside noise at the server, what a party "
                "holds may not decide who is asked. Stop the run if this is a mistake; `fedkd doctor` there says why."
            )
            log(WARN, words, name or f"node {node}", code)
            code = ""
        if not code:
            self.codes.pop(node, None)
            self._ready.add(node)
        elif self.codes.get(node) != code:
            log(WARN, "%s is not ready: %s. `fedkd doctor` there says why.", name or f"node {node}", code)
            self.codes[node] = code


def registered_names(nodes: Iterable[Any]) -> dict[int, str]:
    """Return the names that node keys were registered under, by node id; ``nodes`` as ``Grid.get_nodes`` returns them.

    With registered keys, nobody gets a node's instructions without its key. One thing remains (Flower 1.41 and 1.42):
    the SuperLink checks the key of whoever delivers a reply, and does not compare it with the sender that the reply
    names. A registered node that knows another's id, 64 random bits, and the digest of its instruction could
    answer for it. A name that two keys were registered under binds neither.
    """
    names = {int(node.node_id): str(getattr(node, "name", "") or "") for node in nodes}
    count = Counter(names.values())
    return {node: name for node, name in names.items() if name and count[name] == 1}


def believed_names(said: Mapping[int, str], nodes: Iterable[Any]) -> dict[int, str]:
    """Return which of the names that nodes give themselves before the first round are believed, by node id.

    A registered name is; another one where one node alone gives it. Else whoever is not ready, or answers nothing,
    could be written down under another party's name.
    """
    registered, count = registered_names(nodes), Counter(said.values())
    taken = set(registered.values())
    return {n: name for n, name in said.items() if count[name] == 1 and name not in taken} | registered


def question(node: int, settings: Mapping[str, Scalar] | None = None) -> Message:
    """Return the message that asks a node whether it is ready."""
    content = RecordDict({} if settings is None else {"settings": ConfigRecord(dict(settings))})
    return Message(content, dst_node_id=node, message_type=MessageType.QUERY)


def read_answer(reply: Message) -> tuple[str, str]:
    """Return a party's name, and why it is not ready: "" where it is, or where its ClientApp knows no such question."""
    if reply.has_error():
        opened = open_reply(reply, "fit")
        own = opened.code == "party-crashed" and reply.error.code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION
        return opened.party, "" if own else opened.code
    said: Mapping[str, object] = reply.content.config_records.get("ready", ConfigRecord())
    name, code = str(said.get("party", "")), str(said.get("code", ""))
    if len(name) > 100 or not name.isprintable():
        return "", "bad-name"
    return name, code if not code or code in set(Code) else "unknown-code"


def start_processes(grid: Grid, nodes: Iterable[int], timeout: float) -> dict[int, Mapping[str, object]]:
    """Ask each node of a simulation to load what it needs, before the first round; return what each said."""
    replies = WatchedGrid(grid).send_and_receive([question(node) for node in nodes], timeout=timeout)
    return {
        reply.metadata.src_node_id: dict(reply.content.config_records.get("ready", {}))
        for reply in replies
        if read_answer(reply)[0]
    }


class WatchedGrid:
    """A grid that logs every so many seconds how many parties have answered while a round is under way.

    It is Flower's but for how it sends and receives; all else is the ``grid``'s own.
    """

    def __init__(self, grid: Any, *, every_s: float = 10.0) -> None:
        self.grid, self.every_s = grid, every_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def get_nodes(self) -> Iterable[Any]:
        """Get what the SuperLink knows of each node; nothing from a grid that does not say."""
        get_nodes = getattr(self.grid, "get_nodes", None)
        return [] if get_nodes is None else list(get_nodes())

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push messages and pull their replies until all are there or ``timeout`` seconds have passed."""
        messages = list(messages)
        waiting = {message.metadata.message_id: message for message in self.push_known(messages)}
        replies: list[Message] = []
        start = said = time.monotonic()
        pause = 0.02
        # a grid that knows spares thousands of questions a poll
        answered = getattr(self.grid, "answered", lambda: waiting)
        while waiting:
            began = time.monotonic()
            for message_id in [one for one in answered() if one in waiting]:
                for reply in self.replies_to(waiting[message_id]):
                    del waiting[message_id]
                    replies.append(reply)
            now = time.monotonic()
            if not waiting or (timeout is not None and now - start >= timeout):
                break
            if now - said >= self.every_s:
                said = now
                log(INFO, "\t%d of %d parties have answered after %.0f s", len(replies), len(messages), now - start)
            # short rounds are not stretched by polling, long ones do not hammer the server, nor do many parties
            time.sleep(max(pause, now - began))
            pause = min(pause * 1.5, 0.2 if now - start < 30.0 else 1.0)
        return replies

    def push_known(self, messages: Sequence[Message]) -> list[Message]:
        """Push messages; return those that the SuperLink took: for others Flower gives no id, or no list at all."""
        ids = list(self.grid.push_messages(messages))
        if len(ids) == len(messages):
            for message, one in zip(messages, ids, strict=True):
                if not message.metadata.message_id and one:  # Flower's grids write it there, others need not
                    message.metadata.__dict__["_message_id"] = one
        taken = set(ids) - {None, ""}
        return [message for message in messages if message.metadata.message_id in taken]

    def replies_to(self, message: Message) -> list[Message]:
        """Pull the reply to one message, if it is there; by itself, so that one that cannot be read costs no other.

        The SuperLink looks at the head of what a node sends and hands on the rest. Flower's grid raises while it reads
        that, and with it goes whatever was pulled in the same call, because the SuperLink has deleted it by then.
        """
        from httpx import HTTPError

        message_id, node = message.metadata.message_id, message.metadata.dst_node_id
        try:
            pulled = list(self.grid.pull_messages([message_id]))
        except (OSError, HTTPError):  # the SuperLink is not there
            raise
        except Exception as error:
            log(WARN, "the reply of node %d cannot be read (%s)", node, type(error).__name__)
            pulled = [Message(RecordDict(), reply_to=message)]  # which holds nothing of what a reply must hold
        replies = [reply for reply in pulled if reply.metadata.reply_to_message_id == message_id][:1]
        if len(replies) < len(pulled):
            log(WARN, "a reply of node %d to something else, or a second one, is left out", node)
        for reply in replies:
            # For a node that is gone the SuperLink answers, and a node may write another's id into its reply: the
            # SuperLink compares the id beside the reply alone. Flower gives the field no setter.
            reply.metadata.__dict__["_src_node_id"] = node
        return replies
