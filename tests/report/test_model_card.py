"""A model's card says what its file and the run's record say, and no more."""

import numpy as np
import pytest
from sample_claims import AT_SERVER, RECORD

from fedkd_flwr.data.reading import Reading
from fedkd_flwr.metrics import Metrics, measure
from fedkd_flwr.record.notes import Note
from fedkd_flwr.record.run_record import RoundRecord, RunRecord
from fedkd_flwr.report.claims import claim_meaning
from fedkd_flwr.report.model_card import model_card

FACTS = {
    "file": "model.fedkd",
    "bytes": 12345,
    "sha256": "ab" * 32,
    "kind": "sklearn",
    "types": ["sklearn.tree._classes.DecisionTreeClassifier"],
    "num_classes": 2,
    "num_features": 3,
    "classes": ["low", "high|<b>"],
    "label": "income",
    "id column": None,
    "image shape": None,
    "columns": [
        {"name": "age", "kind": "numeric", "categories": [], "written": ""},
        {"name": "job", "kind": "categorical", "categories": ["clerk", "smith"], "written": ""},
    ],
    "reads": ["age", "job"],
    "public set fingerprint": "cd" * 32,
}


def _record(**changes):
    record = RunRecord(
        run_id="7",
        algorithm="fedkt",
        sends="labels",
        status="completed",
        simulation=True,
        config={"algorithm": "fedkt", "num-rounds": 1, "table": "/home/ann/people.csv", "noise": "gaussian"},
        changed=["algorithm", "table", "noise"],
        classes=["low", "high"],
        num_public=60,
        fingerprint="cd" * 32,
        rounds=[RoundRecord(server_round=1, asked=1, answered=["ann"])],
        server={"common": Metrics(n=50, accuracy=0.875)},
        claims=[AT_SERVER],
        notes=[Note("own", {"text": "party ann says one class"})],
        versions={"flwr": "1.41.0"},
    )
    record.party("ann").class_counts = [4, 6]
    record.party("ann").solo["own"] = Metrics(n=9, accuracy=0.625)
    for name, value in changes.items():
        setattr(record, name, value)
    return record


def _card(record, *, party="", kind="federated", at_silo=False, **facts):
    return model_card(record, {**FACTS, **facts}, party=party, kind=kind, at_silo=at_silo, release="0.1.0")


def _elsewhere(card):
    """Return a card without its evaluation."""
    before, rest = card.split("## Evaluation")
    return before + rest.partition("## Versions")[2]


def test_the_server_s_card_has_the_claims_in_the_record_s_words_and_metrics_with_their_n():
    text = _card(_record())
    assert claim_meaning(AT_SERVER) in text
    assert "| epsilon |" in text
    assert "| n | 50 |" in text
    assert "| accuracy | 0.8750 |" in text
    assert "`model.fedkd`, 12,345 bytes, SHA-256" in text
    assert "`people.csv`" in text
    assert "/home/ann" not in text
    assert "| job | categorical clerk, smith |" in text
    assert text.endswith("| flwr | 1.41.0 |\n| fedkd-flwr | 0.1.0 |\n")


def test_a_useless_model_s_card_says_so_before_its_figures_and_what_it_finds_of_each_class():
    y = np.repeat([0, 1], [468, 32])
    never = measure(y, np.ones(500, int), np.tile([0.4, 0.6], (500, 1)), num_classes=2)
    record = _record(server={"common": never}, num_classes=2)
    text = _card(record)
    warning = "The server's model is useless: it gives class 'high' to all 500 common test rows and finds none of class"
    assert f"- WARNING: {warning} 'low' (468 rows)." in text
    assert text.index(warning) < text.index("| accuracy |")
    assert "| class | test rows | recall on common test rows |\n| --- | --- | --- |\n| low | 468 | 0.0000 |" in text
    assert "Roc auc and average precision are of class 'high'." in text
    assert "| high | 32 | 1.0000 |" in text
    assert "useless" not in _elsewhere(text)
    record.party("ann").federated["own"] = never
    text = _card(record, party="ann")
    assert "- WARNING: This model is useless: it gives class 'high' to all 500 own test rows" in text


def test_a_card_says_how_the_cells_of_a_column_are_written_because_numeric_is_not_enough_for_dates():
    written = Reading(dates="day-first").words
    day = {"name": "day", "kind": "numeric", "categories": [], "written": written}
    text = _card(_record(), columns=[day], reads=["day"])
    assert "| day | numeric: dates (12.03.2021), the day first, as days since 1970-01-01 |" in text


def test_what_no_claim_covers_stands_in_the_part_for_the_operator_alone():
    card = _card(_record())
    elsewhere = _elsewhere(card)
    assert "party ann says one class" in card
    assert "party ann says" not in elsewhere
    assert "0.875" not in elsewhere
    assert "Leave this section out of a card that you pass on." in card


def test_a_claim_whose_numbers_are_the_operator_s_has_none_on_the_card():
    card = _card(_record(claims=[{**AT_SERVER, "publishable": False, "epsilon": 0.123456}]))
    assert "0.1234" not in card
    assert "The operator knows them; they are not published." in card


def test_without_a_claim_the_card_says_so():
    text = _card(_record(claims=[]))
    assert "No privacy guarantee: labels are shared as they are (no noise)." in text
    assert "epsilon" not in text


@pytest.mark.parametrize("at_silo", [False, True])
def test_a_party_s_file_is_covered_by_no_claim_and_a_silo_knows_of_none(at_silo):
    card = _card(_record(claims=[] if at_silo else [RECORD]), party="ann", kind="alone", at_silo=at_silo)
    text = card
    assert "No claim covers this file" in text
    assert "low: 4, high: 6" in text
    assert "| n | 9 |" in text
    assert ("What the run claims stands in the server's record" in text) == at_silo
    assert ("| parties | not known at a silo |" in text) == at_silo
    assert "private rows of this party alone" in text


def test_the_card_says_whether_rows_are_in_the_file():
    nearest = ["fedkd_flwr.models.estimators.NearestNeighbours"]
    assert "| rows in the file | no row as such" in _card(_record())
    assert "keeps rows that it learnt from (public rows" in _card(_record(), types=nearest)
    own = _card(_record(), party="ann", types=nearest)
    assert "learnt from (private rows of ann" in own
    assert "| rows in the file | not known for mine.Own |" in _card(_record(), types=["mine.Own"])


def test_foreign_text_stays_in_its_cell():
    text = _card(_record())
    assert "high\\|&lt;b>" in text
    assert "<b>" not in text


def test_a_card_names_class_counts_and_density_ratios_among_what_left():
    record = _record(claims=[], config={"algorithm": "fedkt", "consensus": "auto"})
    record.party("ann").public_fit = 0.9
    card = _card(record)
    assert "| what leaves a party | labels, class counts and density ratios |" in card
