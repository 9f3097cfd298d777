"""Whole runs in one process: a Flower grid that calls each party where it stands, without Ray and without a network."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.app.error import Error
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

__all__ = ["Handler", "InProcessGrid", "quiet"]

Handler = Callable[[Message, Context], Message]


class InProcessGrid(Grid):
    """Calls ``handler(message, context)`` for each message, and keeps what was sent both ways.

    Parameters
    ----------
    handler : callable
        A ClientApp, or any function of (message, context).
    node_configs : sequence of dict
        One per node.
    run_config : dict
        What every context carries.
    tamper : callable, optional
        ``tamper(node_index, reply) -> reply | None`` to spoil what crosses the wire; None loses it.
    order : sequence of int, optional
        In which order the messages of a round are delivered.

    Attributes
    ----------
    sent, replies : list of Message
        Instructions, and what came back, in order.
    """

    def __init__(
        self,
        handler: Handler,
        node_configs: Sequence[dict[str, Any]],
        run_config: dict[str, Any] | None = None,
        *,
        run_id: int = 1,
        tamper: Callable[[int, Message], Message | None] | None = None,
        order: Sequence[int] | None = None,
        first_node_id: int = 1000,
    ) -> None:
        # Flower makes messages for the node that its process belongs to
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = run_id, 1, 1
        self.handler, self.tamper, self.order = handler, tamper, order
        self.contexts = {
            first_node_id + i: Context(run_id, first_node_id + i, dict(config), RecordDict(), dict(run_config or {}))
            for i, config in enumerate(node_configs)
        }
        self.first = first_node_id
        self.sent: list[Message] = []
        self.replies: list[Message] = []
        self._waiting: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """None: Flower's server knows of no such run."""
        return None

    def create_message(self, *args: Any, **keywords: Any) -> Message:
        """Flower's old way to make messages."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """Return the node ids."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Deliver the messages and keep the replies until they are pulled."""
        messages = list(messages)
        if self.order is not None:
            messages = [messages[i] for i in self.order if i < len(messages)]
        ids = []
        for message in messages:
            identity = str(len(self.sent))
            message.metadata.__dict__["_message_id"] = identity
            self.sent.append(message)
            node = message.metadata.dst_node_id
            TaskIdentity.node_id = node
            try:
                reply = self.handler(message, self.contexts[node])
            except Exception as error:  # as Flower's own backends do
                reply = Message(Error(code=2, reason=f"{type(error)}:<{error!r}>"), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = node
            TaskIdentity.node_id = 1
            spoilt = self.tamper(node - self.first, reply) if self.tamper else reply
            if spoilt is not None:
                self._waiting[identity] = spoilt
                self.replies.append(spoilt)
            ids.append(identity)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages, each once."""
        return [self._waiting.pop(i) for i in list(message_ids) if i in self._waiting]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Deliver the messages and return the replies."""
        return self.pull_messages(self.push_messages(messages))


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the logs of runs of which many are made: they would bury what the command says."""
    loggers = [logging.getLogger(name) for name in ("flwr", "flwr.party")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
