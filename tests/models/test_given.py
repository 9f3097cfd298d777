"""Models that a program hands over as objects: fresh ones at each call, with the run's seed where they have none."""

import pytest
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.models import make_model
from fedkd_flwr.models.given import given_model, is_given, name_of, shown

SIZE = {"num_classes": 2, "num_features": 3}


def _made(model, seed=5, **more):
    return make_model(name_of(model), seed=seed, **SIZE, **more).template


def test_an_estimator_is_cloned_and_takes_the_seed_only_where_it_has_none():
    free, fixed = DecisionTreeClassifier(max_depth=2), DecisionTreeClassifier(random_state=1)
    assert _made(free).get_params() == free.get_params() | {"random_state": 5}
    assert _made(fixed).random_state == 1
    assert free.random_state is None


def test_a_function_gets_what_it_names_and_an_object_without_parameters_is_copied_before_it_learns():
    def make(num_features, seed):
        return DecisionTreeClassifier(max_depth=num_features, random_state=seed)

    assert _made(make).max_depth == 3
    methods = {"fit": lambda self, X, y: self, "predict": lambda self, X: [0] * len(X)}
    plain = type("Plain", (), methods)()
    assert _made(plain) is not plain


def test_names_tell_models_apart_and_are_shown_without_what_makes_them_unique():
    names = [name_of(DecisionTreeClassifier(max_depth=depth)) for depth in (1, 2, 2)]
    assert names[0] != names[1] == names[2]
    assert is_given(names[0])
    assert not is_given("sklearn.tree:DecisionTreeClassifier")
    assert given_model(names[0]).max_depth == 1
    assert shown(f"{names[0]} on all rows") == "DecisionTreeClassifier on all rows"


def test_what_is_no_model_or_one_of_another_process_is_refused():
    with pytest.raises(ConfigError, match="model must be an estimator, a module, a class, a function or a name, got 3"):
        name_of(3)
    with pytest.raises(ConfigError, match="model must name a function or class"):
        make_model("fedkd_flwr.models.given:Tree_00000000", seed=1, **SIZE)
