import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr.checks import read_word
from fedkd_flwr.errors import ConfigError, MissingExtraError, RefusalError
from fedkd_flwr.models import NAMES, make_model, pick_model
from fedkd_flwr.models.zoo import _ZOO, DEFAULT_MIX


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("name", ["cnn-fedkt", "cnn-privatekt", "cnn-fedmd", "cnn-fedmd-7"])
def test_cnns_take_both_image_sizes_without_being_told(name, shape):
    X = np.random.default_rng(0).random((4, int(np.prod(shape))), dtype=np.float32)
    model = make_model(name, num_classes=10, num_features=X.shape[1], seed=0, params={"max_steps": 1})
    assert model.fit(X, np.array([0, 1, 2, 3])).predict_proba(X).shape == (4, 10)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_parameter_names_the_accepted_ones(name):
    with pytest.raises(ConfigError, match=rf"A parameter of {name} must be among .*, got 'depth'"):
        make_model(name, num_classes=2, num_features=784, seed=0, params={"depth": 6})


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("xgboost", "xgboost", "xgboost"), ("mlp", "safetensors", "torch"), ("rulefit", "imodels", "rulefit")],
)
def test_missing_library_names_its_extra(name, library, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf'pip install "fedkd-flwr\[{extra}\]"'):
        make_model(name, num_classes=2, num_features=2, seed=0)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("random-forest", {"n_jobs": 64}),
        ("hist-gradient-boosting", {"scoring": "accuracy"}),
        ("xgboost", {"callbacks": ["os:system"]}),
        ("xgboost", {"kwargs": {"process_type": "update"}}),
        ("transformer", {"path": "/etc"}),
        ("mlp", {"seed": 1}),
    ],
)
def test_a_parameter_that_no_run_may_name_at_a_silo_is_refused_with_the_way_out(name, params):
    (parameter,) = params
    with pytest.raises(RefusalError, match=rf"be among .*, got '?{parameter}'?\. The owner of this node can name it"):
        make_model(name, num_classes=2, num_features=3, seed=1, params=params, of_run=True)


def test_all_published_simulations_name_parameters_that_runs_may_name():
    runs = [tomllib.loads(path.read_text()) for path in (Path(__file__).parents[2] / "simulations").glob("*.toml")]
    asked = [run[role] for run in runs for role in run if role in ("model", "teacher-model", "student-model")]
    assert len([spec for spec in asked if "(" in spec]) >= 30
    for spec in asked:
        for name, params in (read_word("model", pick_model(spec, i)) for i in range(10)):
            assert set(params) <= set(_ZOO[name].asked.split())


@pytest.mark.parametrize("gap", ["", " "])
def test_models_of_a_mixture_have_parameters_of_their_own(gap):
    spec = f"mixed:knn(n_neighbors=3){gap},{gap}mlp(hidden=[8, 8])"
    assert [pick_model(spec, i) for i in range(2)] == ["knn(n_neighbors=3)", "mlp(hidden=[8, 8])"]


def test_parameters_stand_in_the_model_s_brackets():
    model = make_model("random-forest(n_estimators=3, max_depth=2)", num_classes=2, num_features=4, seed=1)
    params = model.template.get_params()
    assert (params["n_estimators"], params["max_depth"]) == (3, 2)


def test_models_compute_on_one_thread_by_the_seed():
    for name in ("random-forest", "extra-trees", "xgboost"):
        one, other = (make_model(name, num_classes=2, num_features=2, seed=s).template.get_params() for s in (1, 2))
        assert one["n_jobs"] == 1
        assert (one["random_state"], other["random_state"]) == (1, 2)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("forest", {}, r"model must be one of decision-tree, .*got 'forest'"),
        ("knn", {"seed": -1}, "seed must be a whole number >= 0, got -1"),
        ("random-forest", {"params": {"max_depth": -3}}, r"Parameters of random-forest: .*'max_depth'.*Got -3"),
        *(("mlp", {"params": {key: 1}}, f"got '{key}'") for key in ("seed", "num_classes")),
        ("mlp", {"params": {"lr": float("nan")}}, "lr must be finite and > 0, got nan"),
        ("mlp", {"params": {"hidden": [0]}}, "a width of hidden must be a whole number within 1"),
        ("mlp", {"params": {"dropout": 1.0}}, r"dropout must be within \[0, 1\), got 1.0"),
        ("cnn-fedkt", {"num_features": 64}, r"shape must be \(channels, height, width\) of 64 columns"),
        ("cnn-fedkt", {"num_features": 64, "shape": (1, 8, 8)}, "shape must be at least 16 x 16 pixels"),
        ("cnn-fedmd-7", {"num_features": 361, "shape": (1, 19, 19)}, "shape must be at least 20 x 20 pixels for cnn"),
        *(
            ("cnn-fedmd", {"num_features": 784, "params": {"channels": c}}, "channels must (list two or three num|be)")
            for c in ([8], [8, 0], [8, 8, 8, 8], 8, [8, True])
        ),
    ],
)
def test_what_makes_no_model_is_refused_before_any_training(name, settings, message):
    with pytest.raises(ConfigError, match=message):
        make_model(name, **{"num_classes": 2, "num_features": 2, "seed": 0, **settings})


def test_no_row_speaks_alone_in_the_tree_of_the_default_mixture():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(2, size=300)  # without any sign
    tree = make_model(DEFAULT_MIX[-1], num_classes=2, num_features=3, seed=0, of_run=True)
    for fitted in (tree.fit(X, y), tree.fit_soft(X, np.eye(2)[y])):
        assert np.unique(fitted.estimator.apply(X), return_counts=True)[1].min() >= 5


def test_mixed_gives_neighbours_different_models_that_need_no_extra():
    assert [pick_model("mixed", i) for i in range(2 * len(DEFAULT_MIX))] == [*DEFAULT_MIX, *DEFAULT_MIX]
    assert len(set(DEFAULT_MIX)) == len(DEFAULT_MIX)
    assert not {"xgboost", "rulefit", "mlp"} & set(DEFAULT_MIX)
    tree, own = "decision-tree", "my.module:make"
    assert [pick_model(f"mixed:{tree}, {own}, {tree}", i) for i in (0, 1, 2, 4)] == [tree, own, tree, own]
    for spec in ("mixed:", "mixed:forest", "mixed:knn,,knn"):
        with pytest.raises(ConfigError, match="model must list names among"):
            pick_model(spec, 0)
