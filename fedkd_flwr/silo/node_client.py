"""One instruction's ClientApp, in a process of its own: instruction on stdin, reply on stdout, no network (see `node`).

The ClientApp is imported from what is installed. What it prints goes to stderr, which is the owner's log.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from importlib import import_module
from typing import IO

from fedkd_flwr.processes.limits import end_with_parent
from fedkd_flwr.silo.receipts import settle, taken

__all__ = ["main", "read_frames", "serve", "write_frames"]

LENGTH = struct.Struct(">Q")


def write_frames(*frames: bytes) -> bytes:
    """Return byte strings as one, each behind its length.

    >>> read_frames(write_frames(b"ab", b""), 2)
    [b'ab', b'']
    """
    return b"".join(part for frame in frames for part in (LENGTH.pack(len(frame)), frame))


def read_frames(data: bytes, count: int) -> list[bytes]:
    """Return the ``count`` byte strings that `write_frames` has joined; raise `ValueError` if there are others."""
    frames: list[bytes] = []
    start = 0
    for _ in range(count):
        if len(data) < start + LENGTH.size:
            raise ValueError(f"{count} parts expected, got {len(frames)}")
        (size,) = LENGTH.unpack_from(data, start)
        start += LENGTH.size
        frames.append(data[start : start + size])
        start += size
    if start != len(data):
        raise ValueError(f"{count} parts of together {start} bytes expected, got {len(data)} bytes")
    return frames


def serve(source: IO[bytes]) -> bytes:
    """Read an instruction, run its ClientApp and return the answer, as `node_work.ask_client_app` reads it.

    Or read receipts and what became of their reply, and write that down (`fedkd_flwr.silo.receipts`).

    Raises `TypeError` if the object named is no ClientApp, or its answer no message.
    """
    header, context_bytes, message_bytes = read_frames(source.read(), 3)
    task = json.loads(header)
    if "outcome" in task:
        settle(context_bytes, task["outcome"])
        return b""
    from flwr.app import Message
    from flwr.clientapp import ClientApp
    from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
    from flwr.proto.message_pb2 import Context as ProtoContext
    from flwr.proto.message_pb2 import Message as ProtoMessage
    from flwr.supercore.task_identity import TaskIdentity

    context = context_from_proto(ProtoContext.FromString(context_bytes))
    message = message_from_proto(ProtoMessage.FromString(message_bytes))
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, context.run_id, context.node_id
    module, _, name = task["client-app"].partition(":")
    app = getattr(import_module(module), name)
    if not isinstance(app, ClientApp):
        raise TypeError(f"{module}:{name} is no ClientApp")
    reply = app(message, context)
    if not isinstance(reply, Message):
        raise TypeError(f"the ClientApp returned {type(reply).__name__}, which is no message")
    protos = message_to_proto(reply), context_to_proto(context)
    return write_frames(*(proto.SerializeToString() for proto in protos), taken())


def main() -> None:
    """Answer one instruction; SIGTERM, also that of a node which was killed, ends it like an exception."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end_with_parent()
    with os.fdopen(os.dup(1), "wb") as target:
        os.dup2(2, 1)  # what is printed must not get into the reply
        target.write(serve(sys.stdin.buffer))


if __name__ == "__main__":
    main()
