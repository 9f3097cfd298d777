"""Who takes part in a run: which nodes are there, what they are called, who was asked how often."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from logging import INFO
from typing import Any

import numpy as np
from flwr.common import log
from flwr.serverapp import Grid

from fedkd_flwr.record.run_record import NOT_READY, Rejection
from fedkd_flwr.stores.checkpoints import Participations
from fedkd_flwr.strategies.reception import Reception, registered_names
from fedkd_flwr.strategies.waiting import Readiness, WatchedGrid, wait_for_nodes

__all__ = ["Roster"]


class Roster:
    """The nodes of a run.

    ``fraction``: share of the nodes that a round asks.
    ``fewest``: fewest valid replies a round needs; no round asks fewer.
    ``names``: party names by node id, where they are known before the first reply.
    ``nodes``: the nodes to ask, where somebody has waited for them already.
    ``readiness``: who asked the nodes before the first round whether they are ready.

    ``nodes``: the nodes that rounds may ask.
    ``asked_now``: those that the present round has asked.
    ``times_asked``: rounds each node was asked in: what it may have said.
    ``earlier``: those of the runs that this one continues.
    ``reception``: who may speak for which party.
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
        found = self.reception.silent(self.asked_now, heard)
        found += [self.reception.missing(node, code="offline") for node in self._offline]
        return found + self._not_ready()

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
