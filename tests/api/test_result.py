"""The result of a simulated federation: tables, text, HTML with pictures, a page, models, and a pickle of it all."""

import dataclasses
import html
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import fedkd_flwr as fk
from fedkd_flwr.errors import DataError
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import ColumnRecord
from fedkd_flwr.report.sentences import note_sentence

CLASSES = ["ill", "well"]


def _rows(count=120):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"age": rng.integers(20, 90, count), "dose": rng.normal(size=count)})
    return rows.assign(hospital=rng.choice(["<b>north</b>", "south"], count), outcome=np.where(rows.age > 55, *CLASSES))


def _simulated(folder, **settings):
    return fk.simulate(
        _rows(), label="outcome", parties="hospital", model=DecisionTreeClassifier(max_depth=2), output_dir=folder,
        progress=False, consensus="majority", **settings,
    )  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return _simulated(tmp_path_factory.mktemp("runs"), teachers_per_student=2)


def test_the_tables_hold_the_record_s_figures_under_names_of_parties_and_classes(done):
    party = done.record.parties[0]
    row = done.parties.loc[party.name]
    assert row.model == "DecisionTreeClassifier"
    assert [row[f"rows_of_{name}"] for name in CLASSES] == party.class_counts
    assert row.federated_own_accuracy == party.federated["own"].accuracy
    assert done.rounds.loc[1].answered == 2
    server = done.models.query("whose == 'server' and rows == 'common'")
    assert server.accuracy.item() == done.record.server_accuracy
    assert done.claims.empty
    assert "model_bytes" not in done.parties
    again = pickle.loads(pickle.dumps(done))
    assert again.predict(_rows()).equals(done.predict(_rows()))
    assert repr(again) == repr(done)


def test_a_model_is_saved_and_found_again_by_its_run(done, tmp_path):
    folder, party = done.record.config["output-dir"], done.record.parties[0].name
    kept = fk.load(done.save(tmp_path / "mine.fedkd", party))
    assert kept.predict(_rows()).tolist() == done.predict(_rows(), party=party).tolist()
    assert fk.load("last", party, output_dir=folder).predict(_rows()).tolist() == kept.predict(_rows()).tolist()
    answers = fk.load(done.record.run_id, output_dir=folder).predict(_rows())
    assert answers.tolist() == done.predict(_rows()).tolist()
    with pytest.raises(DataError, match="name a model that fedkt left"):
        done.save(tmp_path / "mine.fedkd", "east")
    with pytest.raises(DataError, match="path must be a file in a folder that is there, got the folder"):
        done.save(tmp_path)
    with pytest.raises(DataError, match=r"got no folder .*models"):
        done.save(tmp_path / "models" / "mine.fedkd")
    assert not (tmp_path / "models").exists()


def test_the_html_has_the_figures_the_parties_and_two_pictures_and_escapes_names(done, tmp_path):
    shown = done._repr_html_()
    assert shown.count("<img ") == 2
    assert "With the federation 2 parties reach" in shown
    assert "&lt;b&gt;north&lt;/b&gt;" in shown
    assert "<b>north</b>" not in shown
    assert str(done.record.config["output-dir"]) not in shown
    assert all(text in html.unescape(shown) for text in done.notes)
    assert done.save_page(tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_notes_are_those_of_the_table_and_the_text_tells_of_them(done):
    record = dataclasses.replace(done.record, notes=[Note(NoteCode.WEIGHTS_LEFT, {})])
    told = dataclasses.replace(done, record=record)
    assert told.notes[-1] == note_sentence(record.notes[0])
    record.columns = [ColumnRecord(name="", read_as="file", note="a.csv has no column age")]
    assert told.notes[0] == "a.csv has no column age"
    gaps = ColumnRecord(name="outcome", read_as="label", missing=5, note="ill, well; 5 rows without a label")
    told = dataclasses.replace(done, record=dataclasses.replace(record, columns=[gaps]))
    assert told.notes[0] == "label: ill, well; 5 rows without a label"
    record.columns = []
    assert f"notes  {len(told.notes)}: see .notes" in repr(told)


def test_each_party_s_model_answers_and_another_name_is_refused(done):
    assert set(done.model_bytes) == {"", "<b>north</b>", "south"}
    assert done.model("south").classes_.tolist() == CLASSES
    with pytest.raises(DataError, match="a model that fedkt left: the server's"):
        done.predict(_rows(), party="east")


def test_models_answer_for_other_class_shares(done):
    asked = dict(zip(CLASSES, (9, 1), strict=True))
    expected = done.model("south").for_shares(asked).predict_proba(_rows())
    assert done.predict_proba(_rows(), "south", asked).to_numpy() == pytest.approx(expected)
    assert done.predict(_rows(), "south", "own").tolist() == done.predict(_rows(), "south").tolist()
    with pytest.raises(DataError, match="class shares must be one of taught, own, common, or a share a class"):
        done.predict(_rows(), "south", "others")


def test_without_a_server_s_model_the_parties_probabilities_are_averaged(tmp_path):
    without_server_model = _simulated(tmp_path, algorithm="fedct", num_rounds=1, centralised=False)
    rows, names = _rows(20), ["<b>north</b>", "south"]
    each = [without_server_model.predict_proba(rows, party=name).to_numpy() for name in names]
    mean = without_server_model.predict_proba(rows)
    assert mean.to_numpy() == pytest.approx((each[0] + each[1]) / 2)
    assert without_server_model.predict(rows).tolist() == [CLASSES[i] for i in mean.to_numpy().argmax(axis=1)]
    with pytest.raises(DataError, match="Without party= predict asks all of them together"):
        without_server_model.model()
    with pytest.raises(DataError, match=r"must have left one model, got 2, of parties\. Give party=NAME"):
        fk.load("last", output_dir=tmp_path)
