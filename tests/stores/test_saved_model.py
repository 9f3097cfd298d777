"""A model's file answers for raw rows as the model did in its run: after every algorithm, server's and parties'."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from grid import run_apps
from schemas import column, schema_of
from sklearn.base import clone, is_classifier
from sklearn.metrics import RocCurveDisplay, get_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import fedkd_flwr
from fedkd_flwr.app import server_app
from fedkd_flwr.clients import base
from fedkd_flwr.data.public import Encoder, make_public_set
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import DataError, ModelBytesError
from fedkd_flwr.models import Classifier, make_model, serialize
from fedkd_flwr.models.populations import Answering
from fedkd_flwr.stores.saved_model import SavedModel, load, save

NET = {"model": "mlp(hidden=[8], epochs=1)", "num-rounds": 1}
SETTINGS = {
    "fedct": {"model": "mixed:decision-tree,knn", "num-rounds": 2, "steps-per-round": 2},
    "fedkt": {"model": "decision-tree", "num-rounds": 1, "fedkt.teachers-per-student": 2},
    "fedmd": {**NET, "paper.initial-epochs": 1, "paper.distillation-epochs": 1, "paper.own-rows-epochs": 1},
    "fedavg": {**NET, "local-epochs": 1},
    "pooled-forest": {"model": "random-forest(n_estimators=3)", "num-rounds": 1},
}
"""One algorithm for each way in which server and parties come to the models that they keep."""
SERVER_HAS_ONE = {"fedkt", "fedavg", "pooled-forest"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Return a CSV file of people with numbers, texts, holes, an unknown category and an id."""
    rng = np.random.default_rng(0)
    rich = rng.integers(0, 2, 100)
    table = pd.DataFrame(
        {
            "id": [f"p{i:03d}" for i in range(100)],
            "age": np.round(30 + 20 * rich + rng.normal(0, 5, 100), 2),
            "job": np.where(rich, "manager", rng.choice(["clerk", "farmer"], 100)),
            "income": np.where(rich, "high", "low"),
        }
    )
    table["age"] = table["age"].astype(object)
    table.loc[::17, "age"] = ""
    path = tmp_path_factory.mktemp("rows") / "people.csv"
    table.to_csv(path, index=False)
    columns = column("age"), column("job", "clerk", "manager")
    schema = schema_of(*columns, classes=("low", "high"), label="income", id_column="id")
    schema.write(path.with_name("schema.toml"))
    return path


def _run(folder, rows, algorithm, monkeypatch):
    """Run an algorithm; return each file that it left, with the model and the public set as they were in the run."""
    kept, keep_server, keep_party = {}, server_app._keep_model, base.keep_models

    def server(model, public, record, path):
        keep_server(model, public, record, path)
        kept[path] = (model, public)

    def party(party, finished):
        files = keep_party(party, finished)
        for kind, path in files.items():
            alone = finished.alone if finished.alone is not None else finished.model
            kept[path] = (finished.model if kind == "federated" else alone, party.public)
        return files

    monkeypatch.setattr(server_app, "_keep_model", server)
    monkeypatch.setattr(base, "keep_models", party)
    table = {"dataset": "table", "table": str(rows), "label": "income", "partitioner": "iid"}
    config = {"algorithm": algorithm, "schema-path": str(rows.with_name("schema.toml")), "centralised": False}
    run_apps(folder, 2, {**table, **config, "save-party-models": True, **SETTINGS[algorithm]})
    return kept


_POPULATIONS = {".fedkd": {"taught", "common"}, ".model": {"taught", "own", "common"}}


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_after_a_run_each_file_answers_for_raw_rows_as_its_model_did_in_the_run(algorithm, rows, tmp_path, monkeypatch):
    kept = _run(tmp_path, rows, algorithm, monkeypatch)
    folder = tmp_path / "runs" / "1"
    assert sorted(kept) == sorted([*folder.glob("*.fedkd"), *folder.glob("parties/*.model")])
    assert (folder / "model.fedkd" in kept) == (algorithm in SERVER_HAS_ONE)
    table = read_table(rows)
    shuffled = table[table.columns[::-1]].assign(further=1)
    for path, (model, public) in kept.items():
        X = public.features(table)
        loaded = load(path)
        assert np.array_equal(loaded.features(shuffled), X)
        assert loaded.encoder.to_bytes() == Encoder.of(public).to_bytes()  # fitted on public rows: everybody's is one
        at_home = Answering(model, model.shares.get("own"))  # of a server's model and of others nothing but the model
        labels = np.array(["low", "high"])[at_home.predict(X)]
        assert loaded.predict(shuffled).tolist() == labels.tolist()
        assert np.array_equal(loaded.predict_proba(shuffled), at_home.predict_proba(X))
        alone = "alone" in path.name
        known = algorithm in ("fedct", "fedkt") or (algorithm == "pooled-forest" and alone)
        wanted = _POPULATIONS[path.suffix] - ({"common"} if alone else set()) if known else set()
        assert set(model.shares) == set(loaded.classifier.shares) == wanted


