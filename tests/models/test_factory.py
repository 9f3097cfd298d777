"""A user's own model by an import string: what its factory is called with, and what is wrong with it."""

import pytest
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.models import make_model


def my_factory(*, num_classes, num_features, seed, max_depth=2):
    assert (num_classes, num_features) == (10, 64)
    return DecisionTreeClassifier(max_depth=max_depth, random_state=seed)


def broken_factory():
    raise KeyError("oops")


def no_estimator():
    return 3


def test_an_import_string_gets_what_its_signature_accepts():
    spec = f"{__name__}:my_factory"
    model = make_model(spec, num_classes=10, num_features=64, seed=7, params={"max_depth": 3})
    assert (model.template.max_depth, model.template.random_state) == (3, 7)
    model = make_model("sklearn.tree:ExtraTreeClassifier", num_classes=10, num_features=64, seed=7)
    assert model.template.get_params()["random_state"] == 7


@pytest.mark.parametrize(
    ("spec", "params", "message"),
    [
        ("no_such_module:f", {}, r"model must be importable, got no_such_module:f \(No module"),
        ("sklearn.tree:Nothing", {}, "model must name a function or class of sklearn.tree"),
        ("sklearn.tree:", {}, 'model must be "package.module:factory"'),
        (f"{__name__}:my_factory", {"depth": 1}, "must be among num_classes, num_features, seed, max_depth"),
        (f"{__name__}:broken_factory", {}, "broken_factory must return an estimator, got KeyError: 'oops'"),
        (f"{__name__}:no_estimator", {}, r"estimator must be an object with fit\(X, y\)"),
    ],
)
def test_broken_import_string_says_what_is_wrong(spec, params, message):
    with pytest.raises(ConfigError, match=message):
        make_model(spec, num_classes=10, num_features=64, seed=0, params=params)
