"""Where replies are received: who may speak for which party, and whether what they say can be counted.

The first valid reply binds a party's name to its node. A second node with the same name, or a changed name, is
turned away: one silo speaking twice would break the vote, and every privacy claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from logging import WARN

from flwr.common import log

from fedkd_flwr.errors import Note, PayloadError
from fedkd_flwr.labels import Labels, PublicSpec, decode_labels, digest
from fedkd_flwr.payloads import Reply, Scalar
from fedkd_flwr.run_record import Rejection

__all__ = ["PartyLabels", "Reception"]


@dataclass(frozen=True, kw_only=True)
class PartyLabels:
    """One party's valid answer of one round.

    Parameters
    ----------
    party : str
        Its name.
    labels : ndarray of shape (num_arrays, num_public), int16
        Its label arrays.
    changed_share : float or None
        Share of labels it changed since its last valid answer.
    notes : tuple of str
        Codes it sent along.
    """

    party: str
    labels: Labels
    changed_share: float | None = None
    notes: tuple[str, ...] = ()


class Reception:
    """Checks replies one by one and remembers what each party's last valid one held.

    Parameters
    ----------
    spec : PublicSpec
        The public set labels must belong to.
    """

    def __init__(self, spec: PublicSpec) -> None:
        self.spec = spec
        self.party_of: dict[int, str] = {}  # node -> party
        self._node_of: dict[str, int] = {}
        self._held: dict[str, Labels] = {}  # party -> its last acknowledged arrays: the base of what changed
        self._last_round: dict[str, int] = {}

    def known(self, node: int) -> dict[str, Scalar]:
        """Return what a node is told about itself: its last acknowledged round, and the base held of it."""
        party = self.party_of.get(node, "")
        told: dict[str, Scalar] = {"last-round": self._last_round.get(party, 0)}
        if party in self._held:
            told["base"] = digest(self._held[party]).hex()
        return told

    def wrong_sender(self, reply: Reply) -> str:
        """Return why this node may not speak for this party, or ""."""
        if self.party_of.get(reply.node_id, reply.party) != reply.party:
            return "node-changed-name"
        if self._node_of.get(reply.party, reply.node_id) != reply.node_id:
            return "duplicate-name"
        return ""

    def accept(self, reply: Reply, *, server_round: int, num_arrays: int) -> PartyLabels | Rejection:
        """Return the label arrays of a valid reply, or why it is turned away."""
        base = self._held.get(reply.party)
        try:
            if code := reply.code or self.wrong_sender(reply):
                raise PayloadError(f"no valid answer: {code}", reason=code)
            if "labels" not in reply.arrays:
                raise PayloadError("no labels in the reply")
            labels = decode_labels(
                reply.arrays["labels"], public=self.spec, server_round=server_round, num_arrays=num_arrays, base=base
            )
        except PayloadError as error:
            party = reply.party or self.party_of.get(reply.node_id, "")
            log(WARN, "%s: %s", party or reply.node_id, error)
            return Rejection(party=party, node_id=str(reply.node_id), code=error.reason)
        self._node_of[reply.party], self.party_of[reply.node_id] = reply.node_id, reply.party
        changed = float((labels != base).mean()) if base is not None else None
        self._held[reply.party], self._last_round[reply.party] = labels, server_round
        said = str(reply.metrics.get("notes", ""))[:1000].split(",")
        notes = tuple(note.value for note in Note if note.value in said)
        return PartyLabels(party=reply.party, labels=labels, changed_share=changed, notes=notes)

    def silent(self, asked: Iterable[int], heard: set[int]) -> list[Rejection]:
        """Return a rejection for each node that was asked and did not answer."""
        return [self.missing(node, code="no-reply") for node in asked if node not in heard]

    def missing(self, node: int, *, code: str) -> Rejection:
        """Return a rejection for a node that said nothing."""
        return Rejection(party=self.party_of.get(node, ""), node_id=str(node), code=code)

    def unbound(self, reply: Reply) -> str:
        """Return why a node may not report at the end, or "": only parties that answered a round may."""
        return "" if self.party_of.get(reply.node_id) == reply.party else "node-changed-name"