# ------------------------------------------------------------------------------------------------ one file


def _saved(folder, table, schema, y):
    public = make_public_set(table, schema)
    model = Classifier(DecisionTreeClassifier(random_state=0), num_classes=schema.num_classes).fit(public.X, y)
    return save(model, public, folder / "model.fedkd"), model, public


@pytest.fixture(scope="module")
def ages(tmp_path_factory):
    columns = column("age"), column("job", "clerk", "smith", "7"), column("hours")
    schema = schema_of(*columns, classes=("young", "old"))
    table = pd.DataFrame({"age": [20, 30, 60, 70], "job": ["clerk", "7", "smith", "?"], "hours": [1, 2, None, 4]})
    return load(_saved(tmp_path_factory.mktemp("ages"), table, schema, np.array([0, 0, 1, 1]))[0])


def test_columns_are_found_by_name_and_a_missing_one_is_named(ages):
    table = pd.DataFrame({"more": [1, 2], "hours": [3, None], "job": ["7.0", "astronaut"], "age": ["25", "65"]})
    assert ages.columns == ("age", "job", "hours")
    assert ages.predict(table).tolist() == ["young", "old"]
    assert ages.predict_proba(table).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert ages.predict(table[:0]).shape == (0,)
    with pytest.raises(DataError, match="got a table without age, hours"):
        ages.predict(table[["job"]])
    with pytest.raises(DataError, match=r"column 'age' must hold numbers, got 'old'"):
        ages.predict(table.assign(age="old"))
    with pytest.raises(DataError, match="rows must be a DataFrame or a NumPy array, got 'list'"):
        ages.predict([[1, 2, 3]])
    assert ages.features(table).shape == (2, 5)
    assert ages.features(table)[1, 1:4].tolist() == [0.0, 0.0, 0.0]  # an unknown category is none


def test_a_column_is_found_by_name_however_its_accents_are_written(tmp_path):
    schema = Schema(columns=(column("gr\u00f6sse"),), classes=("small", "tall"))
    table = pd.DataFrame({"gr\u00f6sse": [1.5, 1.6, 1.9, 2.0]})
    model = load(_saved(tmp_path, table, schema, np.array([0, 0, 1, 1]))[0])
    assert model.predict(pd.DataFrame({"gro\u0308sse": [1.95], "more": [0]})).tolist() == ["tall"]


def test_cells_of_no_category_are_a_warning_in_the_log_once_a_call(ages, caplog):
    table = pd.DataFrame({"hours": [3, None, 1], "job": ["7.0", "astronaut", ""], "age": ["25", "65", "30"]})
    ages.predict(table)
    (one,) = caplog.records
    assert (one.name, one.levelname) == ("fedkd_flwr.stores.saved_model", "WARNING")
    rule = "rows hold a category that the model does not know and count as missing there"
    assert one.message == f"column 'job': 1 of 3 {rule}: astronaut"
    caplog.clear()
    ages.predict(table.assign(job="two\nlines"))
    assert caplog.records[0].message.endswith(r"there: two\nlines")
    caplog.clear()
    ages.predict(table[table["job"] != "astronaut"])
    assert not caplog.records


