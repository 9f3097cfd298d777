"""FedKT: one round of label exchange, after which the server holds a model it trained on public rows only.

Li, He, Song, "Practical One-Shot Federated Learning for Cross-Silo Setting", IJCAI 2021, Algorithm 1, at its three
levels of privacy. The whole round:

    server   how many students and teachers, which public rows are asked   -> every party
    party    t teachers on disjoint parts vote (L2: noise on their votes);
             s students learn the votes -> s label arrays on all public rows
    server   consistent vote (L1: noise on it) -> final model F            -> labels of the public rows -> every party

| level | noise | protects | against |
|---|---|---|---|
| L0 | none | nobody | nobody |
| L1 | at the server | each party | everyone who sees the result; the server is trusted |
| L2 | at the party | each record | the server too |

The paper uploads the students; here their labels on the public rows travel, which is all the server used of them.
Departures: at L0 rows on which no party is consistent are left out of F's training set (the published code calls them
class 0), ties are broken at random, a party that labels every row alike casts half its votes, the labels that go back
are by models like F that were not trained on the row, and at L2 F learns from all public rows: the students' labels
cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels import VoteCounter, consistent_labels
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.claims.claim import PrivacyClaim, noisy_max_at_party
from fedkd_flwr.privacy.noise.plan import NoisyVotes
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, LaplaceMax
from fedkd_flwr.strategies.base import Stage
from fedkd_flwr.strategies.label_exchange import PartyLabels
from fedkd_flwr.strategies.one_shot_vote import ServerModelConfig, ServerModelStrategy
from fedkd_flwr.wire.records import Scalar

__all__ = ["FedKT", "FedKTConfig"]

Level = Literal["L0", "L1", "L2"]


@dataclass(frozen=True, kw_only=True)
class FedKTConfig(ServerModelConfig):
    """Settings of FedKT. Further parameters as in `ServerModelConfig`.

    Parameters
    ----------
    level : {"L0", "L1", "L2"}
        No noise; noise on the vote at the server; noise on the teachers' votes at each party.
    students_per_party : int
        The paper's s: students, and label arrays, per party. 0: 2 at L0, 1 at L1 and L2, where s multiplies the cost.
    teachers_per_student : int
        The paper's t: disjoint subsets, and teachers, per student. 0: 5, and 25 at L2.
    voting : {"consistent", "plain"}
        Count a party only where all its students agree (as published), or count every student.
    """

    level: Level = "L0"
    students_per_party: int = 0
    teachers_per_student: int = 0
    voting: Literal["consistent", "plain"] = "consistent"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.level not in ("L0", "L1", "L2"):
            raise ConfigError(explain("level", "be L0, L1 or L2", self.level))
        for name in ("students_per_party", "teachers_per_student"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not value >= 0:
                raise ConfigError(explain(name, "be a whole number >= 1, or 0 for the level's default", value))
        if self.voting not in ("consistent", "plain"):
            raise ConfigError(explain("voting", 'be "consistent" or "plain"', self.voting))
        if (self.level == "L0") != (self.noise == "none"):
            way_out = 'Set noise to "gaussian" or "laplace" at L1 and L2, and to "none" at L0.'
            raise ConfigError(explain("noise", f"fit level {self.level}", self.noise, way_out))
        if self.level == "L1" and self.voting == "plain" and self.students > 1:
            way_out = 'Use voting "consistent", or one student per party.'
            raise ConfigError(explain("voting", "be consistent at L1 with several students", "plain", way_out))

    @property
    def students(self) -> int:
        """s, the level's default resolved."""
        return self.students_per_party or (2 if self.level == "L0" else 1)

    @property
    def teachers(self) -> int:
        """t, the level's default resolved."""
        return self.teachers_per_student or (25 if self.level == "L2" else 5)


class FedKT(ServerModelStrategy):
    """One-shot federated learning by knowledge transfer. Parameters as in `ServerModelStrategy`.

    Attributes
    ----------
    model : Classifier or None
        The final model F, after `start`.
    """

    algorithm: ClassVar[str] = "fedkt"

    def __init__(
        self, *args: Any, config: FedKTConfig | None = None, final_model: Callable[..., Classifier], **keywords: Any
    ) -> None:
        self.config = config if config is not None else FedKTConfig()
        super().__init__(*args, config=self.config, final_model=final_model, **keywords)

    @property
    def arrays_per_party(self) -> int:
        """One label array per student."""
        return self.config.students

    @property
    def votes_per_party(self) -> int:
        """A consistent party casts s votes."""
        return self.config.students

    @property
    def privacy(self) -> Literal["none", "server", "party"]:
        """Where the level puts the noise."""
        where: dict[Level, Literal["none", "server", "party"]] = {"L0": "none", "L1": "server", "L2": "party"}
        return where[self.config.level]

    @property
    def server_plan(self) -> NoisyVotes | None:
        """Noise on the vote: level L1 alone."""
        return super().server_plan if self.config.level == "L1" else None

    @cached_property
    def party_plan(self) -> NoisyVotes:
        """Noise on one partition's teachers, at level L2: a record sits with one teacher of each partition."""
        return self.config.plan(votes=1, num_public=self.spec.num_public, times=self.config.students)

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Name the rows teachers are asked about, at level L2."""
        arrays = super().outgoing(stage, server_round)
        if stage == "fit" and self.config.level == "L2":
            arrays["indices"] = self.queries.astype(np.int32)
        return arrays

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return s and t and, at level L2, the noise."""
        settings: dict[str, Scalar] = {
            **super().instruction(server_round),
            "students-per-party": self.config.students,
            "teachers-per-student": self.config.teachers,
            "ties": self.config.ties,
        }
        if self.config.level != "L2":
            return settings
        plan = self.party_plan
        mechanism = plan.mechanism
        settings |= {
            "noise": self.config.noise,
            "num-queries": plan.num_queries,
            "max-answers": plan.max_answers,
            "release": plan.release,
            "self-training": self.config.unqueried == "self-training",
        }
        if isinstance(mechanism, LaplaceMax):
            return settings | {"gamma": mechanism.gamma}
        settings |= {"sigma": mechanism.sigma}
        if isinstance(mechanism, ConfidentGaussianMax):
            settings |= {"threshold": mechanism.threshold, "sigma-threshold": mechanism.sigma_threshold}
        return settings

    def count(self, counter: VoteCounter, answer: PartyLabels, weight: int) -> None:
        """Count a party's students: together where they agree, or each of them."""
        if self.config.voting == "consistent":
            counter.add(consistent_labels(answer.labels), weight=weight * self.config.students)
        else:
            for labels in answer.labels:
                counter.add(labels, weight=weight)

    def claim(self) -> list[PrivacyClaim]:
        """Return the claims of the level; none at L0."""
        if self.config.level == "L1":
            return self.server_claims()
        if self.config.level == "L2" and self.times_asked:
            plan = self.party_plan
            claims = noisy_max_at_party(
                plan.mechanism,
                num_queries=plan.num_queries,
                delta=self.config.delta,
                teachers=self.config.teachers,
                partitions=self.config.students,
                num_parties=len(self.times_asked),
                max_answers=plan.max_answers,
                released=plan.release,
            )
            return list(claims)
        return []
