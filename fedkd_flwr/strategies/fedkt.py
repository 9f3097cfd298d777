"""FedKT: one round of label exchange, after which the server holds a model it trained on public rows only.

Li, He, Song, "Practical One-Shot Federated Learning for Cross-Silo Setting", IJCAI 2021, Algorithm 1, at level L0
(no noise). The whole round:

    server   how many students and teachers                        -> every party
    party    t teachers on disjoint parts vote; s students learn their votes -> s label arrays on all public rows
    server   consistent vote -> consensus -> final model F          -> labels of the public rows -> every party

The paper uploads the students; here their labels on the public rows travel, which is all the server used of them.
Three departures: rows on which no party is consistent are left out of F's training set (the published code calls them
class 0), ties are broken at random, and the labels that go back are by models like F that were not trained on the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from logging import INFO
from typing import Any, ClassVar, Literal

import numpy as np
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels import (
    ABSTAIN,
    Labels,
    VoteCounter,
    consistent_labels,
    is_informative,
    majority,
)
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.payloads import Scalar
from fedkd_flwr.strategies.base import ExchangeConfig, LabelStrategy
from fedkd_flwr.strategies.reception import PartyLabels

__all__ = ["FedKT", "FedKTConfig"]

_FOLDS = 3


@dataclass(frozen=True, kw_only=True)
class FedKTConfig(ExchangeConfig):
    """Settings of FedKT.

    Parameters
    ----------
    students_per_party : int
        The paper's s: students, and label arrays, per party.
    teachers_per_student : int
        The paper's t: disjoint subsets, and teachers, per student.
    voting : {"consistent", "plain"}
        Count a party only where all its students agree (as published), or count every student.
    party_models : bool
        Whether parties fit models of their own on the final labels. The paper's result is the server's model alone.
    informative_voters_only : bool
        Leave parties out of the vote that give one class to every public row: off reproduces the paper.
    """

    students_per_party: int = 2
    teachers_per_student: int = 5
    voting: Literal["consistent", "plain"] = "consistent"
    informative_voters_only: bool = True
    party_models: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("students_per_party", "teachers_per_student"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not value >= 1:
                raise ConfigError(explain(name, "be a whole number >= 1", value))
        if self.voting not in ("consistent", "plain"):
            raise ConfigError(explain("voting", 'be "consistent" or "plain"', self.voting))


class FedKT(LabelStrategy):
    """One-shot federated learning by knowledge transfer. Further parameters as in `LabelStrategy`.

    Parameters
    ----------
    config : FedKTConfig, optional
        Settings.
    final_model : callable
        ``final_model(seed=...)`` returns the fresh model the server trains.
    test : (X, y), optional
        Rows to measure the final model on.

    Attributes
    ----------
    model : Classifier or None
        The final model F, after `start`.
    """

    algorithm: ClassVar[str] = "fedkt"

    def __init__(
        self,
        *args: Any,
        config: FedKTConfig | None = None,
        final_model: Callable[..., Classifier],
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        **keywords: Any,
    ) -> None:
        self.config = config if config is not None else FedKTConfig()
        super().__init__(*args, config=self.config, **keywords)
        self.final_model = final_model
        self.test = test
        self.model: Classifier | None = None
        self.votes: NDArray[np.int32] | None = None

    @property
    def arrays_per_party(self) -> int:
        """One label array per student."""
        return self.config.students_per_party

    def start(self, grid: Any, initial_arrays: Any = None, num_rounds: int = 1, *args: Any, **keywords: Any) -> Any:
        """Run the one round; see `LabelStrategy.start`.

        Raises
        ------
        ConfigError
            If ``num_rounds`` is not 1.
        """
        if num_rounds != 1:
            way_out = "FedKT is one-shot; use FedCT for several rounds."
            raise ConfigError(explain("num_rounds", "be 1 for FedKT", num_rounds, way_out))
        return super().start(grid, initial_arrays, num_rounds, *args, **keywords)

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return s and t."""
        return {
            "students-per-party": self.config.students_per_party,
            "teachers-per-student": self.config.teachers_per_student,
            "ties": self.config.ties,
            "party-models": self.config.party_models,
        }

    def combine(self, server_round: int, answers: Sequence[PartyLabels]) -> Labels:
        """Vote, train the final model on the public rows with a label, and return its labels of all of them."""
        voted = self._vote(answers)
        self.vote, labelled = voted, voted != ABSTAIN
        if not labelled.any():
            raise ConfigError(explain("consistent vote", "label at least one public row", 0, 'Set voting to "plain".'))
        if dropped := int((~labelled).sum()):
            self.record.notes.append(f"{dropped} public rows had no consistent party and train nothing.")
        model = self.final_model(seed=int(self.rng("final-model").integers(2**31)))
        log(INFO, "\tfitting the final model on %d public rows", int(labelled.sum()))
        self.model = model.fit(self.public.X[labelled], voted[labelled])
        if self.test is not None and len(self.test[1]):
            self.record.server_accuracy = float((self.model.predict(self.test[0]) == self.test[1]).mean())
            log(INFO, "\tfinal model: accuracy %.4f on common test rows", self.record.server_accuracy)
        labels = self.model.predict(self.public.X)
        return self._cross_fitted(labels, labelled, voted[labelled]) if self.config.party_models else labels

    def _cross_fitted(self, labels: Labels, labelled: NDArray[np.bool_], voted: Labels) -> Labels:
        """Relabel each row by a final model that was not trained on it.

        The final model itself reproduces the vote on the rows it was trained on, mistakes included.
        """
        rows = np.flatnonzero(labelled)
        fold = self.rng("folds").permutation(len(rows)) % _FOLDS
        for k in range(_FOLDS if len(rows) >= 2 * _FOLDS else 0):
            inside, outside = rows[fold != k], rows[fold == k]
            model = self.final_model(seed=int(self.rng("fold", k).integers(2**31)))
            labels[outside] = model.fit(self.public.X[inside], voted[fold != k]).predict(self.public.X[outside])
        return labels

    def _vote(self, answers: Sequence[PartyLabels]) -> Labels:
        voters = answers
        if self.config.informative_voters_only:
            voters = [a for a in answers if is_informative(a.labels)]
            if len(voters) < len(answers):
                left_out = len(answers) - len(voters)
                note = f"{left_out} of {len(answers)} parties label every public row alike and cast no vote."
                log(INFO, "\t%s", note)
                self.record.notes.append(note)
            voters = voters or answers
        counter = VoteCounter(num_public=self.spec.num_public, num_classes=self.spec.num_classes)
        for answer in voters:
            if self.config.voting == "consistent":
                counter.add(consistent_labels(answer.labels), weight=self.config.students_per_party)
            else:
                for labels in answer.labels:
                    counter.add(labels)
        self.votes = counter.votes
        self._note_classes(counter.class_voters)
        return majority(counter.votes, ties=self.config.ties, rng=self.rng("ties", 1))
