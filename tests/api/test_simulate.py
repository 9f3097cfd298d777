"""The Python door runs the same federation as the command line, on rows in any form, and labels stay as they are."""

import logging
import pickle
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import fedkd_flwr as fk
from fedkd_flwr.app.find_run import LOG, find_run
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.simulation.run import checked, in_processes
from fedkd_flwr.simulation.starter import party_starter

TREE = DecisionTreeClassifier(max_depth=3)
PLAIN = {"centralised": False, "progress": False, "consensus": "majority"}  # density ratios take longer
FEW = {"students_per_party": 1, "teachers_per_student": 2}  # of FedKT: a fifth of its models


def hospital_rows(count=120, seed=0):
    """Return rows of three invented hospitals."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "age": rng.integers(20, 90, count),
            "bmi": rng.normal(26, 4, count).round(1),
            "smoker": rng.choice(["yes", "no"], count),
            "seen": pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, count), unit="D"),
            "hospital": rng.choice(["north", "south", "west"], count),
        }
    )
    rows.loc[::17, "bmi"] = np.nan
    rows["outcome"] = np.where(rows.age + 10 * (rows.smoker == "yes") > 60, "ill", "well")
    return rows


def figures(record):
    """Return all that a run measured, and not how long it took."""
    parties = [(p.name, p.class_counts, p.agreement, p.solo, p.federated) for p in record.parties]
    return record.fingerprint, parties, record.server, record.centralised, [r.agreement for r in record.rounds]


@pytest.fixture
def door(tmp_path):
    def simulate(*args, **settings):
        few = {} if "algorithm" in settings else FEW
        return fk.simulate(*args, **{"model": TREE, "output_dir": tmp_path, **PLAIN, **few, **settings})

    return simulate


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the figures of a run on a frame, to which those of the same rows in other forms are equal."""
    folder = tmp_path_factory.mktemp("plain")
    given = {"label": "outcome", "parties": "hospital", "model": TREE, "output_dir": folder}
    return fk.simulate(hospital_rows(), **given, **PLAIN, **FEW)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [((False, True), {bool}), ((0.0, 1.0), {float}), ((1, "a"), {int, str}), ((True, "a"), {bool, str})],
)
def test_labels_come_back_as_they_were(door, values, kinds):
    rows = hospital_rows().drop(columns="hospital")
    rows["outcome"] = [values[label == "ill"] for label in rows.outcome]
    done = door(rows, label="outcome", parties=2, partitioner="iid")
    answers = done.predict(rows)
    assert {type(value) for value in answers.tolist()} == kinds
    assert set(answers) == set(values)
    assert done.model("party-001").score(rows, rows.outcome) > 0.7
    assert not any("class_0" in name or "class_1" in name for name in done.parties)


def test_tables_by_party_may_lack_columns_and_each_party_s_model_reads_its_own(door):
    rows = hospital_rows()
    apart = {name: part.drop(columns="hospital") for name, part in rows.groupby("hospital")}
    apart["north"] = apart["north"].drop(columns=["bmi", "smoker"])
    done = door(apart, label="outcome")
    told = {party.name: [note.values["columns"] for note in party.notes] for party in done.record.parties}
    assert told == {"north": [["bmi", "smoker"]], "south": [], "west": []}
    assert done.model("north").columns == ("age", "seen")
    assert set(done.predict(apart["north"], party="north")) == {"ill", "well"}
    assert set(done.model().columns) == {"age", "bmi", "smoker", "seen"}
    other = {**apart, "north": apart["north"].assign(bmi=np.nan, smoker=None)}
    assert door(other, label="outcome").record.parties[0].notes == []


def test_own_public_and_test_rows_are_used_whole_and_public_ones_need_no_label(door):
    rows = hospital_rows()
    public, test, rest = rows[:30].drop(columns="outcome"), rows[30:50], rows[50:]
    done = door(rest, label="outcome", parties="hospital", public=public, test=test)
    assert done.record.num_public == 30
    assert done.record.server["common"].n == 20
    assert sum(sum(party.class_counts) for party in done.record.parties) == 70
    assert "held out" not in repr(done)


