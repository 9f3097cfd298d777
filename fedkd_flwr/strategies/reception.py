"""Where replies are received: who may speak for which party, and whether what they say can be counted.

A name that was registered with a node's key (``flwr supernode register KEY --name NAME``) belongs to that node from
the start. Any other name is bound to its node by the first valid reply. A second node with the same name, or a changed
name, is turned away: one silo speaking twice would break the vote, and every privacy claim. A silo that was started
again without a registered key is a new node to Flower; it shows what its node secret gives in this run, as it did
before.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from logging import INFO, WARN
from typing import Any, TypeVar

from flwr.common import log

from fedkd_flwr.errors import Code, PartyNote, PayloadError
from fedkd_flwr.record.run_record import Rejection
from fedkd_flwr.wire.records import Reply

__all__ = ["PartyAnswer", "Reception", "believed_names", "notes_of", "registered_names"]

_PROOF = 64  # hexadecimal digits


@dataclass(frozen=True, kw_only=True)
class PartyAnswer:
    """One party's valid answer of one round; each kind of exchange adds what it carries."""

    party: str  # its name
    notes: tuple[str, ...] = ()  # codes it sent along


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

    >>> believed_names({1: "a", 2: "b", 3: "a"}, [])
    {2: 'b'}
    """
    registered, count = registered_names(nodes), Counter(said.values())
    taken = set(registered.values())
    return {n: name for n, name in said.items() if count[name] == 1 and name not in taken} | registered


Answered = TypeVar("Answered", bound=PartyAnswer)


class Reception:
    """Checks replies one by one and remembers when each party last gave a valid one."""

    def __init__(self) -> None:
        self.party_of: dict[int, str] = {}  # node -> party
        self.last_round: dict[str, int] = {}
        self.registered: dict[int, str] = {}  # node -> the name its key was registered under
        self.proofs: dict[str, str] = {}  # party -> what its node secret gives in this run
        self.earlier: dict[int, str] = {}  # node -> party, in the run that this one continues
        self.replaced: set[int] = set()  # nodes whose party has come back as another node
        self._node_of: dict[str, int] = {}
        self._said: dict[int, set[str]] = {}  # node -> the names that its replies carried: see `names_of`

    def named(self, reply: Reply) -> str:
        """Return the party that a reply which is turned away is written down under, "" for none.

        It is what the node is known as, and only then the name that the reply carries. A refusal under a name that
        another node has answered for is nobody's: else a node could write down refusals for others.
        """
        known = self.registered.get(reply.node_id) or self.party_of.get(reply.node_id, "")
        others = self._node_of.get(reply.party, reply.node_id) != reply.node_id
        return known or ("" if others and _is_refusal(reply) else reply.party)

    def turned_away(self, reply: Reply) -> str:
        """Return why a reply is no answer, or "": the node may not carry this name, or the reply came with a code."""
        if not reply.party:
            return reply.code
        if self.registered.get(reply.node_id, reply.party) != reply.party:
            return "not-its-name"
        if reply.party in self.registered.values() and reply.node_id not in self.registered:
            return "not-its-name"
        if self.party_of.get(reply.node_id, reply.party) != reply.party:
            return "node-changed-name"
        return reply.code

    def wrong_sender(self, reply: Reply, server_round: int | None = None) -> str:
        """Return why this node may not answer for this party, or ""; ``server_round``: and in this round."""
        node = reply.node_id
        bound = self._node_of.get(reply.party)
        if bound == node:
            return ""
        if bound is None and (
            reply.party not in self.proofs  # it has shown nothing in the run that this one continues
            or reply.party in (self.registered.get(node), self.earlier.get(node))
            or self._same_party(reply)
        ):
            return ""
        answered = server_round is not None and self.last_round.get(reply.party) == server_round
        if bound is None or answered or not self._same_party(reply):
            log(
                WARN,
                "%s: another node has spoken for it before, and this one does not show the same node secret. If "
                "it is the same silo started again, it must keep its state-dir, or have a registered node key.",
                reply.party,
            )
            return "duplicate-name"
        log(INFO, "%s is back, as another node: it showed the node secret of its state-dir", reply.party)
        self.party_of.pop(bound, None)
        self.replaced.add(bound)
        return ""

    def _same_party(self, reply: Reply) -> bool:
        """Tell whether a reply shows what the party of its name showed when it answered first."""
        known, shown = self.proofs.get(reply.party, ""), reply.metrics.get("node-proof")
        return bool(known) and isinstance(shown, str) and hmac.compare_digest(known.encode(), shown.encode())

    def accept(
        self, reply: Reply, read: Callable[[Reply, int], Answered], *, server_round: int
    ) -> Answered | Rejection:
        """Return what a valid reply holds, or why it is turned away.

        ``read(reply, server_round)`` opens what a reply carries; it raises `PayloadError` where it cannot be counted.
        """
        if reply.party and not (reply.node_id in self.registered and _is_refusal(reply)):
            self._said.setdefault(reply.node_id, set()).add(reply.party)
        try:
            if code := self.turned_away(reply) or self.wrong_sender(reply, server_round):
                raise PayloadError(f"no valid answer: {code}", reason=code)
            answer = read(reply, server_round)
        except PayloadError as error:
            party = self.named(reply)
            log(WARN, "%s: %s", party or reply.node_id, error)
            return Rejection(party=party, node_id=str(reply.node_id), code=error.reason)
        self._node_of[reply.party], self.party_of[reply.node_id] = reply.node_id, reply.party
        self.last_round[reply.party] = server_round
        if isinstance(shown := reply.metrics.get("node-proof"), str) and len(shown) == _PROOF:
            self.proofs.setdefault(reply.party, shown)
        return answer

    def names_of(self, node: int) -> Iterable[str]:
        """Return every party whose answers a node may have sent, also such as were turned away: they have been sent.

        That is the name its key was registered under, and every name that its replies carried. A refusal says nothing
        of a party, so one by a registered node under another name counts for nobody else.
        """
        return sorted(self._said.get(node, set()) | {self.registered.get(node, "")} - {""})

    def silent(self, asked: Iterable[int], heard: set[int]) -> list[Rejection]:
        """Return a rejection for each node that was asked and did not answer."""
        return [self.missing(node, code="no-reply") for node in asked if node not in heard]

    def missing(self, node: int, *, code: str) -> Rejection:
        """Return a rejection for a node that said nothing."""
        return Rejection(party=self.registered.get(node) or self.party_of.get(node, ""), node_id=str(node), code=code)

    def unbound(self, reply: Reply, *, known: bool = False) -> str:
        """Return why a node's report at the end is not taken, or "".

        Nodes may report that answered a round for the party, or show its node secret. A node that was ``known`` by that
        name before, by its own word, may where nobody else has answered for the party.
        """
        if code := self.turned_away(reply) or self.wrong_sender(reply):
            return code
        if self._node_of.get(reply.party) == reply.node_id or self._same_party(reply):
            return ""
        if reply.party in self.proofs:
            return "duplicate-name"
        return "" if known else "no-round-counted"


def _is_refusal(reply: Reply) -> bool:
    return reply.code in set(Code)


def notes_of(reply: Reply) -> tuple[str, ...]:
    """Return the known codes a reply sent along; anything else in their place is left out."""
    said = str(reply.metrics.get("notes", ""))[:1000].split(",")
    return tuple(note.value for note in PartyNote if note.value in said)
