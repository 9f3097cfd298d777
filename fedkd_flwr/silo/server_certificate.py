"""Whether nodes can believe the certificate of the SuperLink that a ServerApp's process belongs to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from fedkd_flwr.silo.check import Level
from fedkd_flwr.silo.check_link import Link, check_link

__all__ = ["certificate_fault"]


def certificate_fault(arguments: Sequence[str] | None = None) -> str:
    """Return why no node can connect to this SuperLink, and what to do; "" where its certificate holds.

    Nodes that were connected before it expired may stay for a while: their silence has no other sign at the server.

    ``arguments``: the command line that Flower gave to the ServerApp's process; by default that of this process.
    """
    words = list(sys.argv if arguments is None else arguments)
    given = dict(pairwise(words))
    address, roots = (given.get(name, "") for name in ("--runtime-api-address", "--root-certificates"))
    if not address or not roots:  # a simulation, or no TLS
        return ""
    found = check_link(Link(address=address, root_certificates=Path(roots)))
    faults = (one for one in found if one.level == Level.FAULT and one.subject in ("certificate", "clock"))
    return next((f"No node can connect: {one.what}. {one.way_out}" for one in faults), "")
