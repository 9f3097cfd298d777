"""FedMD, FedMD-NFDP and FedMD-LDP: parties learn from the average of their answers on a few public rows a round.

Li and Wang, "FedMD: Heterogenous federated learning via model distillation", 2019; Sun and Lyu, "Federated model
distillation with noise-free differential privacy", IJCAI 2021, Algorithm 1. The whole round t:

    server   averages of round t-1 on its rows (none in round 1); the rows of round t      -> every party
    party    first time: start from public labels (optional), T1 epochs on its own rows
             later: digest, T2 epochs on (rows of t-1, averages); revisit, T3 epochs on its own rows
             answer the rows of round t: logits | probabilities | labels                   -> reply
    server   mean in party-name order (labels: mean of one-hot)                            -> averages of round t
    end      the averages of the last round: digest, revisit (optional); each party keeps its own model

| variant | what makes it private | for whom | where |
|---|---|---|---|
| FedMD | nothing | nobody | - |
| FedMD-NFDP | a party learns from k rows, drawn once for ever | a record, add or remove | at the party |
| FedMD-LDP | noise on each row's answer; rows and rounds compose | a party | at the party |

Nets compare logits by L1 distance as FedMD's published code does, probabilities and mean labels by cross-entropy, and
keep their optimiser's state throughout. Learners that cannot continue are refitted on their own rows and the last
averages together. Departures: a party that joins late, or has lost its state, starts as in round 1 and then digests;
the rows of a round travel as a bitmap, in ascending order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fedkd_flwr.errors import check_choice, check_whole
from fedkd_flwr.strategies.score_exchange import SoftConfig, SoftStrategy
from fedkd_flwr.wire.records import Scalar

__all__ = ["FedMD", "FedMDConfig"]


@dataclass(frozen=True, kw_only=True)
class FedMDConfig(SoftConfig):
    """Settings of FedMD. Further parameters as in `SoftConfig`.

    Parameters
    ----------
    initial_epochs : int
        The paper's T1: passes over its own rows with which a party starts.
    digest_epochs : int
        T2: passes over the last round's public rows and averages.
    digest_batch : int
        Rows of a minibatch when digesting; revisiting takes the net's own batch size.
    revisit_epochs : int
        T3: passes over its own rows afterwards. 0: none.
    final_revisit : bool
        Whether that follows the very last digest too, as published: the net then leans to its own rows again, which
        is right where parties' rows differ in kind and costs accuracy where they differ by chance only.
    digest_order : {"digest-first", "revisit-first"}
        As published, or as a port of it has it.
    """

    initial_epochs: int = 20
    digest_epochs: int = 2
    digest_batch: int = 64
    revisit_epochs: int = 1
    final_revisit: bool = True
    digest_order: Literal["digest-first", "revisit-first"] = "digest-first"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("initial_epochs", self.initial_epochs, 1)
        check_whole("digest_epochs", self.digest_epochs, 1)
        check_whole("digest_batch", self.digest_batch, 1)
        check_whole("revisit_epochs", self.revisit_epochs, 0)
        check_choice("final_revisit", self.final_revisit, (True, False))
        check_choice("digest_order", self.digest_order, ("digest-first", "revisit-first"))


class FedMD(SoftStrategy):
    """Federated model distillation. Parameters as in `SoftStrategy`.

    After `start`: ``record``, and ``average`` with ``average_rows``: the last round's averages.
    """

    algorithm: ClassVar[str] = "fedmd"

    def __init__(self, *args: Any, config: FedMDConfig | None = None, **keywords: Any) -> None:
        self.config = config if config is not None else FedMDConfig()
        super().__init__(*args, config=self.config, **keywords)

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return T1, T2, T3 and their order beside what every exchange of scores says."""
        return {
            **super().instruction(server_round),
            "initial-epochs": self.config.initial_epochs,
            "digest-epochs": self.config.digest_epochs,
            "digest-batch": self.config.digest_batch,
            "revisit-epochs": self.config.revisit_epochs,
            "final-revisit": self.config.final_revisit,
            "digest-order": self.config.digest_order,
        }
