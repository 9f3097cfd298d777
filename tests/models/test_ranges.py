"""What a run may not ask of a zoo's model at a silo, and that everything published and documented may be asked."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from fedkd_flwr.errors import RefusalError
from fedkd_flwr.models.ranges import FOREST, Rule, check_asked, check_work
from fedkd_flwr.models.zoo import _ZOO, NAMES, parse_params, pick_model

ROOT = Path(__file__).parents[2]
FORESTS = ("random-forest", "extra-trees")
NETS = [name for name in NAMES if name.startswith(("mlp", "cnn"))]
ABSURD = {
    "decision-tree": [{"max_depth": 10**6}, {"splitter": "os:system"}, {"random_state": 1}, {"criterion": ["gini"]}],
    **{
        name: [{"n_estimators": 10**9}, {"n_jobs": 64}, {"verbose": 9}, {"warm_start": True}, {"n_estimators": True}]
        for name in FORESTS
    },
    "hist-gradient-boosting": [{"max_iter": 10**8}, {"scoring": "accuracy"}, {"categorical_features": [0]}],
    "logistic-regression": [{"max_iter": 100000000}, {"n_jobs": -1}, {"solver": "newton-cholesky"}, {"C": 1e300}],
    "knn": [{"n_neighbors": 10**9}, {"p": 0.001}, {"algorithm": "kd_tree"}, {"metric": "os.system"}],
    "xgboost": [
        {"booster": "dart"},
        {"callbacks": ["os:system"]},
        {"n_estimators": 10**9},
        {"max_depth": 0},
        {"max_depth": 64},
        {"n_jobs": 64},
        {"device": "cuda:9"},
        {"kwargs": {"process_type": "update"}},
        {"eval_metric": "auc"},
        {"interaction_constraints": "[[0]]"},
    ],
    "rulefit": [{"max_rules": 10**9}, {"tree_size": 10**6}, {"alpha": 0.0}],
    **{
        name: [{"epochs": 10**9}, {"batch_size": 0}, {"device": "meta"}, {"lr": float("nan")}, {"lr": 1e300}]
        for name in NETS
    },
    "transformer": [{"path": "/etc"}, {"path": "somebody/model"}, {"max_length": 10**6}, {"epochs": 10**9}],
}
ABSURD["mlp"] += [{"hidden": [100000, 100000]}, {"hidden": [8] * 9}, {"hidden": []}, {"hidden": [[8]]}]
ABSURD["cnn-fedmd"] += [{"channels": [10**5, 10**5]}]
EACH = [(name, params) for name, absurd in ABSURD.items() for params in absurd]


def test_every_model_of_the_zoo_is_put_to_the_test():
    assert set(ABSURD) == set(NAMES)
    assert all(len(absurd) >= 3 for absurd in ABSURD.values())


@pytest.mark.parametrize(("name", "params"), EACH, ids=[f"{name}-{json.dumps(p)[:40]}" for name, p in EACH])
def test_absurd_parameters_are_refused_by_name_with_the_way_out(name, params):
    (parameter,) = params
    with pytest.raises(RefusalError, match=r"must be .*, got .* The owner of this node can name it in") as caught:
        check_asked(name, params, _ZOO[name].ranges)
    assert parameter in str(caught.value)


@pytest.mark.parametrize(
    ("name", "params", "num_classes"),
    [
        ("mlp", {"hidden": [4096] * 8, "epochs": 1000, "batch_size": 64}, 10),
        ("mlp", {"hidden": 4096, "epochs": 1000, "batch_size": 1}, 1000),
        ("cnn-fedmd", {"channels": [1024] * 3, "epochs": 1000, "batch_size": 64}, 10),
        ("xgboost", {"n_estimators": 1000, "max_depth": 16, "learning_rate": 0.1}, 5000),
        ("random-forest", {"n_estimators": 1000, "max_depth": None}, 2),
        ("logistic-regression", {"max_iter": 10_000}, 5000),
    ],
)
def test_parameters_within_their_ranges_are_refused_where_their_product_is_absurd(name, params, num_classes):
    features = 10**6 if name == "random-forest" else 784
    with pytest.raises(RefusalError, match=rf"Parameters of {name}.* must ask for at most 2e\+10 multiply-adds"):
        check_work(name, params, _ZOO[name].ranges, num_features=features, num_classes=num_classes)


def _asked_by(path):
    run = tomllib.loads(path.read_text(encoding="utf-8"))
    for role in ("model", "teacher-model", "student-model"):
        if spec := run.get(role):
            yield spec, run.get(f"{role.removesuffix('-model').removesuffix('model') or 'model'}-params", "")


def test_all_published_simulations_are_within_the_ranges():
    asked = [one for path in sorted((ROOT / "simulations").glob("*.toml")) for one in _asked_by(path)]
    assert len([params for _, params in asked if params]) >= 30
    for spec, params in asked:
        for name in {pick_model(spec, i) for i in range(10)}:
            check_asked(name, parse_params(params), _ZOO[name].ranges)


def test_the_same_rule_refuses_a_truth_value_where_a_number_is_asked():
    assert not Rule(whole=(0, 1)).takes(True)
    assert not Rule(number=(0, 1)).takes(True)
    assert not Rule(words=(True,)).takes(1)


def test_numbers_beyond_any_float_are_refused_and_not_an_overflow():
    with pytest.raises(RefusalError, match="n_estimators of random-forest"):
        check_asked("random-forest", {"n_estimators": 10**400}, FOREST)
    with pytest.raises(RefusalError, match="ccp_alpha of random-forest"):
        check_asked("random-forest", {"ccp_alpha": 10**400}, FOREST)
