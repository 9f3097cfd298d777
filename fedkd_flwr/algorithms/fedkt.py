"""FedKT's settings at its three levels of privacy, and its card. The vote is `one_shot_vote`'s.

Li, He, Song, "Practical One-Shot Federated Learning for Cross-Silo Setting", IJCAI 2021, Algorithm 1. The whole round
is told in `fedkd_flwr.strategies.fedkt`.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from fedkd_flwr.algorithms.card import Card, Privacy, setting
from fedkd_flwr.algorithms.one_shot_vote import OneShotVoteConfig, fit_pooled
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.privacy.noise.plan import NoisyVotes, QuietVotes

__all__ = ["CARD", "FedKTConfig"]

_WHERE: dict[str, Privacy] = {"L0": "none", "L1": "server", "L2": "party"}


class FedKTConfig(OneShotVoteConfig):
    """Settings of FedKT."""

    section: ClassVar[str] = "fedkt"

    level: Literal["L0", "L1", "L2"] = setting("L0", told=True, first=True)
    """Whom FedKT's noise protects. L0: nobody, no noise. L1: parties, by noise on the vote at the server. L2: records,
    by noise on the votes of a party's teachers."""
    students_per_party: int = setting(0, ge=0, le=100, told=True, zero="auto")
    """FedKT's s: students, and label arrays, per party. auto: 2 at L0, and 1 at L1 and L2, where s multiplies the
    cost."""
    teachers_per_student: int = setting(0, ge=0, le=1000, told=True, zero="auto")
    """FedKT's t: disjoint subsets of a party's rows, and teachers, per student. auto: 1 at L0, where subsets prove
    nothing; 5 at L1, and 25 at L2."""

    @property
    def privacy(self) -> Privacy:
        """Where the level puts the noise."""
        return _WHERE[self.level]

    @property
    def students(self) -> int:
        """s, the level's default resolved."""
        return self.students_per_party or (2 if self.level == "L0" else 1)

    @property
    def teachers(self) -> int:
        """t, the level's default resolved."""
        return self.teachers_per_student or {"L0": 1, "L1": 5, "L2": 25}[self.level]

    @property
    def votes_per_party(self) -> int:
        """A consistent party casts s votes."""
        return self.students

    def check(self) -> None:
        """Refuse a noise that does not fit the level."""
        keys = self.keys()
        # before the base class, which sees no noise at L0 and would advise to choose one
        if self.level == "L0" and self.noise != "none":
            way_out = f"Noise needs {keys['level']}=L1 or L2; L0, the default, has none."
            raise ConfigError(explain(keys["noise"], "fit level L0", self.noise, way_out))
        super().check()
        if self.level != "L0" and self.noise == "none":
            way_out = 'Set noise to "gaussian" or "laplace" at L1 and L2.'
            raise ConfigError(explain(keys["noise"], f"fit level {self.level}", self.noise, way_out))

    def party_plan(self, num_public: int, num_classes: int) -> NoisyVotes | QuietVotes:
        """Return what is done to the votes of one student's teachers: at level L2 a record sits with one of them."""
        if self.level != "L2":
            return QuietVotes(num_queries=num_public, ties=self.ties)
        return self.plan(votes=1, num_public=num_public, num_classes=num_classes, times=self.students)

    def resolved(self, *, num_public: int, num_classes: int, num_rounds: int) -> Self:
        """Return these settings as parties are told them: s, t and, at level L2, the noise found.

        At level L1 the noise is the server's own affair, and parties do what they do at L0.
        """
        counts = {"students_per_party": self.students, "teachers_per_student": self.teachers}
        plan = self.party_plan(num_public, num_classes)
        if not plan.adds_noise:
            return self.changed(**self.quiet(), **counts, level="L0")
        strength = getattr(plan.mechanism, "gamma" if self.noise == "laplace" else "sigma")
        return self.changed(**counts, noise_strength=strength, epsilon=0.0, num_queries=plan.num_queries)


CARD = Card(
    name="fedkt",
    title="FedKT",
    paper='Li, He, Song, "Practical One-Shot Federated Learning for Cross-Silo Setting", IJCAI 2021',
    config=FedKTConfig,
    strategy="fedkd_flwr.strategies.fedkt:FedKT",
    client="fedkd_flwr.clients.fedkt:FedKTClient",
    sends="labels",
    default_rounds=1,
    one_shot=True,
    noise=("server", "party"),
    allowed=True,
    roles=("teacher", "student", "final"),
    train_pooled=fit_pooled,
)