def test_drawn_public_rows_are_drawn_here_too_and_their_cost_is_in_the_record(door, plain):
    done = door(hospital_rows(), label="outcome", parties="hospital", draw_public_epsilon=3.0)
    drawn = done.record.config["public-rows"]
    assert "drawn-rows" in [note.code for note in done.record.notes]
    assert "held out" not in repr(done)
    assert done.parties.filter(like="rows_of").equals(plain.parties.filter(like="rows_of"))
    given = door(hospital_rows(), label="outcome", parties="hospital", public=drawn)
    assert "drawn-rows" in [note.code for note in given.record.notes]
    assert given.record.num_public == done.record.num_public == 30


def test_what_a_column_was_read_as_is_mended_by_keywords_where_rows_are_no_file(door):
    rows = hospital_rows().assign(nr=range(1000, 1120), day="03/04/2021")
    with pytest.raises(DataError, match=r"the day comes first in 03/04/2021: the same call with .*date_order='day-fir"):
        door(rows, label="outcome", parties="hospital")
    done = door(rows, label="outcome", parties="hospital", date_order="day-first")
    (told,) = [note.values["command"] for note in done.record.notes if note.code == "look-at-columns"]
    assert told == "the same call with date_order='day-first', id_column='nr', drop='day'"


class Failing(DecisionTreeClassifier):
    def fit(self, X, y):
        raise RuntimeError("no tree grows here")


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"label": "outcom"}, DataError, r"label must be a column of .* got 'outcom'. Did you mean outcome\?"),
        ({"label": "ill"}, DataError, "label must be a column of .* got 'ill'. Its columns are age"),
        ({"parties": "clinic"}, DataError, "parties must be a column, .* got 'clinic'. Its columns are age"),
        ({"parties": "hospitl"}, DataError, r"got 'hospitl'. Did you mean hospital\?"),
        ({"parties": 0}, ConfigError, "parties must be a whole number >= 1, got 0"),
        ({"parties": ["a", "b"]}, DataError, "parties must have one name for each of 120 rows, got 2 names"),
        ({"model": {"north": TREE}}, ConfigError, "model must be one model, or one for each party: north, south, west"),
        ({"model": 3}, ConfigError, "model must be an estimator"),
        ({"data": (hospital_rows(), ["a"] * 120), "label": "age"}, DataError, "label must be no column of X beside y"),
        ({"test": pd.DataFrame({"age": [1]})}, DataError, "test-table must hold rows with a label 'outcome'"),
        ({"model": Failing()}, ConfigError, r"model Failing failed before round 1.* no tree grows here"),
    ],
)
def test_a_failure_is_an_exception_with_the_command_line_s_sentence(door, changes, kind, said):
    with pytest.raises(kind, match=said):
        door(**{"data": hospital_rows(), "label": "outcome", "parties": "hospital", **changes})


def test_torch_modules_and_what_makes_them_are_models(door):
    torch = pytest.importorskip("torch")

    def net(num_features, num_classes):
        return torch.nn.Sequential(torch.nn.Linear(num_features, 8), torch.nn.ReLU(), torch.nn.Linear(8, num_classes))

    rows = hospital_rows()[["age", "bmi", "hospital", "outcome"]]
    settings = {"label": "outcome", "parties": "hospital", "algorithm": "fedct", "num_rounds": 1, "steps_per_round": 20}
    by_function = door(rows, model=net, **settings)
    by_module = door(rows, model=net(2, 2), **settings)
    for done in (by_function, by_module):
        assert len(done.predict(rows)) == 120
    again = pickle.loads(pickle.dumps(by_module))
    assert again.predict(rows).equals(by_module.predict(rows))


