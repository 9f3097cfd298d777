"""Whole rounds in which the server knows the labels of some public rows: who counts, who is named, what is told."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from federation import fedct_grid, handler, model, party, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.clients import FedKTClient, PATEClient
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.run_record import RoundRecord
from fedkd_flwr.strategies import PATE, FedCT, FedCTConfig, FedKT, FedKTConfig, PartyLabels, PATEConfig

PUBLIC = public_set(300)
KNOWN = 90
ONE_SHOT = [(FedKTClient, FedKT, FedKTConfig), (PATEClient, PATE, PATEConfig)]


def _members(liars=3, **changes):
    """Four honest parties, and more that learn the next class in the place of each."""
    made = []
    for i in range(4 + liars):
        X, y = rows(40, seed=i)
        made.append(party(f"p{i}", X, y if i < 4 else (y + 1) % 3, **{"public": PUBLIC, **changes}))
    return made


def _run(rounds=2, liars=3, public=PUBLIC, **settings):
    settings = {"consensus": "known-rows", "known_rows": KNOWN, **settings}
    strategy = FedCT(config=FedCTConfig(seed=1, node_settle_s=1e-6, steps_per_round=20, **settings), public=public)
    strategy.start(fedct_grid(_members(liars)), num_rounds=rounds)
    return strategy


def test_a_majority_that_swaps_classes_together_is_outvoted_by_known_rows_and_named():
    judged = _run(liars=5)
    fooled = _run(liars=5, consensus="majority", known_rows=0)
    assert fooled.record.rounds[0].consensus_accuracy < 0.1
    assert judged.record.rounds[0].consensus_accuracy > 0.9
    told = {one.name: " ".join(one.notes) for one in judged.record.parties}
    for name, notes in told.items():
        assert ("of 90 public rows on" in notes and "wrong, or swapped" in notes) == (name > "p3"), (name, notes)


@pytest.mark.parametrize(("client", "strategy", "config"), ONE_SHOT)
def test_the_server_s_model_learns_from_known_rows_what_its_parties_are_worth(client, strategy, config):
    def run(**settings):
        members = _members(liars=5, allow=frozenset({"fedkt", "pate"}))
        grid = InProcessGrid(handler([client(p) for p in members]), [{}] * len(members))
        made = strategy(
            config=config(seed=1, node_settle_s=1e-6, **settings),
            public=PUBLIC,
            final_model=model,
            test=rows(80, seed=7),
        )
        made.start(grid, num_rounds=1)
        return made.record

    found, fooled = run(known_rows=KNOWN), run()
    assert found.consensus_rule == "known-rows"
    assert found.consensus_reason.startswith("The server knows the labels of 90 public rows, and each party's answers")
    assert found.server_accuracy > 0.85 > 0.2 > fooled.server_accuracy
    alone = [note for note in found.notes if note.startswith("A final model of the 90 known rows alone has accuracy")]
    assert alone
    assert alone[0].endswith(f"this one {found.server_accuracy:.3f}.")
    assert not any("casts" in note for note in found.notes)  # nobody's votes are halved by another rule


def test_parties_that_say_one_class_do_not_count_and_the_note_names_them():
    X, y = rows(30, seed=9, classes=(1,))
    members = [*_members(0), *[party(f"q{i}", X, y, public=PUBLIC) for i in range(5)]]
    strategy = FedCT(
        config=FedCTConfig(seed=1, node_settle_s=1e-6, consensus="known-rows", known_rows=KNOWN), public=PUBLIC
    )
    strategy.start(fedct_grid(members), num_rounds=1)
    assert strategy.record.rounds[0].consensus_accuracy > 0.9
    text = "The labels of 5 of 9 parties tell nothing of the classes of the 90 known rows, and do not count: q0, q1, q2"
    assert any(note.startswith(text) for note in strategy.record.notes)


def test_known_rows_measure_nothing_because_they_chose_the_vote():
    strategy = _run(rounds=1, liars=0)
    others = np.setdiff1d(np.arange(300), strategy.known.rows)
    measured = (strategy.consensus[others] == PUBLIC.y[others]).mean()
    assert strategy.record.rounds[0].consensus_accuracy == pytest.approx(measured)


def test_known_rows_are_labelled_by_the_vote_so_that_nobody_can_tell_them_from_others():
    """A party that saw their true labels in the consensus could answer right there, and lie elsewhere."""
    one = dataclasses.replace(PUBLIC, y=PUBLIC.y.copy())
    strategy = FedCT(config=FedCTConfig(seed=1, consensus="known-rows", known_rows=KNOWN), public=one)
    wrong = strategy.known.rows[0]
    labels = PUBLIC.y.copy()
    labels[wrong] = (labels[wrong] + 1) % 3
    answers = [PartyLabels(party=name, labels=labels[None]) for name in "ab"]
    assert strategy.combine(1, answers, RoundRecord(server_round=1))[wrong] == labels[wrong]


def test_a_party_that_knows_the_seed_cannot_repeat_the_draw():
    mine = FedCT(config=FedCTConfig(seed=1, consensus="known-rows", known_rows=KNOWN), public=PUBLIC).known
    again = FedCT(config=FedCTConfig(seed=1, consensus="known-rows", known_rows=KNOWN), public=PUBLIC).known
    assert np.array_equal(mine.rows, again.rows)  # a run that is resumed judges by the same rows
    truth = PUBLIC.y.copy()
    truth[0] = (truth[0] + 1) % 3
    guess = dataclasses.replace(PUBLIC, y=truth)
    theirs = FedCT(config=FedCTConfig(seed=1, consensus="known-rows", known_rows=KNOWN), public=guess).known
    assert len(np.intersect1d(mine.rows, theirs.rows)) < 0.6 * KNOWN


def test_labels_of_some_rows_are_enough_for_the_server():
    truth = np.full(300, ABSTAIN, np.int16)
    truth[50:150] = PUBLIC.y[50:150]
    strategy = _run(rounds=1, liars=5, public=dataclasses.replace(PUBLIC, y=truth), known_rows=60)
    assert strategy.known.rows.min() >= 50
    assert strategy.known.rows.max() < 150
    assert (strategy.consensus == PUBLIC.y).mean() > 0.9
    measured = np.setdiff1d(np.arange(50, 150), strategy.known.rows)
    right = (strategy.consensus[measured] == PUBLIC.y[measured]).mean()
    assert strategy.record.rounds[0].consensus_accuracy == pytest.approx(right)


def test_more_known_rows_than_labels_are_refused_before_anybody_is_asked():
    config = FedCTConfig(consensus="known-rows", known_rows=KNOWN)
    with pytest.raises(ConfigError, match=r"known-rows must be at most 0 \(rows with a label\), got 90\. Label more"):
        FedCT(config=config, public=dataclasses.replace(PUBLIC, y=None))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"consensus": "majority", "known_rows": 9},
            "known-rows must be 0 with consensus 'majority', which would ignore",
        ),
        ({"consensus": "known-rows"}, "known-rows must be > 0 with consensus 'known-rows', got 0"),
        (
            {"known_rows": 9, "label_mechanism": "xor", "label_epsilon": 1.0},
            "known-rows must be 0 beside noise, got 9. The claim counts every vote alike",
        ),
    ],
)
def test_settings_that_would_be_ignored_or_break_a_claim_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        FedCTConfig(**settings)
    assert message in str(caught.value)


def test_the_server_answers_as_one_more_party_so_that_known_rows_are_worth_what_they_teach():
    X, y = rows(30, seed=9, classes=(1,))
    members = [party(f"q{i}", X, y, public=PUBLIC) for i in range(5)]  # nobody tells classes apart
    strategy = FedCT(
        config=FedCTConfig(seed=1, node_settle_s=1e-6, consensus="known-rows", known_rows=KNOWN), public=PUBLIC
    )
    strategy.start(fedct_grid(members), num_rounds=1)
    assert strategy.record.rounds[0].consensus_accuracy > 0.85
    text = "The labels of 5 of 5 parties tell nothing of the classes of the 90 known rows, and do not count: q0, q1, q2"
    assert any(note.startswith(text) for note in strategy.record.notes)


def test_what_ratios_name_is_read_beside_the_labels_where_nodes_send_them(tmp_path):
    """Parties of one class: their labels tell nothing, and their ratios which rows are of it."""

    def run(allow, **settings):
        members = [party(f"p{i}", *rows(30, seed=i, classes=(i % 3,)), public=PUBLIC, allow=allow) for i in range(6)]
        strategy = FedCT(config=FedCTConfig(seed=1, node_settle_s=1e-6, known_rows=KNOWN, **settings), public=PUBLIC)
        grid = fedct_grid(members)
        strategy.start(grid, num_rounds=2)
        asked = ["ratios" in m.content.config_records["fitins.config"] for m in grid.sent if "train" in str(m.metadata)]
        return strategy.record, asked

    both, asked = run(frozenset({"fedct", "density-ratio"}))
    assert both.consensus_rule == "known-rows"
    assert not any("tell nothing" in note for note in both.notes)
    assert asked == [True] * 12
    labels, _ = run(frozenset({"fedct"}))
    assert any("The labels of 6 of 6 parties tell nothing" in note for note in labels.notes)
    assert "density ratios" not in labels.consensus_reason
    by_name, asked = run(frozenset({"fedct", "density-ratio"}), consensus="known-rows")
    assert asked == [False] * 12
    assert any("The labels of 6 of 6 parties tell nothing" in note for note in by_name.notes)


def test_a_server_that_holds_texts_judges_by_known_rows_and_answers_nothing_itself():
    texts = dataclasses.replace(PUBLIC, X=np.full((300, 1), "a text", dtype=object))
    strategy = FedCT(config=FedCTConfig(seed=1, consensus="known-rows", known_rows=KNOWN), public=texts)
    answers = [PartyLabels(party=name, labels=PUBLIC.y[None]) for name in "ab"]
    assert np.array_equal(strategy.combine(1, answers, RoundRecord(server_round=1)), PUBLIC.y)
