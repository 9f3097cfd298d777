"""Whole runs in one process: a Flower grid that calls each party where it stands, without Ray and without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.app.error import Error
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

__all__ = ["Handler", "InProcessGrid"]

Handler = Callable[[Message, Context], Message]


class InProcessGrid(Grid):
    """Calls ``handler(message, context)`` for each message, and keeps what was sent both ways.

    ``handler`` is a ClientApp, or any function of (message, context); there is one node for each of ``node_configs``.
    Every context carries ``run_config``. ``sent`` and ``replies`` are the instructions, and what came back, in order.
    ``progress(kind, server_round, answered, asked)`` is called before the first answer and after each; ``kind`` is
    Flower's message type.
    """

    first = 1000  # the lowest node id

    def __init__(
        self,
        handler: Handler,
        node_configs: Sequence[dict[str, Any]],
        run_config: dict[str, Any] | None = None,
        *,
        run_id: int = 1,
        progress: Callable[[str, int, int, int], None] = lambda *_: None,
    ) -> None:
        # Flower makes messages for the node that its process belongs to
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = run_id, 1, 1
        self.handler, self.progress, self._done = handler, progress, 0
        self.contexts = {
            node: Context(run_id, node, dict(config), RecordDict(), dict(run_config or {}))
            for node, config in enumerate(node_configs, self.first)
        }
        self.sent: list[Message] = []
        self.replies: list[Message] = []
        self._waiting: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Any:
        """None: Flower's server knows of no such run."""
        return None

    def close(self) -> None:
        """Do nothing: no process was started."""

    def create_message(self, *args: Any, **keywords: Any) -> Message:
        """Flower's old way to make messages."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """Return the node ids."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Deliver the messages and keep the replies until they are pulled."""
        ids, messages = [], list(messages)
        self._done = 0
        if messages:
            self._say(messages[0], len(messages))
        for message in messages:
            identity = str(len(self.sent))
            message.metadata.__dict__["_message_id"] = identity
            self.sent.append(message)
            if (reply := self._answered(message)) is not None:
                self._waiting[identity] = reply
                self.replies.append(reply)
            ids.append(identity)
            self._done += 1
            self._say(message, len(messages))
        return ids

    def _say(self, message: Message, asked: int) -> None:
        group = message.metadata.group_id
        self.progress(message.metadata.message_type, int(group) if group.isdigit() else 0, self._done, asked)

    def answered(self) -> list[str]:
        """Return the ids of the messages whose replies wait to be pulled."""
        return list(self._waiting)

    def _answered(self, message: Message) -> Message | None:
        """Return the reply of the node that a message is for; None where it is lost on its way."""
        TaskIdentity.node_id = node = message.metadata.dst_node_id
        try:
            reply = self.handler(message, self.contexts[node])
        except Exception as error:  # as Flower's own backends do
            reply = Message(Error(code=2, reason=f"{type(error)}:<{error!r}>"), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = node
        TaskIdentity.node_id = 1
        return reply

    def pull_messages(
        self, message_ids: Iterable[str] = (), *, reply_to_message_ids: Iterable[str] = ()
    ) -> Iterable[Message]:
        """Return the replies to these messages, each once; Flower 1.43 names the argument anew."""
        return [self._waiting.pop(i) for i in list(message_ids or reply_to_message_ids) if i in self._waiting]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Deliver the messages and return the replies."""
        return self.pull_messages(self.push_messages(messages))
