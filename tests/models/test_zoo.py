import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.checks import read_word
from fedkd_flwr.errors import ConfigError, MissingExtraError, RefusalError
from fedkd_flwr.models import NAMES, make_model, pick_model
from fedkd_flwr.models.zoo import _ZOO, DEFAULT_MIX

QUICK = {
    "random-forest": {"n_estimators": 20},
    "extra-trees": {"n_estimators": 20},
    "hist-gradient-boosting": {"max_iter": 10},
    "xgboost": {"n_estimators": 10},
    "rulefit": {"n_estimators": 20},
    "mlp": {"hidden": [64], "epochs": 15, "batch_size": 32},
    "cnn-fedkt": {"epochs": 6, "batch_size": 16, "lr": 3e-3},
    "cnn-privatekt": {"epochs": 2, "batch_size": 16, "lr": 1e-3},
    "cnn-fedmd": {"epochs": 3, "batch_size": 16, "channels": [16, 16]},
}
LEAST = {
    "rulefit": 0.75,
    "hist-gradient-boosting": 0.6,
    "decision-tree": 0.6,
    "cnn-privatekt": 0.5,
}  # chance: 0.1; rulefit 0.33


def my_factory(*, num_classes, num_features, seed, max_depth=2):
    assert (num_classes, num_features) == (10, 64)
    return DecisionTreeClassifier(max_depth=max_depth, random_state=seed)


def broken_factory():
    raise KeyError("oops")


def no_estimator():
    return 3


def rows_for(name, X):
    """CNNs need at least 16 x 16 pixels, FedMD's 20 x 20: repeat each one."""
    if not name.startswith("cnn"):
        return X, None
    times = 3 if name.startswith("cnn-fedmd") else 2
    block, side = np.ones((1, times, times), dtype=np.float32), 8 * times
    return np.kron(X.reshape(-1, 8, 8), block).reshape(len(X), -1), (1, side, side)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("cnn-fedmd-", "transformer"))])
def test_every_name_learns_digits_repeats_itself_and_fills_all_columns(name, digits):
    X, y, X_test, y_test = digits
    X, shape = rows_for(name, X[:150] if name == "rulefit" else X)
    y = y[: len(X)]
    if name == "rulefit":  # ten models of rules are slow: three classes
        X, y = X[y < 3], y[y < 3]
        X_test, y_test = X_test[y_test < 3], y_test[y_test < 3]
    X_test, _ = rows_for(name, X_test[:500])

    def fitted(seed):
        params = QUICK.get(name, {})
        model = make_model(name, num_classes=10, num_features=X.shape[1], shape=shape, seed=seed, params=params)
        return model.fit(X, y)

    first, again = fitted(5), fitted(5)
    assert (first.predict(X_test) == y_test[:500]).mean() >= LEAST.get(name, 0.7)
    probs = first.predict_proba(X_test)
    assert np.array_equal(probs, again.predict_proba(X_test))
    assert probs.shape == (len(X_test), 10)
    assert np.allclose(probs.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["random-forest", "extra-trees", "mlp"])
def test_another_seed_is_another_model(name, digits):
    X, y, X_test, _ = digits
    probs = [
        make_model(name, num_classes=10, num_features=64, seed=seed, params=QUICK[name]).fit(X, y).predict_proba(X_test)
        for seed in (1, 2)
    ]
    assert not np.array_equal(*probs)


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith(("cnn", "transformer"))])
def test_every_name_takes_two_rows_of_two_classes(name):
    X = np.array([[0.0, 1.0], [1.0, 0.0]], dtype=np.float32)
    params = {"epochs": 2} if name == "mlp" else {}
    model = make_model(name, num_classes=5, num_features=2, seed=0, params=params).fit(X, np.array([4, 1]))
    assert set(model.predict(X)) <= set(range(5))


def test_models_compute_on_one_thread():
    for name in ("random-forest", "extra-trees", "xgboost"):
        model = make_model(name, num_classes=2, num_features=2, seed=0)
        assert model.template.get_params()["n_jobs"] == 1


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("cnn")])
def test_cnns_take_both_image_sizes_without_being_told(name, shape):
    X = np.random.default_rng(0).random((4, int(np.prod(shape))), dtype=np.float32)
    model = make_model(name, num_classes=10, num_features=X.shape[1], seed=0, params={"max_steps": 1})
    assert model.fit(X, np.array([0, 1, 2, 3])).predict_proba(X).shape == (4, 10)


def _layers(name, **params):
    pytest.importorskip("torch")
    net = make_model(name, num_classes=6, num_features=784, seed=0, params=params).template.build()
    return [part for part in net.modules() if not list(part.children())][1:]


