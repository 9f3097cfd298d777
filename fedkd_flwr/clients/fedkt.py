"""FedKT at a party: teachers on disjoint parts of the private rows, students on the public rows they labelled.

The other half, and the whole round, is `fedkd_flwr.strategies.fedkt`. At level L2 noise on the teachers' votes makes
all that leaves private for each record: the students see public rows and noisy answers only, so their labels of all
public rows cost nothing more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.fedkt import CARD, FedKTConfig
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.exchange import with_beside
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.one_shot_vote import OneShotVoteClient
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.errors import PartyNote, PayloadError, RefusalError, explain
from fedkd_flwr.files import packed, unpacked
from fedkd_flwr.labels import ABSTAIN, VoteCounter, check_labels
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.models.classifier import Classifier, classifiers
from fedkd_flwr.models.taught import teach
from fedkd_flwr.privacy.noise.plan import NoisyVotes, QuietVotes

__all__ = ["FedKTClient"]

logger = logging.getLogger("flwr.party")

_LEAST_S = 0.1  # for a teacher: starting its process takes half of that beside it, which nobody's limit counts


class FedKTClient(OneShotVoteClient):
    """Sends ``students_per_party`` label arrays on all public rows, once (FedKT, Algorithm 1, lines 1-13).

    ``party``: what it holds and allows. Its ``model`` is what it measures alone and fits on the final labels.
    ``teacher``, ``student``, optional: make the teachers and the students; ``party.model`` where not given.
    ``noise_rng``, optional: for tests: seeded noise protects nothing.
    """

    card = CARD

    def __init__(
        self,
        party: Party,
        *,
        teacher: ModelFactory | None = None,
        student: ModelFactory | None = None,
        noise_rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(party, noise_rng=noise_rng)
        self.teacher, self.student = (
            classifiers(make, party.public.num_classes) if make else party.model for make in (teacher, student)
        )

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse rows to ask that do not exist, or are not as many as the noise was planned for; too many teachers."""
        rows, plan = instruction.rows(self.party.public.num_rows), self._plan(instruction)
        if not final and plan.adds_noise and len(rows) != plan.num_queries:
            raise PayloadError(explain("indices", f"be {plan.num_queries}, as num-queries", len(rows)))
        seconds = getattr(self.party.apart, "seconds", 0.0)
        teachers = instruction.config.students * instruction.config.teachers
        if not final and plan.adds_noise and 0 < seconds < 2 * teachers * _LEAST_S:
            rule = f"leave each teacher {_LEAST_S} s of half of round-limit-s ({seconds:g} s)"
            way_out = "Ask for fewer, or let the owner of this node raise round-limit-s."
            raise RefusalError(explain("students-per-party times teachers-per-student", rule, teachers, way_out))

    def learn(self, instruction: Instruction) -> Answer:
        """Train s x t teachers and s students; return the students' labels."""
        students, teachers = instruction.config.students, instruction.config.teachers
        subsets, notes = min(teachers, self.party.num_rows), []
        if subsets < teachers:
            words = (
                "%s: rows must be >= teachers-per-student (%d), got %d. Going on with %d subsets of one row; "
                "lower teachers-per-student or leave this party out for better teachers."
            )
            logger.warning(words, self.party.name, teachers, self.party.num_rows, subsets)
            notes.append(PartyNote.FEWER_SUBSETS)
        if len(np.unique(self.party.y)) == 1:
            words = (
                "%s: private rows should hold >= 2 classes, got only %r. It will label every public row so; "
                "unless paper.one-class-voters is count its votes weigh less."
            )
            logger.warning(words, self.party.name, self.party.public.schema.classes[int(self.party.y[0])])
            notes.append(PartyNote.ONE_CLASS)
        probs = None
        if instruction.rule in self.party.allow and RULES[instruction.rule].of_model:
            if self.party.public.schema.class_shares:  # of drawn rows one model of all own rows knows more
                model = self._teacher(np.arange(self.party.num_rows), instruction.seed("model"))
                probs = model.predict_proba(self.party.public.X)
            else:
                probs = np.mean([self._student_probs(instruction, j, subsets) for j in range(students)], axis=0)
            labels = np.repeat(probs.argmax(axis=1)[None].astype(np.int16), students, axis=0)
        else:
            labels = np.stack([self._student_labels(instruction, j, subsets) for j in range(students)])
        answer = Answer(values={"labels": labels}, notes=notes)
        return with_beside(answer, self.party, instruction, make=self.teacher, own_probs=probs)

    def fixed(self, instruction: Instruction) -> Answer:
        """Return the labels of students whose teachers all failed: noise is what they learn from, at level L2."""
        students = range(instruction.config.students)
        return Answer(values={"labels": np.stack([self._student_labels(instruction, j, 0) for j in students])})

    def charge(self, instruction: Instruction) -> Charge | None:
        """Return what level L2's noisy votes cost: one record sits with one teacher of each student."""
        plan = self._plan(instruction)
        if not plan.adds_noise:
            return None
        students = instruction.config.students
        relation = "replace one record, number of records public"
        words = f"{plan.words}, for each of {students} students"
        return Charge(events=plan.events(times=students), mechanism=words, neighbouring_relation=relation)

    def asks(self, instruction: Instruction) -> Mapping[str, int]:
        """Return how many rows level L2 asks about, and of how many students and teachers: 0 stands for a default."""
        config, plan = instruction.config, self._plan(instruction)
        keys = config.keys()
        found = {keys["students_per_party"]: config.students, keys["teachers_per_student"]: config.teachers}
        return {**found, keys["num_queries"]: plan.num_queries} if plan.adds_noise else found

    def in_one_piece(self, instruction: Instruction) -> bool:
        """Tell that at level L2 each teacher is ended alone: a record must move no vote but its own teacher's."""
        return not self._plan(instruction).adds_noise

    def _labels(
        self, who: str, work: Callable[[], NDArray[np.int16]], instruction: Instruction, *, pieces: int, count: int
    ) -> NDArray[np.int16]:
        """Return the ``count`` labels that one of so many equal pieces of the work makes.

        Beside a claim a piece is ended alone, and one that fails labels every row with the lowest class: a record still
        moves one vote a row, whatever becomes of its teacher, and the reply has its size whatever becomes of a student.
        """
        if self.in_one_piece(instruction):
            return work()
        try:
            # half the time is the teachers', half the students'; what one takes is never lent to another
            apart = self.party.apart
            if apart is None:
                labels = work()
            else:
                labels = unpacked(apart(lambda: packed({"labels": work()}, {}), parts=2 * pieces))[0]["labels"]
            return check_labels(labels, num_rows=count, num_classes=self.party.public.num_classes)
        except Exception:
            logger.exception("%s: %s failed; its labels are the lowest class", self.party.name, who)
            return np.zeros(count, dtype=np.int16)

    def _plan(self, instruction: Instruction) -> NoisyVotes | QuietVotes:
        """Return what is done to the teachers' votes."""
        return _party_plan(instruction.config, self.party.public.num_rows, self.party.public.num_classes)

    def _student_labels(self, instruction: Instruction, student: int, subsets: int) -> NDArray[np.int16]:
        public, plan = self.party.public, self._plan(instruction)
        rows = instruction.rows(public.num_rows)
        asked = public.X if len(rows) == public.num_rows else public.X[rows]
        counter = VoteCounter(num_public=len(rows), num_classes=public.num_classes)
        # rows are split by position, so each record reaches one teacher per student; the permutation may be public
        config: FedKTConfig = instruction.config
        for k, part in enumerate(_cut(self.party.num_rows, subsets, instruction.rng("cut", student))):
            own, seed = self.party.rows_in(part), instruction.seed("teacher", student, k)
            teach_one = partial(lambda own, seed: self._teacher(own, seed).predict(asked), own, seed)
            pieces = config.students * config.teachers
            counter.add(self._labels(f"teacher {k}", teach_one, instruction, pieces=pieces, count=len(rows)))
        for _ in range(config.teachers - subsets if plan.adds_noise else 0):
            counter.add(np.zeros(len(rows), dtype=np.int16))
        rng = self.noise_rng if plan.adds_noise else instruction.rng("ties", student)
        answers = plan.ask(counter.votes, rng=rng)
        if not (answers.labels != ABSTAIN).any():  # every answer fell below the threshold
            return np.zeros(public.num_rows, dtype=np.int16)
        seed = instruction.seed("student", student)

        def learnt() -> NDArray[np.int16]:
            model = teach(lambda: self.student(seed=seed), public.X, rows, answers.labels, answers.counts)
            return model.predict(public.X)

        return self._labels(f"student {student}", learnt, instruction, pieces=config.students, count=public.num_rows)

    def _student_probs(self, instruction: Instruction, student: int, subsets: int) -> NDArray[np.float64]:
        """Return what a student says of each public row that learnt its teachers' mean probabilities: without noise."""
        public, every = self.party.public, np.arange(self.party.public.num_rows)
        taught = np.zeros((public.num_rows, public.num_classes))
        for k, part in enumerate(_cut(self.party.num_rows, subsets, instruction.rng("cut", student))):
            teacher = self._teacher(self.party.rows_in(part), instruction.seed("teacher", student, k))
            taught += teacher.predict_proba(public.X)
        seed = instruction.seed("student", student)
        learnt = teach(lambda: self.student(seed=seed), public.X, every, taught.argmax(axis=1), taught / subsets)
        return learnt.predict_proba(public.X)

    def _teacher(self, part: NDArray[np.int64], seed: int) -> Classifier:
        return self.teacher(seed=seed).fit(self.party.X[part], self.party.y[part])


@lru_cache(maxsize=1)  # one visit asks for it a dozen times and more, and noise is searched for anew each time
def _party_plan(config: FedKTConfig, num_public: int, num_classes: int) -> NoisyVotes | QuietVotes:
    return config.party_plan(num_public, num_classes)


def _cut(num_rows: int, subsets: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Cut a random permutation by position: no look at values, which level L2's guarantee rests on."""
    if subsets:
        yield from np.array_split(rng.permutation(num_rows), subsets)