def test_rows_in_any_form_are_read_alike(door, plain, tmp_path):
    rows = hospital_rows()
    apart = {name: part.drop(columns="hospital") for name, part in rows.groupby("hospital")}
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for one in (tmp_path / "rows.csv", pa.Table.from_pandas(rows)):
        assert figures(door(one, label="outcome", parties="hospital").record) == figures(plain.record)
    rows[:60].to_csv(tmp_path / "rows.csv", index=False)  # edited between two runs
    edited = door(tmp_path / "rows.csv", label="outcome", parties="hospital")
    assert edited.parties.filter(like="rows_of").sum().sum() == 30
    whole = pd.concat([part.assign(hospital=name) for name, part in apart.items()])
    (folder := tmp_path / "silos").mkdir()
    for name, part in apart.items():
        part.to_csv(folder / f"{name}.csv", index=False)
    one, *others = [
        door(whole, label="outcome", parties="hospital"),
        door(apart, label="outcome"),
        door(folder, label="outcome"),
        door(sorted(folder.iterdir()), label="outcome"),
    ]
    assert [figures(other.record) == figures(one.record) for other in others] == [True] * 3
    arrays = {name: (part[["age", "bmi"]].to_numpy(), part.outcome == "ill") for name, part in apart.items()}
    X, done = arrays["north"][0], door(arrays, algorithm="fedct", num_rounds=1)
    assert done.predict(X).dtype == bool
    assert done.predict(X, class_shares={True: 1, False: 9}).sum() <= done.predict(X, class_shares="taught").sum()
    with pytest.raises(DataError, match="party 'east' must hold at least one row"):
        door({**arrays, "east": (X[:0], arrays["north"][1][:0])})
    with pytest.raises(DataError, match="table must hold at least one row"):
        door(rows[:0], label="outcome", parties=3)


def test_a_column_says_whose_row_it_is_and_the_answers_keep_text_and_index(plain):
    rows = hospital_rows().set_index(pd.Index(range(1000, 1120), name="id"))
    assert plain.parties.index.tolist() == ["north", "south", "west"]
    answers = plain.predict(rows.head(20), party="west")
    assert answers.index.equals(rows.index[:20])
    assert answers.name == "outcome"
    assert set(answers) <= {"ill", "well"}
    assert (plain.predict(rows) == rows.outcome).mean() > 0.8
    shares = plain.predict_proba(rows.head(3))
    assert shares.columns.tolist() == ["ill", "well"]
    assert shares.sum(axis=1).tolist() == pytest.approx([1.0] * 3)
    assert "30 (held out of your rows; public= gives others)" in repr(plain)


def test_nothing_but_the_record_the_log_and_the_models_stays_on_the_disk_and_flower_s_log_is_silent(
    door, tmp_path, capfd
):
    before = logging.getLogger("flwr").handlers[:]
    done = door(hospital_rows().assign(bmi=123.456), label="outcome", parties="hospital", name="kept")
    told = capfd.readouterr()
    assert told.out == told.err == ""
    assert logging.getLogger("flwr").handlers == before
    assert done.record.run_id in fk.runs(tmp_path).index
    assert "round 1/1" in find_run("kept", tmp_path).with_name(LOG).read_text()
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix in (".csv", ".json")]
    assert written
    assert not any(b"123.456,yes" in text for text in written)


@pytest.mark.slow
def test_python_and_the_command_line_reach_the_same_figures_to_the_last_digit(tmp_path):
    rows = hospital_rows()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    settings = {"algorithm": "fedct", "num_rounds": 2, "seed": 3, "output_dir": str(tmp_path)}
    here = fk.simulate(
        rows, label="outcome", parties="hospital", model={"north": "knn", "south": GaussianNB(), "west": TREE},
        progress=False, **settings,
    )  # fmt: skip
    specs = "mixed:knn,sklearn.naive_bayes:GaussianNB,trees:shallow"
    (tmp_path / "trees.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier\n"
        "def shallow(seed): return DecisionTreeClassifier(max_depth=3, random_state=seed)\n"
    )
    words = {"dataset": "table", "table": str(tmp_path / "rows.csv"), "label": "outcome", "model": specs}
    words |= {"partition-column": "hospital", **{key.replace("_", "-"): value for key, value in settings.items()}}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setitem(sys.modules, "matplotlib", None)  # its page needs no pictures
        patch.syspath_prepend(tmp_path)
        record, _ = in_processes(checked(words), party_starter(), lambda text: None, processes=1)
    assert record.status == "completed", record.reason
    assert figures(record) == figures(here.record)
