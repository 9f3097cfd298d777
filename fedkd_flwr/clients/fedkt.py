"""FedKT at a party: teachers on disjoint parts of the private rows, students on the public rows they labelled.

The other half, and the whole round, is `fedkd_flwr.strategies.fedkt`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.clients.base import LabelClient
from fedkd_flwr.clients.party import Answer, Finished, Instruction, ModelFactory, Party
from fedkd_flwr.errors import Note
from fedkd_flwr.labels import ABSTAIN, Ties, VoteCounter, majority

__all__ = ["FedKTClient"]

logger = logging.getLogger("flwr.party")


class FedKTClient(LabelClient):
    """Sends ``students_per_party`` label arrays on all public rows, once (FedKT, Algorithm 1, lines 1-13).

    Parameters
    ----------
    party : Party
        What it holds and allows. Its ``model`` is what it measures alone and fits on the final labels.
    teacher, student : callable, optional
        Make the teachers and the students; ``party.model`` where not given.
    """

    algorithm: ClassVar[str] = "fedkt"

    def __init__(
        self, party: Party, *, teacher: ModelFactory | None = None, student: ModelFactory | None = None
    ) -> None:
        super().__init__(party)
        self.teacher = teacher or party.model
        self.student = student or party.model

    def learn(self, instruction: Instruction) -> Answer:
        """Train s x t teachers and s students; return the students' labels."""
        students = instruction.integer("students-per-party", minimum=1)
        teachers = instruction.integer("teachers-per-student", minimum=1)
        subsets, notes = min(teachers, len(self.party.y)), []
        if subsets < teachers:
            logger.warning(
                "%s: rows must be >= teachers-per-student (%d), got %d. Going on with %d subsets of one row; "
                "lower teachers-per-student or leave this party out for better teachers.",
                self.party.name,
                teachers,
                len(self.party.y),
                subsets,
            )
            notes.append(Note.FEWER_SUBSETS)
        if len(np.unique(self.party.y)) == 1:
            logger.warning(
                "%s: private rows should hold >= 2 classes, got only %r. It will label every public row so; "
                "with informative-voters-only (the default) it casts no vote.",
                self.party.name,
                self.party.public.schema.classes[int(self.party.y[0])],
            )
            notes.append(Note.ONE_CLASS)
        labels = np.stack([self._student_labels(instruction, j, subsets) for j in range(students)])
        return Answer(labels=labels, notes=notes)

    def finish(self, instruction: Instruction) -> Finished:
        """Fit this party's own model on its rows and the public rows with their final labels."""
        party = self.party
        alone = party.model(seed=instruction.seed("model")).fit(party.X, party.y)
        if instruction.config.get("party-models") is False:
            return Finished(model=alone, solo=party.accuracies(alone), learnt=False)
        X, y = party.X, party.y
        if instruction.labels is not None and (labelled := instruction.labels != ABSTAIN).any():
            X = np.concatenate([X, party.public.X[labelled]])
            y = np.concatenate([y, instruction.labels[labelled]])
        model = party.model(seed=instruction.seed("model")).fit(X, y)
        return Finished(model=model, solo=party.accuracies(alone))

    def _student_labels(self, instruction: Instruction, student: int, subsets: int) -> NDArray[np.int16]:
        public = self.party.public
        counter = VoteCounter(num_public=public.num_rows, num_classes=public.num_classes)
        for k, part in enumerate(_cut(len(self.party.y), subsets, instruction.rng("cut", student))):
            teacher = self.teacher(seed=instruction.seed("teacher", student, k))
            counter.add(teacher.fit(self.party.X[part], self.party.y[part]).predict(public.X))
        ties: Ties = "lowest" if instruction.config.get("ties") == "lowest" else "random"
        voted = majority(counter.votes, ties=ties, rng=instruction.rng("ties", student))
        model = self.student(seed=instruction.seed("student", student))
        return model.fit(public.X, voted).predict(public.X)


def _cut(num_rows: int, subsets: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Cut a random permutation by position: no look at values, which level L2's guarantee rests on."""
    yield from np.array_split(rng.permutation(num_rows), subsets)
