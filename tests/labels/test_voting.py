from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import pytest
from federation import fedct_grid, parties, public_set
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.algorithms.card import setting
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.labels import (
    ABSTAIN,
    Ballot,
    Consensus,
    ConsensusRule,
    VoteCounter,
    agreement,
    check_labels,
    consistent_labels,
    is_informative,
    majority,
)
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.labels.voting import share_right
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.strategies import FedCT, FedCTConfig

C = 4
label_matrices = st.integers(1, 6).flatmap(
    lambda parties: arrays(np.int16, (parties, 9), elements=st.integers(ABSTAIN, C - 1))
)


def _count(matrix: np.ndarray) -> VoteCounter:
    counter = VoteCounter(num_public=matrix.shape[1], num_classes=C)
    for labels in matrix:
        counter.add(labels)
    return counter


@given(label_matrices)
def test_streamed_counts_equal_counting_the_whole_matrix_at_once(matrix):
    counted, given_by = _count(matrix), matrix[:, :, None] == np.arange(C)
    assert (counted.votes == given_by.sum(axis=0)).all()
    assert counted.class_voters.tolist() == given_by.any(axis=1).sum(axis=0).tolist()  # parties, not rows


def test_many_voters_of_changing_weights_are_counted_exactly_also_where_counts_are_read_between():
    """One byte gathers 255 votes of one weight; then, and where the weight changes, they are settled."""
    rng = np.random.default_rng(3)
    counter, expected = VoteCounter(num_public=7, num_classes=C), np.zeros((7, C), dtype=np.int64)
    for k in range(700):
        weight = 1 if k < 520 else int(rng.integers(0, 3))
        labels = rng.integers(ABSTAIN, C, 7).astype(np.int16)
        labels[0] = 1  # on this row all agree
        counter.add(labels, weight=weight)
        cast = labels != ABSTAIN
        expected[np.flatnonzero(cast), labels[cast]] += weight
        if k > 520 and k % 51 == 0:  # nothing is read before: so many votes overflow a byte
            assert counter.votes.tolist() == expected.tolist()
    assert counter.votes.tolist() == expected.tolist()


@given(arrays(np.int16, (3, 8), elements=st.integers(0, C - 1)))
def test_consistent_label_is_kept_exactly_where_all_students_agree(students):
    kept = consistent_labels(students)
    agree = (students == students[0]).all(axis=0)
    assert kept.dtype == np.int16
    assert (kept[agree] == students[0][agree]).all()
    assert (kept[~agree] == ABSTAIN).all()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0, 0, 0], False), ([0, -1, 0], False), ([-1, 0], False), ([-1, -1, -1], False), ([0, 1, -1], True)],
)
def test_a_party_is_informative_only_with_two_classes_among_its_votes(labels, expected):
    assert is_informative(np.array(labels)) is expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(3, dtype=np.int16), r"labels must be 2 labels, one for each row in their order, got shape \(3,\)"),
        (np.array([0.0, np.nan]), "labels must hold integers, got dtype float64"),
        (np.zeros((1, 1, 2), dtype=np.int16), r"one for each row in their order, got shape \(1, 1, 2\)"),
        (np.array([0, 4]), r"labels must lie within -1..3, got 4 at row 1 \(1 such row\)"),
        (np.array([-1, 7]), r"labels must lie within -1..3, got 7"),
        (np.array([-2, -3]), r"labels must lie within -1..3, got -2 at row 0 \(2 such rows\)"),
    ],
)
def test_bad_labels_are_refused_with_rule_and_value(labels, message):
    with pytest.raises(DataError, match=message):
        check_labels(labels, num_rows=2, num_classes=C)


def test_where_every_row_needs_a_class_none_is_a_row_without_one_and_any_shape_will_do():
    assert check_labels(np.zeros((1, 0), int), num_classes=3, least=0).shape == (1, 0)
    assert check_labels(np.array([[[0, 2]]]), num_classes=3, least=0).tolist() == [[[0, 2]]]
    with pytest.raises(
        DataError, match=r"^y must lie within 0\.\.2, got -1 at row 1 \(1 such row\)\. Say it\."
    ) as caught:
        check_labels(np.array([[0, -1]]), num_classes=3, least=0, name="y", way_out="Say it.")
    assert caught.value.code == "class-outside-schema"


def test_agreement_looks_at_labelled_rows_only():
    assert agreement(np.array([0, 1, 0]), np.array([0, 0, ABSTAIN])) == 0.5
    assert agreement(np.array([0, 1, 0, 2]), np.array([0, 0, ABSTAIN, 1])) == pytest.approx(1 / 3)
    assert np.isnan(agreement(np.array([0]), np.array([ABSTAIN])))


@pytest.mark.parametrize(
    ("rows", "classes", "match"), [(3, 1, "num_classes must be >= 2"), (0, 2, "num_public must be")]
)
def test_a_vote_needs_two_classes_and_a_row(rows, classes, match):
    with pytest.raises(DataError, match=match):
        VoteCounter(num_public=rows, num_classes=classes)


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


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


@given(arrays(np.int32, (7, 3), elements=st.integers(0, 5)))
def test_majority_label_has_the_most_votes(votes):
    labels = majority(votes, rng=_rng())
    voted = votes.sum(axis=1) > 0
    assert (votes[voted, labels[voted]] == votes[voted].max(axis=1)).all()
    assert (labels[~voted] == ABSTAIN).all()


def test_random_ties_are_fair_and_seeded():
    votes = np.tile([1, 1, 0], (3000, 1))
    labels = majority(votes, rng=_rng())
    assert abs((labels == 0).mean() - 0.5) < 0.05
    assert (labels != 2).all()
    assert (labels == majority(votes, rng=_rng())).all()


def test_other_policies_and_random_ties_without_a_generator_are_refused():
    for settings, match in (
        ({}, "rng must be a numpy Generator"),
        ({"ties": "coin"}, "'coin'"),
    ):
        with pytest.raises(ConfigError, match=match):
            majority(np.array([[1, 1]]), **settings)


def test_the_share_that_is_right_leaves_out_what_has_no_label_or_no_known_truth():
    truth = np.array([0, 1, ABSTAIN], np.int16)
    assert share_right(np.array([0, 0, 1]), truth) == 0.5
    assert share_right(np.array([-1, 1, 1]), truth) == 1.0
    assert share_right(np.array([-1, -1, 1]), truth) is None
    assert share_right(np.array([0, 0, 1]), np.full(3, ABSTAIN)) is None
