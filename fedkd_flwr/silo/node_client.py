"""One instruction's ClientApp, in a process of its own: instruction on stdin, reply on stdout, no network (see `node`).

The ClientApp is imported from what is installed. What it prints goes to stderr, which is the owner's log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from base64 import b64decode, b64encode
from importlib import import_module
from typing import IO

from fedkd_flwr.processes.limits import end_with_parent
from fedkd_flwr.stores.egress_log import EgressLog

__all__ = ["main", "note", "pack", "serve", "settle", "taken", "unpack"]


def pack(**parts: bytes) -> bytes:
    """Return named byte strings as one.

    >>> unpack(pack(reply=b"ab", receipt=b""))
    {'reply': b'ab', 'receipt': b''}
    """
    return json.dumps({name: b64encode(part).decode() for name, part in parts.items()}).encode()


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the byte strings that `pack` has joined; raise `ValueError` where it was something else."""
    parts = json.loads(data)
    if not isinstance(parts, dict) or not all(isinstance(part, str) for part in parts.values()):
        raise ValueError(f"named byte strings expected, got {type(parts).__name__}")
    return {name: b64decode(part, validate=True) for name, part in parts.items()}


def serve(source: IO[bytes]) -> bytes:
    """Read an instruction, run its ClientApp and return the answer; or write down what became of a reply."""
    task = unpack(source.read())
    if "outcome" in task:
        settle(task["receipt"], task["outcome"].decode())
        return b""
    from flwr.app import Message
    from flwr.clientapp import ClientApp
    from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
    from flwr.proto.message_pb2 import Context as ProtoContext
    from flwr.proto.message_pb2 import Message as ProtoMessage
    from flwr.supercore.task_identity import TaskIdentity

    context = context_from_proto(ProtoContext.FromString(task["context"]))
    message = message_from_proto(ProtoMessage.FromString(task["message"]))
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, context.run_id, context.node_id
    module, _, name = task["app"].decode().partition(":")
    app = getattr(import_module(module), name)
    if not isinstance(app, ClientApp):
        raise TypeError(f"{module}:{name} is no ClientApp")
    reply = app(message, context)
    if not isinstance(reply, Message):
        raise TypeError(f"the ClientApp returned {type(reply).__name__}, which is no message")
    made, after = message_to_proto(reply), context_to_proto(context)
    return pack(reply=made.SerializeToString(), context=after.SerializeToString(), receipt=taken())


# Lines of egress logs that this process has written for its reply: state-dir, party, number. A line is written before
# its reply leaves here. Only the node knows whether the SuperLink took it: it hands these receipts back, to a process
# with the same rights, and one more line says what became of it.
_noted: list[tuple[str, str, int]] = []


def note(log: EgressLog, number: int) -> None:
    """Note that a line of this number says that a reply leaves."""
    _noted.append((str(log.directory.parents[1].absolute()), log.party, number))


def taken() -> bytes:
    """Return what was noted, and forget it; b"" for nothing."""
    noted = [*_noted]
    _noted.clear()
    return json.dumps(noted).encode() if noted else b""


def settle(receipts: bytes, outcome: str) -> None:
    """Write what became of the replies: a line each, which names the line of the reply."""
    for root, party, number in json.loads(receipts):
        EgressLog(root, party=party).append({"answer": number, "outcome": outcome})


def main() -> None:
    """Answer one instruction; SIGTERM, also that of a node which was killed, ends it like an exception."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end_with_parent()
    with os.fdopen(os.dup(1), "wb") as target:
        os.dup2(2, 1)  # what is printed must not get into the reply
        target.write(serve(sys.stdin.buffer))


if __name__ == "__main__":
    from fedkd_flwr.silo import node_client  # the module that a door notes its lines in

    node_client.main()
