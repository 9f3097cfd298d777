"""`choose`, `compare` and `runs` as tables of pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import fedkd_flwr as fk
from fedkd_flwr.errors import ConfigError, DataError

TREE = DecisionTreeClassifier(max_depth=2)


def _rows(count=160):
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"age": rng.integers(20, 90, count), "dose": rng.normal(size=count)})
    return rows.assign(hospital=rng.choice(["north", "south"], count), ill=rows.age > 55)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder, settings = tmp_path_factory.mktemp("runs"), {"centralised": False, "progress": False}
    settings |= {"label": "ill", "parties": "hospital", "model": TREE, "output_dir": folder}
    one = fk.simulate(_rows(), name="one", **settings)
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


def test_an_unknown_candidate_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="candidate must be one of fedct:"):
        fk.choose(_rows(), label="ill", parties="hospital", candidates=["fedavg"], progress=False)
