"""Which contents of a model file are believed of whom, and that no payload is read before it is checked."""

import io
import json
import zipfile

import numpy as np
import pytest
from models.model_files import ROWS, SMALL, Own, fitted_tree, forge, mlp
from scipy.sparse import csr_matrix
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.errors import ModelBytesError
from fedkd_flwr.models import Classifier, make_model, serialize


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(RobustScaler(), PCA(2), GaussianNB()),
        make_pipeline(QuantileTransformer(n_quantiles=4), BernoulliNB()),
        make_pipeline(StandardScaler(), PCA(5), LinearDiscriminantAnalysis()),
        MultinomialNB(),
        LinearSVC(),
        DummyClassifier(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_another_users_model_that_computes_with_numpy_alone_needs_no_trust(estimator, digits):
    X, y, X_test, _ = digits
    model = Classifier(estimator, num_classes=10).fit(X, y)
    again = serialize.loads(forge(serialize.dumps(model)))
    assert np.array_equal(model.predict(X_test), again.predict(X_test))


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (SVC(), r"sklearn\.svm\._classes\.SVC"),
        (KNeighborsClassifier(algorithm="brute"), "KNeighborsClassifier"),
        (make_pipeline(StandardScaler(), DecisionTreeClassifier()), r"sklearn\.tree\._classes.*Tree"),
        (HistGradientBoostingClassifier(max_iter=2), "HistGradientBoostingClassifier"),
        (GradientBoostingClassifier(n_estimators=2), "GradientBoosting"),
        ("xgboost", "XGBoost"),
        ("knn", "NearestNeighbours"),
    ],
    ids=str,
)
def test_anothers_file_whose_compiled_code_would_follow_it_asks_for_trust(estimator, name, digits):
    """An SVC of .8 MB ended `fedkd predict` by SIGSEGV, and k-NN answered from memory outside its classes."""
    X, y, X_test, _ = digits
    if isinstance(estimator, str):
        model = make_model(estimator, num_classes=10, num_features=64, seed=1, params=SMALL.get(estimator, {}))
    else:
        model = Classifier(estimator, num_classes=10)
    data = serialize.dumps(model.fit(X, y))
    assert serialize.loads(data).is_fitted  # this user wrote it
    changed = forge(data)
    match = rf"with .*{name}.* must be written by a run of this user .* compiled code reads memory .*, or --trust\."
    with pytest.raises(ModelBytesError, match=match):
        serialize.loads(changed)
    assert np.array_equal(serialize.loads(changed, trust=True).predict(X_test), model.predict(X_test))


def test_parts_that_skops_trusts_and_compiled_code_reads_are_found_wherever_they_hide():
    model = Classifier(GaussianNB(), num_classes=4).fit(ROWS, np.array([0, 1, 3, 3]))
    for hidden in (csr_matrix(np.eye(2)), np.random.RandomState(0), np.add, [{"a": fitted_tree().estimator}]):
        model.estimator.more = hidden
        with pytest.raises(ModelBytesError, match="must be written by a run of this user"):
            serialize.loads(forge(serialize.dumps(model)))


def test_another_users_own_type_is_refused_by_name_until_trusted(monkeypatch, tmp_path):
    data = serialize.dumps(Classifier(Own(), num_classes=4).fit(ROWS, np.array([0, 3, 3, 3])))
    assert serialize.loads(data).predict(ROWS).tolist() == [3] * 4
    monkeypatch.setattr(serialize, "SECRET", tmp_path / "another user's")
    refused = r"with models\.model_files\.Own must be .* Reading it runs that code\. If you"
    with pytest.raises(ModelBytesError, match=refused):
        serialize.loads(data)
    assert serialize.loads(data, trust=True).predict(ROWS).tolist() == [3] * 4


@pytest.mark.parametrize("name", ["decision-tree", "xgboost", "mlp"])
def test_a_payload_of_noise_is_refused(name, digits):
    X, y, _, _ = digits
    model = make_model(name, num_classes=10, num_features=64, seed=1, params=SMALL.get(name, {})).fit(X, y)
    for payload in (b"", np.random.default_rng(0).bytes(3000)):
        with pytest.raises(ModelBytesError, match="hold a readable"):
            serialize.loads(forge(serialize.dumps(model), payload=payload), trust=True)


def test_a_net_larger_than_its_weights_is_refused_before_it_is_built(digits):
    X, y, _, _ = digits
    data = serialize.dumps(mlp(epochs=1).fit(X, y))
    params = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("meta.json"))["params"]
    huge = {**params, "hidden": [2**19, 2**19, 2**19]}  # a terabyte and more
    with pytest.raises(ModelBytesError, match="other names or shapes"):
        serialize.loads(forge(data, params=huge))
