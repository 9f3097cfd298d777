"""A secret ballot, of one round: cellars send labels under noise, the server counts them. Ours but for four things.

fedkd_flwr.labels    what votes mean                      fedkd_flwr.wire     labels as a few bytes
fedkd_flwr.privacy   randomised response, and its cost    fedkd_flwr.stores   the ledger that remembers it
"""

from collections.abc import Iterable

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedkd_flwr.errors import PayloadError
from fedkd_flwr.labels import VoteCounter, majority
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import StoredReply
from fedkd_flwr.wire.label_codec import PublicSpec, decode_labels, encode_labels


class SecretBallot(Strategy):
    """Counts the cellars' labels, corrected for the noise; ``labels`` is what most of them say."""

    def __init__(self, public: PublicSpec, noise: RandomizedResponse) -> None:
        self.public, self.noise = public, noise
        self.labels: np.ndarray | None = None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every node."""
        asked = ConfigRecord({"round": server_round, "epsilon": self.noise.epsilon})
        content = RecordDict({"asked": asked})
        return [Message(content, dst_node_id=node, message_type="train") for node in sorted(grid.get_node_ids())]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Count the labels of each reply that can be read."""
        counter, count = VoteCounter(num_public=self.public.num_public, num_classes=self.public.num_classes), 0
        for reply in replies:
            try:
                payload = reply.content["ballot"]["labels"].numpy()
                counter.add(decode_labels(payload, public=self.public, server_round=server_round, num_arrays=1)[0])
                count += 1
            except (PayloadError, KeyError, ValueError) as error:  # an error has no content
                print(f"node {reply.metadata.src_node_id} is left out: {error}")
        true = self.noise.debias(counter.votes.astype(np.int64), count)
        self.labels = majority(true, ties="lowest")
        return ArrayRecord({"labels": Array(self.labels)}), MetricRecord({"ballots": count})

    def configure_evaluate(self, *args: object) -> Iterable[Message]:
        """Ask nothing more."""
        return []

    def aggregate_evaluate(self, *args: object) -> None:
        """Nothing was asked."""

    def summary(self) -> None:
        """Say what the noise is."""
        print(self.noise.words)


def ballot(labels: np.ndarray, message: Message, *, public: PublicSpec, ledger: LedgerStore, run_id: str) -> Message:
    """Return a reply with noisy labels: charged, and on the disk, before it leaves. Asked again, it is the same one."""
    asked = message.content["asked"]
    noise = RandomizedResponse(epsilon=float(asked["epsilon"]), num_classes=public.num_classes)
    payload = encode_labels(noise.privatize(labels), public=public, server_round=int(asked["round"]))
    reply = ledger.charge(
        run_id=run_id,
        server_round=int(asked["round"]),
        events=[(noise.dp_event(), len(labels))],
        reply=StoredReply(arrays={"labels": payload}),
        budget=Budget(epsilon=200.0),
        algorithm="secret-ballot",
        mechanism=noise.words,
        unit="party",
        adversary="server",
        neighbouring_relation="any change of the party's data",
    )
    return Message(RecordDict({"ballot": ArrayRecord({"labels": Array(reply.arrays["labels"])})}), reply_to=message)
