"""Messages as they leave: one for each party, with what the round sends and what this party alone is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import Array, ConfigRecord, Message

from fedkd_flwr.strategies.exchange import Exchange, Stage
from fedkd_flwr.wire.records import array_bytes, instruction_record

__all__ = ["Outbox"]


class Outbox:
    """Makes the messages of a run.

    ``exchange``: the algorithm, which says what is sent.
    """

    def __init__(self, exchange: Exchange[Any]) -> None:
        self.exchange = exchange
        # Message class; LegacyStrategy replaces it, because Flower's old API has no task context
        self.envelope: Callable[..., Any] = Message

    def messages(
        self, stage: Stage, server_round: int, nodes: Iterable[int], config: ConfigRecord
    ) -> tuple[list[Message], int]:
        """Return a message for each node, and how many bytes their arrays have."""
        at, roster = self.exchange, self.exchange.roster
        # made once: equal bytes are shared, in memory and on the wire; the records around them are fresh for each party
        arrays = {name: Array(array) for name, array in at.outgoing(stage, server_round).items()}
        more: dict[str, Array] | None = None
        settings: dict[str, Any] = {
            **config,
            **at.settings(server_round),
            **at.checkpoints.told(),
            "server-round": server_round,
            "rounds-left": at.rounds_left(server_round),
            "fingerprint": at.spec.fingerprint,
        }
        messages, num_bytes = [], 0
        for node in nodes:
            last_round = roster.reception.last_round.get(roster.name_of(node), 0)
            behind = last_round < (server_round if stage == "evaluate" else server_round - 1)
            if behind and more is None:
                more = {name: Array(array) for name, array in at.catching_up(stage, server_round).items()}
            sent = {**arrays, **(more or {})} if behind else arrays
            content = instruction_record(sent, {**settings, "last-round": last_round, **at.told(node, server_round)})
            num_bytes += array_bytes(content.array_records["arrays"])
            kind, group = "train" if stage == "fit" else "evaluate", str(server_round)
            messages.append(self.envelope(content, dst_node_id=node, message_type=kind, group_id=group))
        return messages, num_bytes
