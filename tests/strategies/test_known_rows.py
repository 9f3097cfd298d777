"""Whole rounds in which the server knows labels of some public rows: which rule wins, who is named, what is told."""

import dataclasses
from functools import partial

import numpy as np
import pytest
from federation import party, public_set, rows
from rounds import grid_of, make, run

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.known import OWN_FOREST
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies import PartyLabels

PUBLIC = public_set(300)
KNOWN = 90


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    """Let the server's forest be small: it is grown six times in each of these runs."""
    monkeypatch.setattr("fedkd_flwr.models.taught._TREES", 20)


def _members(liars=3, allow=frozenset({"fedct"})):
    """Four honest parties, and more that learn the next class in the place of each."""
    made = []
    for i in range(4 + liars):
        X, y = rows(40, seed=i)
        made.append(party(f"p{i}", X, y if i < 4 else (y + 1) % 3, public=PUBLIC, allow=allow))
    return made


_strategy = partial(make, "fedct", steps_per_round=20, public=PUBLIC, known_rows=KNOWN)
_run = partial(run, "fedct", rounds=2, steps_per_round=20, public=PUBLIC, known_rows=KNOWN)


def _combined(strategy, **labels):
    """Return the consensus of parties that send these labels."""
    answers = [PartyLabels(party=name, labels=np.asarray(said, np.int16)[None]) for name, said in labels.items()]
    return strategy.exchange.combine(1, answers, RoundRecord(server_round=1))


def test_a_majority_that_swaps_classes_together_is_outvoted_by_known_rows_and_named():
    judged, _ = _run(_members(liars=5), rounds=1)  # later on all repeat the consensus, and any rule is right
    fooled, _ = _run(_members(liars=5), rounds=1, known_rows=0)
    assert fooled.record.rounds[0].consensus_accuracy < 0.1
    assert judged.record.rounds[0].consensus_accuracy > 0.9
    assert judged.record.consensus_rule in ("known-rows", "server-forest")
    told = {one.name: [note.code for note in one.notes] for one in judged.record.parties}
    for name, codes in told.items():
        assert (NoteCode.BELOW_CHANCE in codes) == (name > "p3"), (name, codes)


def test_the_server_s_model_learns_what_known_rows_find_best():
    members = _members(liars=5, allow=frozenset({"fedkt"}))
    found, fooled = (run("fedkt", members, public=PUBLIC, known_rows=number)[0].record for number in (KNOWN, 0))
    assert found.consensus_rule in ("known-rows", "server-forest")
    assert found.consensus_reason.startswith("Right on 90 public rows whose labels the server knows: majority ")
    assert found.server_accuracy > 0.85 > 0.2 > fooled.server_accuracy
    # the rule that halves votes did not decide
    assert NoteCode.ONE_CLASS_VOTES not in [note.code for note in found.notes]


def test_where_parties_are_better_without_being_judged_their_rule_stays():
    """Nine parties that are right but for rows of their own: a majority of them is never wrong."""
    wrong = np.arange(300) % 9
    labels = {f"p{i}": np.where(wrong == i, (PUBLIC.y + 1) % 3, PUBLIC.y) for i in range(9)}
    strategy = _strategy()
    assert np.array_equal(_combined(strategy, **labels), PUBLIC.y)
    assert strategy.record.consensus_rule in ("majority", "dawid-skene")
    assert " 100.0 %, the vote judged by them" in strategy.record.consensus_reason
    assert "Without them: The parties sent labels alone" in strategy.record.consensus_reason


def test_where_the_server_s_own_forest_is_best_the_record_says_that_parties_were_not_needed(monkeypatch):
    monkeypatch.setattr("fedkd_flwr.labels.known.best_by_known_rows", lambda rules, known: OWN_FOREST)
    strategy = _strategy()
    assert np.array_equal(_combined(strategy, a=PUBLIC.y, b=PUBLIC.y), strategy.exchange._own_labels)
    assert strategy.record.consensus_rule == "server-forest"
    assert strategy.record.notes[0] == Note(NoteCode.OWN_FOREST, {"known": 90, "by_class": False})