def test_words_and_pixels_are_encoded_as_in_the_run(tmp_path):
    texts = schema_of(column("said", kind="text", max_terms=3))
    table = pd.DataFrame({"said": ["good film", "bad film", "good good day", ""]})
    path, model, public = _saved(tmp_path, table, texts, np.array([1, 0, 1, 0]))
    more = pd.DataFrame({"said": ["a good, good film", "nothing known", None]})
    assert np.array_equal(load(path).features(more), public.features(more))
    assert load(path).predict(more).tolist() == np.array(["no", "yes"])[model.predict(public.features(more))].tolist()
    images = Schema(columns=(), classes=("dark", "light"), shape=(1, 2, 2))
    pixels = np.array([[0, 1, 2, 3], [250, 251, 252, 253]], dtype=np.uint8)
    path, _, public = _saved(tmp_path, pixels, images, np.array([0, 1]))
    np.savez(tmp_path / "more.npz", X=pixels.reshape(2, 1, 2, 2)[::-1])
    read = read_table(tmp_path / "more.npz")
    assert load(path).predict(read).tolist() == ["light", "dark"]
    assert np.array_equal(load(path).features(read), public.features(pixels[::-1]))


def test_a_model_without_schema_or_of_another_problem_is_refused(tmp_path, ages):
    three = Classifier(DecisionTreeClassifier(), num_classes=3).fit(np.eye(3, dtype=np.float32), np.arange(3))
    serialize.save(three, tmp_path / "bare.fedkd")
    with pytest.raises(ModelBytesError, match=r"must hold a schema.*serialize\.load"):
        load(tmp_path / "bare.fedkd")
    other = serialize.with_encoder(serialize.dumps(three), ages.encoder.to_bytes())
    (tmp_path / "other.fedkd").write_bytes(other)
    with pytest.raises(ModelBytesError, match="have the classes and features of its encoder, 2 and 5, got 3 and 3"):
        load(tmp_path / "other.fedkd")


def test_parts_that_do_not_fit_together_are_refused_before_any_row_is_read(tmp_path, monkeypatch):
    """Changed files whose digests fit ended `fedkd predict` as if it had a bug."""
    schema = Schema(columns=tuple(column(name) for name in "ab"), classes=("young", "old"))
    public = make_public_set(pd.DataFrame({"a": [20, 30, 60, 70], "b": [1, 2, 3, 5]}), schema)
    model = Classifier(GaussianNB(), num_classes=2).fit(public.X, np.array([0, 0, 1, 1]))
    for name, value in (("theta_", np.zeros((2, 3))), ("class_prior_", "none"), ("var_", np.full((2, 2), np.nan))):
        with monkeypatch.context() as patch:
            patch.setattr(model.estimator, name, value)
            path = save(model, public, tmp_path / "model.fedkd")
        with pytest.raises(ModelBytesError, match="A model's file must hold a model that answers, got one that raises"):
            load(path)


def test_a_file_answers_in_a_process_that_knows_nothing_else(tmp_path, rows):
    schema = Schema.read(rows.with_name("schema.toml"))
    table = read_table(rows)
    public = make_public_set(table, schema)
    model = make_model("xgboost", num_classes=2, num_features=public.num_features, seed=1, params={"n_estimators": 3})
    path = save(model.fit(public.X, schema.encode_labels(table["income"])), public, tmp_path / "model.fedkd")
    answer = "print(*fedkd_flwr.load(sys.argv[1]).predict(pd.read_csv(sys.argv[2])))"
    command = [sys.executable, "-c", f"import sys, pandas as pd, fedkd_flwr\n{answer}", path, rows]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == fedkd_flwr.load(path).predict(table).tolist()


# ------------------------------------------------------------------------------------------------ class shares