def test_privatekt_net_is_the_published_one():
    """The published code: https://github.com/taoqi98/PrivateKT, Code/model.py (Keras)."""
    layers = _layers("cnn-privatekt")
    dense = ["Linear", "ReLU", "Dropout"]
    expected = [*["Conv2d", "MaxPool2d", "Dropout"] * 2, "Flatten", *dense * 3, "Linear"]
    assert [type(layer).__name__ for layer in layers] == expected
    assert {layer.p for layer in layers if hasattr(layer, "p")} == {0.2}
    weights = [layer.weight for layer in layers if hasattr(layer, "weight")]
    assert [tuple(w.shape) for w in weights] == [
        *((32, 1, 5, 5), (128, 32, 5, 5)),
        *((512, 128 * 4 * 4), (512, 512), (512, 512), (6, 512)),
    ]
    # Glorot's law: uniform within sqrt(6 / (inputs + outputs))
    assert abs(float(weights[3].detach().abs().max()) / (6 / 1024) ** 0.5 - 1) < 1e-3
    assert all(float(layer.bias.detach().abs().max()) == 0 for layer in layers if hasattr(layer, "bias"))


@pytest.mark.parametrize(
    ("number", "channels", "dropout"),
    [(0, [128, 256], 0.2), (4, [256, 512], 0.4), (5, [64, 128, 256], 0.2), (9, [128, 128, 192], 0.3)],
)
def test_fedmd_nets_are_the_published_ten(number, channels, dropout):
    """FedMD_clean, conf/EMNIST_balance_conf.json and Neural_Networks.py (Keras)."""
    layers = _layers(f"cnn-fedmd-{number}")
    block = ["Conv2d", "BatchNorm2d", "ReLU", "Dropout"]
    middle = [*block, "AvgPool2d"] if len(channels) == 3 else []
    expected = [*block, "ReplicationPad2d", "AvgPool2d", *middle, *block, "Flatten", "Linear"]
    assert [type(layer).__name__ for layer in layers] == expected
    assert [layer.out_channels for layer in layers if hasattr(layer, "out_channels")] == channels
    assert {layer.p for layer in layers if hasattr(layer, "p")} == {dropout}
    pixels = 13 * 13 if len(channels) == 2 else 3 * 3
    assert tuple(layers[-1].weight.shape) == (6, channels[-1] * pixels)
    assert layers[-1].bias is None


def test_fedmd_smoothing_leaves_the_edge_out_as_keras_does():
    torch = pytest.importorskip("torch")
    pad, pool = _layers("cnn-fedmd", channels=[1, 1], dropout=0)[3:5]
    pixels = torch.arange(9.0).reshape(1, 1, 3, 3)
    # Keras, pool_size=2, strides=1, padding="same": windows at the lower and right edge average what there is
    assert pool(pad(pixels)).ravel().tolist() == [2, 3, 3.5, 5, 6, 6.5, 6.5, 7.5, 8]


def test_the_channels_of_a_fedmd_net_are_checked():
    for channels in ([8], [8, 0], [8, 8, 8, 8], 8, [8, True]):
        with pytest.raises(ConfigError, match=r"channels must (list two or three numbers|be a whole number within 1)"):
            make_model("cnn-fedmd", num_classes=2, num_features=784, seed=0, params={"channels": channels})


def test_fedmd_needs_room_for_its_pooling():
    with pytest.raises(ConfigError, match="shape must be at least 20 x 20 pixels for cnn-fedmd"):
        make_model("cnn-fedmd-7", num_classes=2, num_features=361, shape=(1, 19, 19), seed=0)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"model must be one of decision-tree, .*got 'forest'"):
        make_model("forest", num_classes=2, num_features=2, seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_parameter_names_the_accepted_ones(name):
    with pytest.raises(ConfigError, match=rf"A parameter of {name} must be among .*, got 'depth'"):
        make_model(name, num_classes=2, num_features=784, seed=0, params={"depth": 6})


@pytest.mark.parametrize("key", ["random_state", "seed", "num_classes"])
def test_what_the_run_decides_is_no_parameter(key):
    name = "random-forest" if key == "random_state" else "mlp"
    with pytest.raises(ConfigError, match=f"got '{key}'"):
        make_model(name, num_classes=2, num_features=2, seed=0, params={key: 1})


def test_wrong_value_is_found_before_any_training():
    with pytest.raises(ConfigError, match=r"Parameters of random-forest: .*'max_depth'.*Got -3"):
        make_model("random-forest", num_classes=2, num_features=2, seed=0, params={"max_depth": -3})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lr": float("nan")}, "lr must be finite and > 0, got nan"),
        ({"hidden": [0]}, "a width of hidden must be a whole number within 1"),
        ({"optimizer": "lion"}, "optimizer must be one of adam, sgd, got 'lion'"),
        ({"epochs": 1.5}, "epochs must be a whole number >= 1, got 1.5"),
        ({"dropout": 1.0}, r"dropout must be within \[0, 1\), got 1.0"),
    ],
)
def test_wrong_value_of_a_net_is_found_before_any_training(params, message):
    with pytest.raises(ConfigError, match=message):
        make_model("mlp", num_classes=2, num_features=2, seed=0, params=params)


