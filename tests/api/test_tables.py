"""`choose`, `compare` and `runs` as tables of pandas."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import fedkd_flwr as fk
from fedkd_flwr.errors import DataError

TREE = DecisionTreeClassifier(max_depth=2)


def _rows(count=160):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"age": rng.integers(20, 90, count), "dose": rng.normal(size=count)})
    return rows.assign(hospital=rng.choice(["north", "south"], count), ill=rows.age > 55)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder, settings = tmp_path_factory.mktemp("runs"), {"centralised": False, "progress": False}
    settings |= {"label": "ill", "parties": "hospital", "model": TREE, "output_dir": folder, "consensus": "majority"}
    one = fk.simulate(_rows(), name="one", teachers_per_student=2, **settings)
    return folder, one, fk.simulate(_rows(), algorithm="fedct", num_rounds=1, **settings)


def test_runs_are_listed_by_id_with_what_they_reached(two):
    folder, one, other = two
    table = fk.runs(folder)
    assert set(table.index) == {one.record.run_id, other.record.run_id}
    assert table.loc[one.record.run_id, "name"] == "one"
    assert table.loc[one.record.run_id, "value"] == one.record.mean_accuracies()["federated-common"]
    assert len(fk.runs(folder, limit=1)) == 1
    assert fk.runs(folder / "nothing").empty


def test_runs_are_compared_by_result_or_by_name(two):
    folder, one, other = two
    table = fk.compare(one, other)
    assert table.equals(fk.compare("one", other, output_dir=folder))
    assert table.algorithm.unique().tolist() == ["fedkt", "fedct"]
    assert "table" not in table.columns  # both had equal rows
    means = table.set_index(["group", "whose"])["mean"]
    assert means["B", "federated"] == other.record.mean_accuracies()["federated-common"]
    later = table.query("group == 'B' and whose == 'federated'").iloc[0]
    assert later.difference == pytest.approx(means["B", "federated"] - means["A", "federated"])
    assert later.verdict == "one seed says nothing about noise"
    assert "federated" in table.attrs["text"] or "federation" in table.attrs["text"]


def test_a_run_that_is_not_there_is_refused_by_name(two):
    with pytest.raises(DataError, match="no-such-run"):
        fk.compare("no-such-run", output_dir=two[0])


def test_candidates_are_chosen_on_the_user_s_own_parties_the_best_first():
    names = ["fedct:majority", "fedkt:majority"]
    table = fk.choose(_rows(), label="ill", parties="hospital", model=TREE, candidates=names, progress=False)
    assert set(table.index) == {"each party alone", *names}
    assert table.accuracy.is_monotonic_decreasing
    assert (table.not_ranked == "").all()
    assert table.clear.isna().all()  # one seed says nothing about noise


def test_parties_of_the_data_are_those_that_candidates_meet_and_thorough_means_five_seeds(tmp_path):
    _rows().to_csv(tmp_path / "rows.csv", index=False)
    how = {"label": "ill", "model": "decision-tree", "candidates": ["fedct:majority"], "progress": False}
    how |= {"output_dir": tmp_path}
    one = fk.choose(tmp_path / "rows.csv", partition_column="hospital", **how)
    assert one.deviation.isna().all()
    whole = fk.choose(tmp_path / "rows.csv", parties="hospital", thorough=True, **how)
    assert whole.deviation.notna().all()
    assert len(list((tmp_path / "choose").iterdir())) == 5  # the first of them was kept
    split = fk.choose(_rows(), **{**how, "model": TREE})
    assert split.kilobytes_up.max() > 0
    assert len(list((tmp_path / "choose").iterdir())) == 5  # a model given as an object is not kept


class Edited(DecisionTreeClassifier):
    pass


def test_a_model_class_that_was_edited_since_is_run_again(tmp_path, monkeypatch):
    how = {"label": "ill", "parties": "hospital", "candidates": ["fedct:majority"], "progress": False}
    how |= {"output_dir": tmp_path, "model": Edited(max_depth=2)}
    first = fk.choose(_rows(), **how).accuracy["fedct:majority"]
    monkeypatch.setattr(Edited, "predict_proba", lambda self, X: np.eye(2)[np.zeros(len(X), int)])
    monkeypatch.setattr(Edited, "predict", lambda self, X: np.full(len(X), self.classes_[0]))
    assert fk.choose(_rows(), **how).accuracy["fedct:majority"] < first - 0.2