@pytest.fixture
def sick(tmp_path):
    """Return a model of two overlapping classes whose owner has one ill row in ten."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    table = pd.DataFrame({"fever": rng.normal(size=200) + y})
    schema = Schema(columns=(column("fever"),), classes=("well", "ill"))
    public = make_public_set(table, schema)
    model = Classifier(GaussianNB(), num_classes=2).fit(public.X, y)
    model.shares = {"taught": np.array([0.5, 0.5]), "own": np.array([0.9, 0.1])}
    return load(save(model, public, tmp_path / "a.model"), trust=True), table, model, public


def test_a_partys_model_answers_for_its_owners_class_shares_and_for_others_that_are_named(sick):
    loaded, table, model, public = sick
    home = Answering(model, model.shares["own"]).predict_proba(public.X)
    assert np.array_equal(loaded.predict_proba(table), home)
    np.testing.assert_allclose(loaded.for_shares({"ill": 1, "well": 9}).predict_proba(table), home)
    np.testing.assert_allclose(loaded.for_shares("taught").predict_proba(table), model.predict_proba(public.X), 1e-6)
    ill = [(loaded.for_shares({"ill": share, "well": 1}).predict(table) == "ill").mean() for share in (0.1, 1, 10)]
    assert ill == sorted(ill)
    assert ill[0] < ill[2]
    assert loaded.score(table, loaded.predict(table)) == 1.0


@pytest.mark.parametrize(
    ("shares", "match"),
    [
        ("common", "be one of taught, own, or a share a class, got 'common'"),
        ({"ill": 1}, "name each class once: well, ill, got 'ill'"),
        ({"ill": 1, "well": 1, "dead": 1}, "name each class once: well, ill, got ill, well, dead"),
        ({"ill": 0, "well": 1}, "be numbers above 0"),
        ({"ill": float("nan"), "well": 1}, "be numbers above 0"),
    ],
)
def test_shares_that_a_model_cannot_answer_for_are_refused(sick, shares, match):
    with pytest.raises(DataError, match=match):
        sick[0].for_shares(shares)


def test_a_model_that_does_not_say_how_it_was_taught_is_refused_other_shares(ages):
    with pytest.raises(DataError, match=r"be those of a model that says how it was taught.*fedct, fedkt and pate"):
        ages.for_shares({"young": 1, "old": 1})


# ------------------------------------------------------------------------------------------------ scikit-learn

ROWS = pd.DataFrame({"age": [20, 30, 60, 70] * 5, "town": ["A", "B", None, "A"] * 5})
AGES = np.array(["young", "young", "old", "old"] * 5)


def _model(classes=("old", "young"), values=(), estimator=None):
    columns = (column("age"), column("town", "A", "B"))
    public = make_public_set(ROWS, Schema(columns=columns, classes=classes))
    own = estimator or DecisionTreeClassifier()
    tree = Classifier(own, num_classes=2).fit(public.X, (ROWS.age < 50).to_numpy().astype(int))
    return SavedModel(classifier=tree, encoder=Encoder.of(public), values=values)


def test_it_says_what_scikit_learn_asks_a_fitted_classifier():
    model = _model()
    pipeline = make_pipeline(FunctionTransformer(), model).fit(ROWS, AGES[::-1])  # which does not change it
    assert pipeline.predict(ROWS).tolist() == AGES.tolist()
    assert RocCurveDisplay.from_estimator(model, ROWS, AGES).roc_auc == 1.0
    assert repr(model) == "SavedModel: DecisionTreeClassifier\n  columns: age, town\n  classes: old, young"
    whole = make_pipeline(StandardScaler(), DecisionTreeClassifier())
    assert repr(_model(estimator=whole)).startswith("SavedModel: Pipeline\n")
    assert is_classifier(model)
    assert model.classes_.tolist() == ["old", "young"]
    assert model.feature_names_in_.tolist() == ["age", "town"]
    assert model.n_features_in_ == 2
    assert clone(model) is model


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "roc_auc", "neg_log_loss"])
def test_scorers_take_it(name):
    assert get_scorer(name)(_model(), ROWS, AGES) == pytest.approx(0.0 if name == "neg_log_loss" else 1.0, abs=1e-9)


def test_score_knows_classes_by_their_names_and_by_what_they_stand_for():
    model = _model(classes=("0", "1"))
    wanted = (ROWS.age < 50).to_numpy()
    assert model.score(ROWS, wanted.astype(float)) == 1.0
    assert model.score(ROWS, wanted.astype(int).astype(str)) == 1.0
    assert model.score(ROWS, 1 - wanted, sample_weight=np.arange(20)) == 0.0


@pytest.mark.parametrize(
    ("classes", "answers"), [(("0", "1"), [1, 0]), (("-1", "1"), [1, -1]), (("01", "1"), ["1", "01"])]
)
def test_classes_that_are_whole_numbers_come_back_as_such_from_a_file(classes, answers):
    assert _model(classes=classes).predict(ROWS.sort_values("age").iloc[[0, -1]]).tolist() == answers


def test_it_answers_with_the_user_s_own_values_where_they_are_known():
    model = _model(classes=("0", "1"), values=(0.0, 1.0))
    assert model.predict(ROWS[:3]).tolist() == [1.0, 1.0, 0.0]
    assert get_scorer("f1")(model, ROWS, (ROWS.age < 50).astype(float)) == 1.0
