"""What a new vote rule costs: one class in one file (here `Highest` and `Surest`), and its name in `RULES`."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from federation import fedct_grid, parties, public_set

from fedkd_flwr.algorithms.card import setting
from fedkd_flwr.clients.party import Party
from fedkd_flwr.labels import Ballot, Consensus, ConsensusRule
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.strategies import FedCT, FedCTConfig


class Highest(ConsensusRule):
    """A toy: the highest class that any party gives to a row."""

    name: ClassVar[str] = "highest"

    def combine(self, ballot: Ballot, *, config, rng) -> Consensus:
        """Return it."""
        return Consensus(np.max([arrays[0] for arrays in ballot.labels], axis=0).astype(np.int16))


class Surest(ConsensusRule):
    """A toy that needs more than labels: each row gets the label of the party that has the most rows of that class."""

    name: ClassVar[str] = "surest"
    asks: ClassVar[str] = "surest"
    needs: ClassVar[tuple[str, ...]] = ("rows-of-class",)
    speaker: ClassVar[str] = f"{__name__}:rows_of_class"

    def combine(self, ballot: Ballot, *, config, rng) -> Consensus:
        """Return it, and what it knows of each party."""
        said = {party: one["rows-of-class"] for party, one in ballot.beside.items()}
        labels = {party: arrays[0] for party, arrays in zip(ballot.parties, ballot.labels, strict=True)}
        rows = np.array([counts[labels[party]] for party, counts in said.items()])
        chosen = np.array([labels[party] for party in said])[rows.argmax(axis=0), np.arange(rows.shape[1])]
        of_party = {party: {"class_counts": counts.tolist()} for party, counts in said.items()}
        return Consensus(chosen.astype(np.int16), of_party=of_party)


def rows_of_class(party: Party, instruction, *, make, steps, own_probs):
    """Say how many rows of each class a party has; nothing is kept."""
    return {"rows-of-class": np.bincount(party.y, minlength=party.public.num_classes)}, {}


def _run(rule, monkeypatch, **changes):
    class Config(FedCTConfig):
        consensus: Literal["highest", "surest"] = setting(rule.name)

    monkeypatch.setitem(RULES, rule.name, rule)
    strategy = FedCT(
        config=Config(nodes_stable_s=1e-6), public=public_set(), record=RunRecord(run_id="1", algorithm="fedct")
    )
    members = parties(3, **changes)
    strategy.start(fedct_grid(members), num_rounds=1)
    return strategy, members


def test_a_rule_on_labels_is_a_class_and_a_name(monkeypatch):
    seen, combine = [], Highest.combine
    monkeypatch.setattr(Highest, "combine", lambda self, ballot, **k: seen.append(ballot) or combine(self, ballot, **k))
    strategy, members = _run(Highest(), monkeypatch)
    (ballot,) = seen
    assert (ballot.parties, len(ballot.labels)) == ([one.name for one in members], 3)
    assert (strategy.consensus == np.max([arrays[0] for arrays in ballot.labels], axis=0)).all()
    assert len(set(strategy.consensus.tolist())) > 1


def test_a_rule_that_needs_more_is_a_function_more_and_asks_each_owner_by_its_name(monkeypatch):
    allowed, members = _run(Surest(), monkeypatch, allow=frozenset({"fedct", "surest"}))
    for one in members:
        counts = np.bincount(one.y, minlength=3).tolist()
        assert allowed.record.party(one.name).class_counts == counts
    assert (allowed.consensus >= 0).all()


def test_where_no_owner_allows_it_labels_alone_leave(monkeypatch):
    seen = []
    monkeypatch.setattr(
        Surest, "combine", lambda self, ballot, **_: seen.append(ballot.beside) or Consensus(ballot.labels[0][0])
    )
    _run(Surest(), monkeypatch, allow=frozenset({"fedct"}))
    assert seen == [{}]
