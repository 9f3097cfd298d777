"""The zoo on the data and at the sizes of the published experiments: FEDKD_DATA names their directory."""

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

from fedkd_flwr.models import make_model, serialize


@pytest.mark.parametrize(
    ("path", "columns", "rows", "model", "params", "least"),
    [
        # a majority vote gives 0.76 and 0.67
        ("adult/a9a.gz", 123, 4070, "random-forest", {"max_depth": 6}, 0.82),
        ("adult/a9a.gz", 123, 4070, "logistic-regression", {}, 0.84),
        ("adult/a9a.gz", 123, 2000, "rulefit", {}, 0.82),
        ("cod-rna/cod-rna.gz", 8, 9039, "xgboost", {"learning_rate": 0.05}, 0.92),
    ],
)
def test_known_accuracy_survives_the_wrapper_and_saving(path, columns, rows, model, params, least, data_dir):
    X, y = load_svmlight_file(str(data_dir / path), n_features=columns)
    order = np.random.default_rng(0).permutation(len(y))[: rows + 5000]
    X, y = np.ascontiguousarray(X[order].toarray(), dtype=np.float32), (y[order] > 0).astype(np.int16)
    classifier = make_model(model, num_classes=2, num_features=columns, seed=0, params=params).fit(X[:rows], y[:rows])
    labels = classifier.predict(X[rows:])
    assert (labels == y[rows:]).mean() >= least
    assert np.array_equal(serialize.loads(serialize.dumps(classifier)).predict(X[rows:]), labels)
