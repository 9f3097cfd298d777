"""Unanimous: FedCT's exchange, whose consensus labels only the rows on which all parties but a few agree."""

from __future__ import annotations

from typing import ClassVar

from fedkd_flwr.algorithms import Card
from fedkd_flwr.algorithms.card import setting
from fedkd_flwr.algorithms.exchange import StepsConfig, VotersConfig
from fedkd_flwr.clients import Answer, Finished, PartyClient
from fedkd_flwr.labels import ABSTAIN, VoteCounter, majority
from fedkd_flwr.record.notes import Note
from fedkd_flwr.strategies import LabelExchange


class UnanimousConfig(VotersConfig, StepsConfig):
    """Its settings: those of the parents stand at the top of the run config, its own in [unanimous]."""

    section: ClassVar[str] = "unanimous"

    spare: int = setting(0, ge=0)
    """How many parties may disagree on a row that gets a label."""


CARD = Card(
    name="unanimous",
    title="Unanimous",
    paper="docs/howto/your-algorithm.md",
    config=UnanimousConfig,
    strategy="my_algorithm:Unanimous",
    client="my_algorithm:UnanimousClient",
    sends="labels",
    default_rounds=3,
)


def aggregate(answers, *, config, num_classes, rng):
    """Return the consensus of label arrays of shape (num_public,), and how many rows have a label.

    >>> answers = [np.array(labels, np.int16) for labels in ([0, 1], [0, 1], [0, 0])]
    >>> rng = np.random.default_rng(1)
    >>> aggregate(answers, config=UnanimousConfig(), num_classes=2, rng=rng)[0].tolist()
    [0, -1]
    """
    counter = VoteCounter(num_public=len(answers[0]), num_classes=num_classes)
    for labels in answers:
        counter.add(labels)
    consensus = majority(counter.votes, ties=config.ties, rng=rng)
    consensus[counter.votes.max(axis=1) < len(answers) - config.spare] = ABSTAIN
    return consensus, int((consensus != ABSTAIN).sum())


class Unanimous(LabelExchange):
    """The server's side: what arrived goes into the arithmetic; `ExchangeStrategy` runs the rounds."""

    card = CARD

    def combine(self, server_round, answers, this):
        labels, rng = [answer.labels[0] for answer in answers], self.rng("ties", server_round)
        consensus, labelled = aggregate(labels, config=self.config, num_classes=self.spec.num_classes, rng=rng)
        self.note(Note("labelled", {"text": f"Round {server_round}: {labelled} rows have a label."}))
        return consensus


class UnanimousClient(PartyClient):
    """A party's side: it learns from its own rows and the consensus, and labels the public rows."""

    card = CARD

    def learn(self, instruction):
        model = self._learnt(instruction)
        return Answer(values={"labels": model.predict(self.party.public.X)[None]})

    def finish(self, instruction):
        alone = self.party.model(seed=instruction.seed("model")).fit(self.party.X, self.party.y)
        return Finished(model=self._learnt(instruction), solo=self.party.metrics(alone))

    def _learnt(self, instruction):
        party, labels = self.party, instruction.labels
        model, steps = party.model(seed=instruction.seed("model")), instruction.config.steps_per_round
        if labels is None or not (known := labels != ABSTAIN).any():
            return model.update(party.X, party.y, steps=steps)
        return model.update(party.X, party.y, party.public.X[known], labels[known], steps=steps)
