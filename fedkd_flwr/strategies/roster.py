"""Who takes part in a run: which nodes are there, who may speak for which party, who was asked how often."""

from __future__ import annotations

import hmac
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from logging import INFO, WARN
from typing import Any

import numpy as np
from flwr.common import log
from flwr.serverapp import Grid

from fedkd_flwr.errors import Code, PayloadError
from fedkd_flwr.record.run_record import NOT_READY, Rejection
from fedkd_flwr.stores.checkpoints import Participations
from fedkd_flwr.strategies.waiting import Readiness, WatchedGrid, registered_names, wait_for_nodes
from fedkd_flwr.wire.records import Reply

__all__ = ["Reception", "Roster"]

_PROOF = 64  # hexadecimal digits


class Roster:
    """The nodes of a run.

    ``fraction``, ``fewest``: share of the nodes that a round asks, and the fewest valid replies that it needs.
    ``names``, ``readiness``: party names by node id, where they are known; who asked the nodes whether they are ready.

    ``nodes``, ``asked_now``: those that rounds may ask, and that the present round has asked.
    ``times_asked``, ``earlier``: rounds each node was asked in, now and in the runs that this one continues.
    """

    def __init__(
        self,
        *,
        fraction: float = 1.0,
        fewest: int = 2,
        names: Mapping[int, str] | None = None,
        nodes: Sequence[int] = (),
        readiness: Readiness | None = None,
    ) -> None:
        self.fraction, self.fewest, self.readiness = fraction, fewest, readiness
        self.names = {**(names or {}), **(readiness.believed() if readiness is not None else {})}
        self.nodes = list(nodes)
        self.asked_now: list[int] = []
        self.times_asked: Counter[int] = Counter()
        self.earlier = Participations()
        self.reception = Reception()
        self._seen: set[int] = set()  # nodes that there were before or in an earlier round
        self._offline: list[int] = []

    # ---------------------------------------------------------------- who is there

    def wait(self, grid: Grid, *, wanted: int, settle_s: float, deadline_s: float) -> None:
        """Wait for the nodes, where nobody has done so."""
        self.nodes = self.nodes or wait_for_nodes(
            grid, wanted=wanted, minimum=self.fewest, settle_s=settle_s, deadline_s=deadline_s
        )

    def look(self, grid: Grid, *, latecomers: bool) -> set[int]:
        """Return the nodes that are there; with ``latecomers``, those that came late may be asked from now on."""
        now, gone = set(grid.get_node_ids()), self.reception.replaced
        late = sorted(now - self._seen) if self._seen and latecomers else []
        if late:
            log(INFO, "%d nodes have come since the last round; they are asked too", len(late))
        self._seen |= now | set(self.nodes)
        self.nodes = [*(node for node in self.nodes if node not in gone), *late]
        if self.readiness is not None and latecomers:
            left_out = [node for node in sorted(now & self.readiness.codes.keys()) if node not in self.nodes]
            self.nodes += self._ask_again(self.readiness, left_out)
        self.reception.registered = registered_names(WatchedGrid(grid).get_nodes())
        return now

    def ask(self, nodes: list[int], here: Iterable[int]) -> None:
        """Note that a round asks these nodes, and which of the others are not there."""
        self.asked_now = nodes
        self.times_asked.update(nodes)
        self._offline = [node for node in self.nodes if node not in here and node not in nodes]

    def sample(self, nodes: Iterable[int], fraction: float, rng: np.random.Generator) -> list[int]:
        """Return a share of the nodes, by party name where it is known: node ids are drawn anew in every run."""
        nodes = self.in_order(nodes)
        if fraction == 1.0 or not any(self.name_of(node) for node in nodes):
            return nodes
        count = max(self.fewest, math.ceil(fraction * len(nodes)))
        return [nodes[i] for i in sorted(rng.permutation(len(nodes))[:count])]

    def in_order(self, nodes: Iterable[int]) -> list[int]:
        """Return nodes in the order of their parties' names."""
        return sorted(nodes, key=lambda node: (self.name_of(node), node))

    def missing(self, heard: set[int]) -> list[Rejection]:
        """Return who did not answer the present round: silent, not there, or not ready."""
        codes = dict.fromkeys((node for node in self.asked_now if node not in heard), "no-reply")
        codes |= dict.fromkeys(self._offline, "offline")
        return [self.reception.missing(node, code=code) for node, code in codes.items()] + self._not_ready()

    def _ask_again(self, readiness: Readiness, nodes: Sequence[int]) -> list[int]:
        """Ask nodes whether they are ready; return who says so, and learn the names of all that have answered."""
        ready = readiness.ask(nodes, at_once=True)  # a round is pause enough
        self.names = {**readiness.believed(), **self.names}
        return ready

    def _not_ready(self) -> list[Rejection]:
        if self.readiness is None:
            return []
        self._ask_again(self.readiness, ())  # also answers that came after the wait
        return [
            Rejection(party=self.name_of(node), node_id=str(node), code=f"{NOT_READY}{code}")
            for node, code in sorted(self.readiness.codes.items())
            if node not in self.nodes
        ]

    # ---------------------------------------------------------------- who they are, and what they were asked

    def name_of(self, node: int) -> str:
        """Return the party a node speaks for, "" where that is not known yet."""
        return self.reception.party_of.get(node) or self.names.get(node, "")

    @property
    def asked(self) -> Participations:
        """Rounds each party was asked in: what it may have sent, whether or not it was counted.

        A party that speaks from several nodes was asked by each of them (`Reception.names_of`). A node that never named
        its party counts as a party of its own.
        """
        names = {node: self.reception.names_of(node) or [self.name_of(node)] for node in self.times_asked}
        return self.earlier.plus((name, self.times_asked[node]) for node, said in names.items() for name in said)

    @property
    def num_asked(self) -> int:
        """How many parties were asked, over this run and those it continues, at most."""
        return max(len(self.asked.by_party), len(self.times_asked))

    def remembered(self) -> dict[str, Any]:
        """Return what a run that continues this one must know of the nodes, as plain JSON values."""
        at = self.reception
        nodes = [[str(node), party] for node, party in at.party_of.items()]
        return {"last_round": at.last_round, "nodes": nodes, "proofs": at.proofs}

    def remember(self, plain: Mapping[str, Any]) -> None:
        """Take up what `remembered` returned. A node that is still there is called by its name before it answers."""
        self.reception.last_round.update(plain["last_round"])
        self.reception.proofs.update(plain["proofs"])
        self.reception.earlier = {int(node): party for node, party in plain["nodes"]}
        self.names = {**self.reception.earlier, **self.names}