def test_cnn_on_rows_that_are_no_image_says_so():
    with pytest.raises(ConfigError, match=r"shape must be \(channels, height, width\) of 64 columns"):
        make_model("cnn-fedkt", num_classes=10, num_features=64, seed=0)


def test_cnn_on_too_small_images_says_so():
    with pytest.raises(ConfigError, match="shape must be at least 16 x 16 pixels"):
        make_model("cnn-fedkt", num_classes=10, num_features=64, shape=(1, 8, 8), seed=0)


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("xgboost", "xgboost", "xgboost"), ("mlp", "skorch", "torch"), ("rulefit", "imodels", "rulefit")],
)
def test_missing_library_names_its_extra(name, library, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf'pip install "fedkd-flwr\[{extra}\]"'):
        make_model(name, num_classes=2, num_features=2, seed=0)


def test_import_string_gets_what_its_signature_accepts():
    spec = f"{__name__}:my_factory"
    model = make_model(spec, num_classes=10, num_features=64, seed=7, params={"max_depth": 3})
    assert model.template.get_params()["max_depth"] == 3
    assert model.template.get_params()["random_state"] == 7


def test_import_string_of_a_class_gets_the_seed_as_random_state():
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


def test_negative_seed_is_refused():
    with pytest.raises(ConfigError, match="seed must be a whole number >= 0, got -1"):
        make_model("knn", num_classes=2, num_features=2, seed=-1)


def test_mixed_gives_neighbours_different_models_that_need_no_extra():
    picked = [pick_model("mixed", i) for i in range(2 * len(DEFAULT_MIX))]
    assert picked == [*DEFAULT_MIX, *DEFAULT_MIX]
    assert len(set(DEFAULT_MIX)) == len(DEFAULT_MIX)
    assert not {"xgboost", "rulefit", "mlp"} & set(DEFAULT_MIX)


def test_mixed_list_may_hold_import_strings_and_repeat():
    spec = "mixed:decision-tree, my.module:make, decision-tree"
    assert [pick_model(spec, i) for i in (0, 1, 2, 4)] == [
        "decision-tree",
        "my.module:make",
        "decision-tree",
        "my.module:make",
    ]


@pytest.mark.parametrize("spec", ["mixed:", "mixed:forest", "mixed:knn,,knn"])
def test_mixed_list_with_an_unknown_name_is_refused(spec):
    with pytest.raises(ConfigError, match="model must list names among"):
        pick_model(spec, 0)


@pytest.mark.parametrize("gap", ["", " "])
def test_models_of_a_mixture_have_parameters_of_their_own(gap):
    spec = f"mixed:knn(n_neighbors=3){gap},{gap}mlp(hidden=[8, 8])"
    assert [pick_model(spec, i) for i in range(2)] == ["knn(n_neighbors=3)", "mlp(hidden=[8, 8])"]


def test_parameters_stand_in_the_model_s_brackets():
    model = make_model("random-forest(n_estimators=3, max_depth=2)", num_classes=2, num_features=4, seed=1)
    params = model.template.get_params()
    assert (params["n_estimators"], params["max_depth"]) == (3, 2)


# ------------------------------------------------------------------------------------------------ rare classes


@pytest.mark.parametrize(
    ("name", "params", "weights"),
    [
        ("decision-tree", {"max_depth": 4}, {"class_weight": "balanced"}),
        ("random-forest", {"max_depth": 4, "n_estimators": 20}, {"class_weight": "balanced"}),
        ("extra-trees", {"max_depth": 4, "n_estimators": 20}, {"class_weight": "balanced_subsample"}),
        ("logistic-regression", {}, {"class_weight": "balanced"}),
        ("hist-gradient-boosting", {"max_iter": 5}, {"class_weight": "balanced"}),
        ("xgboost", {"n_estimators": 10, "max_depth": 2}, {"scale_pos_weight": 50}),
    ],
)
def test_weights_that_a_run_may_ask_of_a_silo_find_rows_of_a_rare_class(name, params, weights):
    if name == "xgboost":
        pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    y = (rng.random(1500) < 0.02).astype(int)
    X = (rng.normal(size=(1500, 3)) + 1.2 * y[:, None]).astype(np.float32)
    recalls = []
    for more in ({}, weights):
        made = make_model(name, num_classes=2, num_features=3, seed=1, params=params | more, of_run=True)
        recalls.append(made.fit(X[:1000], y[:1000]).metrics(X[1000:], y[1000:]).recall[1])
    assert recalls[1] >= recalls[0] + 0.2


# ----------------------------------------------------------------------------------------- what a run may name


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("random-forest", {"n_jobs": 64}),
        ("logistic-regression", {"n_jobs": -1}),
        ("hist-gradient-boosting", {"scoring": "accuracy"}),
        ("knn", {"metric": "os.system"}),
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
            assert set(params) <= set(_ZOO[name].asked)