def test_known_rows_are_labelled_by_the_consensus_so_that_it_does_not_show_which_they_are():
    """A party that saw their true labels in the consensus could answer right there, and lie elsewhere."""
    strategy = _strategy()
    wrong = strategy.exchange.known.rows[0]
    labels = PUBLIC.y.copy()
    labels[wrong] = (labels[wrong] + 1) % 3
    assert _combined(strategy, a=labels, b=labels)[wrong] == labels[wrong]


def test_a_party_that_knows_the_seed_cannot_repeat_the_draw():
    mine, again = _strategy().exchange.known, _strategy().exchange.known
    assert np.array_equal(mine.rows, again.rows)  # a run that is resumed judges by the same rows
    truth = PUBLIC.y.copy()
    truth[0] = (truth[0] + 1) % 3
    theirs = _strategy(public=dataclasses.replace(PUBLIC, y=truth)).exchange.known
    assert len(np.intersect1d(mine.rows, theirs.rows)) < 0.6 * KNOWN


def test_labels_of_some_rows_are_enough_for_the_server():
    truth = np.full(300, ABSTAIN, np.int16)
    truth[50:150] = PUBLIC.y[50:150]
    strategy, _ = _run(_members(5), rounds=1, public=dataclasses.replace(PUBLIC, y=truth), known_rows=60)
    assert strategy.exchange.known.rows.min() >= 50
    assert strategy.exchange.known.rows.max() < 150
    assert (strategy.exchange.consensus == PUBLIC.y).mean() > 0.85
    measured = np.setdiff1d(np.arange(50, 150), strategy.exchange.known.rows)
    right = (strategy.exchange.consensus[measured] == PUBLIC.y[measured]).mean()
    assert strategy.record.rounds[0].consensus_accuracy == pytest.approx(right)
    few = _run(_members(5), rounds=1, public=dataclasses.replace(PUBLIC, y=truth), known_rows=80)[0]
    assert few.record.rounds[0].consensus_accuracy is None  # 20 rows would measure it


def test_more_known_rows_than_labels_are_refused_before_anybody_is_asked():
    strategy = _strategy(public=dataclasses.replace(PUBLIC, y=None))
    grid = grid_of(_members(), "fedct")
    with pytest.raises(ConfigError, match=r"known-rows must be within 0\.\.0 .*got 90\. Put labels of more rows"):
        strategy.start(grid, num_rounds=1)
    assert grid.sent == []


def test_what_ratios_name_is_read_beside_the_labels_where_nodes_send_them():
    """Parties of one class: their labels tell nothing, and their ratios which rows are of it."""

    def run(allow):
        members = [party(f"p{i}", *rows(30, seed=i, classes=(i % 3,)), public=PUBLIC, allow=allow) for i in range(3)]
        return _run(members, rounds=1)[0].record

    both, labels = run(frozenset({"fedct", "density-ratio"})), run(frozenset({"fedct"}))
    assert NoteCode.NO_GAIN not in [note.code for note in both.notes]
    assert "density-ratio" in both.consensus_reason
    assert [len(note.values["parties"]) for note in labels.notes if note.code == NoteCode.NO_GAIN] == [3]


def test_a_server_that_holds_texts_judges_by_known_rows_and_answers_nothing_itself():
    texts = dataclasses.replace(PUBLIC, X=np.full((300, 1), "a text", dtype=object))
    strategy = _strategy(public=texts)
    assert np.array_equal(_combined(strategy, a=PUBLIC.y, b=PUBLIC.y), PUBLIC.y)
    assert "forest" not in strategy.record.consensus_reason


def test_where_a_class_is_rare_the_record_says_that_shares_by_class_chose_the_rule():
    """A majority finds most of the 24 rare rows, with false alarms; the judged vote and the forest find few."""
    truth = (np.arange(300) < 24).astype(np.int16)
    public = dataclasses.replace(PUBLIC, y=truth)
    strategy = _strategy(public=public)
    found = np.where(np.arange(300) % 8 == 3, 1 - truth, truth)
    labels = _combined(strategy, a=found, b=found, c=found)
    reason = strategy.record.consensus_reason
    assert strategy.record.consensus_rule == "majority"
    assert np.array_equal(labels, found)
    assert reason.startswith("Right in each class, averaged over the classes, of 90 public rows whose labels the")
    assert ". Right on all of these rows: majority " in reason
    assert "always the commonest class 9" in reason