class Reception:
    """Who may speak for which party, and when each last gave a valid answer.

    A name that was registered with a node's key (``flwr supernode register KEY --name NAME``) belongs to that node from
    the start. Any other name is bound to its node by the first valid reply. A second node with the same name, or a
    changed name, is turned away: one silo speaking twice would break the vote, and every privacy claim. A silo that was
    started again without a registered key is a new node to Flower; it shows what its node secret gives in this run, as
    it did before.
    """

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
            words = (
                "%s: another node has spoken for it before, and this one does not show the same node secret. If "
                "it is the same silo started again, it must keep its state-dir, or have a registered node key."
            )
            log(WARN, words, reply.party)
            return "duplicate-name"
        log(INFO, "%s is back, as another node: it showed the node secret of its state-dir", reply.party)
        self.party_of.pop(bound, None)
        self.replaced.add(bound)
        return ""

    def _same_party(self, reply: Reply) -> bool:
        """Tell whether a reply shows what the party of its name showed when it answered first."""
        known, shown = self.proofs.get(reply.party, ""), reply.metrics.get("node-proof")
        return bool(known) and isinstance(shown, str) and hmac.compare_digest(known.encode(), shown.encode())

    def admit(self, reply: Reply, server_round: int) -> None:
        """Raise `PayloadError` where this node may not answer for this party in a round, or sent a code and no answer.

        What is said is not looked at here: the ``reply`` comes without its arrays (`fedkd_flwr.strategies.exchange`).
        """
        if reply.party and not (reply.node_id in self.registered and _is_refusal(reply)):
            self._said.setdefault(reply.node_id, set()).add(reply.party)
        if code := self.turned_away(reply) or self.wrong_sender(reply, server_round):
            raise PayloadError(f"no valid answer: {code}", reason=code)

    def bind(self, reply: Reply, server_round: int) -> None:
        """Remember who gave a valid answer."""
        self._node_of[reply.party], self.party_of[reply.node_id] = reply.node_id, reply.party
        self.last_round[reply.party] = server_round
        if isinstance(shown := reply.metrics.get("node-proof"), str) and len(shown) == _PROOF:
            self.proofs.setdefault(reply.party, shown)

    def names_of(self, node: int) -> Iterable[str]:
        """Return every party whose answers a node may have sent, also such as were turned away: they have been sent.

        That is the name its key was registered under, and every name that its replies carried. A refusal says nothing
        of a party, so one by a registered node under another name counts for nobody else.
        """
        return sorted(self._said.get(node, set()) | {self.registered.get(node, "")} - {""})

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
