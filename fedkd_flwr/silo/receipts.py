"""Which lines of egress logs a process has written for its reply, so that they can say later whether it was sent.

A line is written before its reply leaves the ClientApp's process. Only the node knows whether the SuperLink took the
reply: it hands these receipts back, to a process with the same rights, and one more line says what became of it.
"""

from __future__ import annotations

import json

from fedkd_flwr.stores.egress_log import EgressLog

__all__ = ["SENT", "note", "settle", "taken"]

SENT = "sent"

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
