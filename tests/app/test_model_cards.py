"""A model's card says what its file and the run's record say, and no more."""

import logging

import numpy as np
import pandas as pd
import pytest
from federation import SCHEMA, model, rows
from sample_claims import AT_SERVER
from schemas import column
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.app.model_cards import owners_word, write_card
from fedkd_flwr.clients.answer import DumpedModel, Finished
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.metrics import Metrics, measure
from fedkd_flwr.models import Classifier
from fedkd_flwr.record.run_record import RoundRecord, RunRecord
from fedkd_flwr.report.claims import claim_meaning
from fedkd_flwr.stores.saved_model import save

COLUMNS = (column("day", reading=Reading(dates="day-first")), column("job", "clerk", "smith"))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    schema = Schema(columns=COLUMNS, classes=("low", "high|<b>"), label="income")
    public = make_public_set(pd.DataFrame({"day": ["12.03.2021", "13.03.2021"], "job": ["clerk", "smith"]}), schema)
    model = Classifier(DecisionTreeClassifier(), num_classes=2).fit(public.X, np.array([0, 1]))
    path = tmp_path_factory.mktemp("model") / "model.fedkd"
    save(model, public, path)
    return path


def _record(**changes):
    record = RunRecord(
        run_id="7",
        algorithm="fedkt",
        sends="labels",
        status="completed",
        simulation=True,
        config={"algorithm": "fedkt", "num-rounds": 1, "table": "/home/ann/people.csv", "noise": "gaussian"},
        classes=["low", "high"],
        num_public=60,
        num_classes=2,
        fingerprint="cd" * 32,
        rounds=[RoundRecord(server_round=1, asked=1, answered=["ann"])],
        server={"common": Metrics(n=50, accuracy=0.875)},
        claims=[AT_SERVER],
    )
    record.party("ann").solo["own"] = Metrics(n=9, accuracy=0.625)
    for name, value in changes.items():
        setattr(record, name, value)
    return record


def _card(file, record, **more):
    return write_card(file, record, **more).read_text(encoding="utf-8")


def test_the_server_s_card_has_the_claims_in_the_record_s_words_and_figures_with_their_n(file):
    text = _card(file, _record())
    assert claim_meaning(AT_SERVER) in text
    assert ": n 50, accuracy 0.8750\n" in text
    assert f"| file | model.fedkd, {file.stat().st_size:,} bytes, SHA-256" in text
    assert "/home/ann" not in text
    assert "| columns | day, job |" in text
    assert "| model | DecisionTreeClassifier |" in text
    assert "high\\|&lt;b>" in text  # foreign text stays in its cell
    assert "<b>" not in text


def test_a_useless_model_s_card_says_so_before_its_figures(file):
    y = np.repeat([0, 1], [468, 32])
    never = measure(y, np.ones(500, int), np.tile([0.4, 0.6], (500, 1)), num_classes=2)
    text = _card(file, _record(server={"common": never}))
    warning = "The server's model, on common test rows: useless, class 'high' is given to all rows."
    assert text.index(f"- WARNING: {warning}") < text.index(": n 500, ")


def test_what_no_claim_covers_stands_in_the_part_for_the_operator_alone(file):
    before, inside = _card(file, _record(), party="ann", alone=True).split("## Evaluation")
    assert ": n 9, accuracy 0.6250\n" in inside
    assert "0.6250" not in before
    assert "No claim covers this file" in before
    assert "What the run claims stands in the server's record" in before
    assert "| learnt from | private rows of ann |" in before


def test_a_claim_whose_numbers_are_the_operator_s_has_none_on_the_card(file):
    card = _card(file, _record(claims=[{**AT_SERVER, "publishable": False, "epsilon": 0.123456}]))
    assert "0.1234" not in card
    assert "The operator knows them; they are not published." in card


def test_without_a_claim_the_card_says_so(file):
    text = _card(file, _record(claims=[]))
    assert "No privacy guarantee: labels are shared as they are (no noise)." in text
    assert "epsilon" not in text


PUBLIC = make_public_set(pd.DataFrame(rows(60, seed=9)[0], columns=["a", "b"]), SCHEMA)


@pytest.mark.parametrize(("alone", "federated"), [(0.5, 0.9), (0.9, 0.5)])
def test_the_owner_is_told_which_model_is_better_on_own_rows_and_gets_a_card_of_each(
    tmp_path, caplog, alone, federated
):
    record = _record(num_classes=3, parties=[], classes=list(SCHEMA.classes))
    show = owners_word(record, party="north", model_name="knn", y=np.repeat([0, 1, 2], 50))
    measured = [
        {"own": Metrics(n=150, accuracy=value, balanced_accuracy=value, support=[50] * 3)}
        for value in (alone, federated)
    ]
    files = {kind: tmp_path / f"{kind}.model" for kind in ("federated", "alone")}
    for file in files.values():
        save(model(seed=0).fit(*rows(20, seed=1)), PUBLIC, file)
    with caplog.at_level(logging.INFO, logger="flwr.party"):
        show(Finished(model=DumpedModel(b""), solo=measured[0], federated=measured[1]), files)
    better = "stay alone" if alone > federated else "federated"
    assert any(f"north: your better model: {better}. " in line for line in caplog.messages)
    cards = sorted(path.name for path in tmp_path.iterdir())
    assert cards == ["alone.card.md", "alone.model", "federated.card.md", "federated.model"]
    assert "it learnt from private rows of north" in (tmp_path / cards[0]).read_text()
