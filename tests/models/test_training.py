import numpy as np
import pytest
from models.model_files import mlp
from sklearn.tree import DecisionTreeClassifier

torch = pytest.importorskip("torch")

from torch.nn.functional import cross_entropy  # noqa: E402  # after the skip

from fedkd_flwr.errors import ConfigError, DataError, FedkdError  # noqa: E402
from fedkd_flwr.models import Classifier, make_model  # noqa: E402

VERBS = [*("initialize", "arrays", "set_arrays", "logits", "train_epochs", "digest", "joint_steps"), "full_batch_steps"]


def fedmd(seed=0):
    params = {"channels": [4, 6, 8], "dropout": 0.2, "batch_size": 32}
    return make_model("cnn-fedmd", num_classes=10, num_features=576, shape=(1, 24, 24), seed=seed, params=params)


def enlarged(X):
    return np.kron(X.reshape(-1, 8, 8), np.ones((1, 3, 3), np.float32)).reshape(len(X), -1)


def same(first, second):
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def call(model, verb, X, y):
    """Call a verb of training with targets that suit it."""
    probs = np.eye(model.num_classes, dtype=np.float32)[y]
    return {
        "train_epochs": lambda: model.train_epochs(X, y, epochs=1),
        "digest": lambda: model.digest(X, probs, epochs=1, loss="cross-entropy"),
        "joint_steps": lambda: model.joint_steps(X, y, X, probs, steps=3, weight=1, loss="mse-probs"),
        "full_batch_steps": lambda: model.full_batch_steps(X, probs, steps=2),
    }[verb]()


TRAINING = ["train_epochs", "digest", "joint_steps", "full_batch_steps"]


@pytest.mark.parametrize("verb", VERBS)
def test_other_estimators_are_told_which_models_can(verb, digits):
    X, y, _, _ = digits
    model = Classifier(DecisionTreeClassifier(), num_classes=10).fit(X, y)
    assert (model.supports_soft_steps, mlp().supports_soft_steps) == (False, True)
    arguments = {"set_arrays": ([],), "logits": (X,)}.get(verb, ())
    message = "The model must be a torch net, got an estimator DecisionTreeClassifier. Use a torch net: mlp, cnn-"
    with pytest.raises(ConfigError, match=message):
        call(model, verb, X, y) if verb in TRAINING else getattr(model, verb)(*arguments)


def test_an_initialised_net_gives_the_arrays_of_its_seed(digits):
    first = mlp(1).initialize().arrays()
    assert [array.shape for array in first] == [(32, 64), (32,), (10, 32), (10,)]
    assert {array.dtype for array in first} == {np.dtype(np.float32)}
    assert same(first, mlp(1).initialize().arrays())
    assert not same(first, mlp(2).initialize().arrays())
    X, y, _, _ = digits
    model = mlp(1).train_epochs(X, y, epochs=1)
    assert same(model.initialize().arrays(), first)  # it forgets what was learnt
    assert not model.estimator.optimizer_.state


def test_arrays_make_an_unfitted_net_answer_like_their_origin(digits):
    X, y, X_test, _ = digits
    X, X_test = enlarged(X), enlarged(X_test[:200])
    origin = fedmd(1).train_epochs(X, y, epochs=1)  # its batch statistics have moved from their start
    other = fedmd(2).set_arrays(origin.arrays())
    assert np.array_equal(origin.logits(X_test), other.logits(X_test))
    assert other.is_fitted
    assert not other.estimator.optimizer_.state
    names = [name for name in origin.estimator.module_.state_dict() if not name.endswith("num_batches_tracked")]
    assert len(origin.arrays()) == len(names)
    assert sum("running" in name for name in names) == 6


def test_arrays_are_copies_both_ways(digits):
    X, y, _, _ = digits
    model = mlp().initialize()
    given = [array.copy() for array in model.arrays()]
    for array in given:
        array.flags.writeable = False
    model.set_arrays(given)
    taken = model.arrays()
    model.train_epochs(X, y, epochs=1)
    assert same(given, taken)
    assert not same(taken, model.arrays())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a[:-1], "arrays must be 4 arrays, as mlp has, got 3 arrays"),
        (lambda a: [a[0], a[1].reshape(1, 32), *a[2:]], r"0\.bias of mlp must have shape \(32,\), got \(1, 32\)"),
        (lambda a: [*a[:3], a[3].astype(np.float64)], r"2\.bias of mlp must be float32, got 'float64'"),
        (lambda a: [a[0], a[1].tolist(), *a[2:]], r"0\.bias of mlp must be float32, got 'list'"),
        (lambda a: [a[0], a[1] + np.inf, *a[2:]], r"0\.bias of mlp must be finite"),
        (lambda a: [a[0] * np.nan, a[1] + np.inf, *a[2:]], r"0\.weight of mlp must be finite"),
    ],
)
def test_arrays_that_do_not_fit_are_named_and_change_nothing(change, message):
    model = mlp().initialize()
    arrays = [array + 1 for array in model.arrays()]
    with pytest.raises(DataError, match=message):
        model.set_arrays(change(arrays))
    assert same(model.arrays(), mlp().initialize().arrays())
    fresh = mlp()
    with pytest.raises(DataError, match=message):
        fresh.set_arrays(change(arrays))
    assert not fresh.is_fitted


@pytest.mark.parametrize("verb", ["arrays", "logits"])
def test_a_net_without_weights_says_how_it_gets_some(verb, digits):
    X, y, _, _ = digits
    for model in (mlp(), mlp().fit(X, y * 0)):  # never fitted, and constant
        with pytest.raises(FedkdError, match=rf"{verb} must be asked of a net that has weights.*initialize\(\)"):
            model.arrays() if verb == "arrays" else model.logits(X)


def test_logits_are_what_probabilities_are_made_of(digits):
    X, y, X_test, _ = digits
    model = mlp(epochs=1).fit(X, y)
    logits = model.logits(X_test)
    assert logits.dtype == np.float32
    odds = np.exp(logits.astype(float))
    assert np.allclose(odds / odds.sum(axis=1, keepdims=True), model.predict_proba(X_test), atol=1e-6)
    assert model.logits(X_test[:0]).shape == (0, 10)


def test_training_in_two_parts_continues_the_first(digits):
    X, y, _, _ = digits
    model = mlp().train_epochs(X, y, epochs=2).train_epochs(X, y, epochs=3)
    assert model.estimator.optimizer_.state_dict()["state"][0]["step"] == 5 * 7
    assert same(model.arrays(), mlp().train_epochs(X, y, epochs=2).train_epochs(X, y, epochs=3).arrays())
    assert same(mlp(epochs=4).fit(X, y).arrays(), mlp().train_epochs(X, y, epochs=4).arrays())


@pytest.mark.parametrize("verb", TRAINING)
def test_every_verb_trains_repeats_itself_and_leaves_torchs_generator_alone(verb, digits):
    X, y, X_test, y_test = digits
    before = torch.get_rng_state()
    runs = []
    for _ in range(2):
        model = mlp(dropout=0.2, lr=0.02)
        for _ in range(12):
            call(model, verb, X, y)
        runs.append(model)
        torch.rand(3)
        torch.set_rng_state(before)
    assert same(runs[0].arrays(), runs[1].arrays())
    assert (runs[0].predict(X_test) == y_test).mean() > 0.7
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("verb", TRAINING)
def test_a_single_class_trains_the_net_and_makes_no_constant(verb, digits):
    X, _, _, _ = digits
    model = mlp().fit(X, np.full(len(X), 3))
    assert model.is_constant
    call(model, verb, X, np.full(len(X), 3))
    assert not model.is_constant
    assert model.logits(X).shape == (len(X), 10)


def test_digesting_one_hot_probabilities_is_training_on_labels_step_for_step(digits):
    X, y, _, _ = digits
    hard = mlp(dropout=0.2).train_epochs(X, y, epochs=3)
    soft = mlp(dropout=0.2).digest(X, np.eye(10)[y], epochs=3, loss="cross-entropy")
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(hard.arrays(), soft.arrays(), strict=True))
    fitted = [mlp(max_steps=5).fit(X, y).estimator, mlp(max_steps=5).initialize().estimator]
    fitted[1].fit_soft(X, np.eye(10)[y])
    assert np.allclose(*(net.logits(X) for net in fitted), atol=1e-5)


def test_a_joint_step_without_weight_is_a_step_on_own_rows(digits):
    X, y, _, _ = digits
    targets = np.full((len(X), 10), 0.1)
    options = {"steps": 5, "loss": "cross-entropy"}
    alone = mlp().joint_steps(X, y, X, targets, weight=0, **options)
    other = mlp().joint_steps(X, y, X, np.eye(10)[y], weight=0, **options)
    assert same(alone.arrays(), other.arrays())
    assert not same(alone.arrays(), mlp().joint_steps(X, y, X, targets, weight=1, **options).arrays())


def test_a_joint_fit_learns_what_can_be_told_and_is_not_sure_of_the_rest(digits):
    X, y, X_test, y_test = digits
    options = {"X_public": X[200:400], "targets": np.eye(10)[y[200:400]], "steps": 20, "seed": 1}
    known = mlp().joint_fit(X[:200], y[:200], **options)
    assert known.accuracy(X_test, y_test) > 0.85
    assert same(known.arrays(), mlp().train_epochs(X, y, epochs=1).joint_fit(X[:200], y[:200], **options).arrays())
    options["targets"] = np.full((200, 10), 0.1)
    drawn = np.random.default_rng(1).integers(10, size=200)  # labels that no pixel tells
    by_heart = mlp(lr=0.01).train_epochs(X[:200], drawn, epochs=200)
    assert by_heart.predict_proba(X[:200]).max(axis=1).mean() > 0.6
    assert mlp(lr=0.01).joint_fit(X[:200], drawn, **options).predict_proba(X[:200]).max(axis=1).mean() < 0.4


def test_a_joint_fit_of_one_row_each_is_one(digits):
    X, y, _, _ = digits
    assert mlp().joint_fit(X[:1], y[:1], X[1:2], np.eye(10)[y[1:2]], steps=1, seed=1).is_fitted


def test_a_full_step_follows_the_gradient_of_all_rows(digits, monkeypatch):
    X, y, _, _ = digits
    start = mlp().initialize().arrays()
    ours = mlp(optimizer="sgd", lr=0.5).set_arrays(start).full_batch_steps(X, y, steps=4)
    module = mlp().initialize().estimator.module_
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(4):
        optimizer.zero_grad()
        cross_entropy(module(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimizer.step()
    for got, expected in zip(ours.arrays(), module.parameters(), strict=True):
        assert np.allclose(got, expected.detach().numpy(), atol=1e-5)
    # in parts of unequal size, and on one-hot probabilities, it is the same gradient
    monkeypatch.setattr("fedkd_flwr.models.networks.GRADIENT_ROWS", 150)
    parts = mlp(optimizer="sgd", lr=0.5).set_arrays(start).full_batch_steps(X, np.eye(10)[y], steps=4)
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(ours.arrays(), parts.arrays(), strict=True))


def test_all_verbs_train_batch_statistics_too(digits):
    X, y, _, _ = digits
    X = enlarged(X[:40])
    for verb in TRAINING:
        model = fedmd().initialize()
        before = model.arrays()[4]
        call(model, verb, X, y[:40])
        assert not np.array_equal(before, model.arrays()[4])
        assert np.isfinite(model.logits(X)).all()
    moves = model.are_trained()
    assert len(moves) == len(model.arrays())
    assert not all(moves)  # running averages are no weights that training moves
    assert all(mlp().initialize().are_trained())
    arrays = model.arrays()
    arrays[5][0] = -1
    with pytest.raises(DataError, match=r"running_var of cnn-fedmd must be >= 0, being variances, got -1\.0"):
        model.set_arrays(arrays)


PROBS = np.full((400, 10), 0.1)
MSE = {"steps": 1, "weight": 1, "loss": "mse-probs"}
NONSENSE = [
    *(
        ("digest", {"targets": PROBS, "epochs": 1, "loss": "mse-probs", **options}, error, message)
        for options, error, message in (
            ({"epochs": 0}, ConfigError, "epochs must be a whole number >= 1, got 0"),
            ({"loss": "kl"}, ConfigError, "loss must be one of cross-entropy, l1-logits, mse-probs, got 'kl'"),
            ({"targets": PROBS[:9]}, DataError, r"targets must have shape \(400, 10\), rows by classes, got \(9, 10\)"),
            ({"targets": -PROBS}, DataError, r"targets must be >= 0, got .* at row 0 \(400 such.*Are they logits"),
            ({"targets": 2 * PROBS}, DataError, r"targets must sum to 1 in each row"),
            ({"targets": PROBS * 1e300, "loss": "l1-logits"}, DataError, r"targets must be within \+-3\.4e\+38"),
        )
    ),
    *(
        ("joint", MSE | {"weight": weight}, ConfigError, "weight must be finite and >= 0")
        for weight in (-1, np.nan, True, "1")
    ),
    *(("prox", {"mu": mu}, ConfigError, "mu must be finite and >= 0") for mu in (-1, np.nan, np.inf, True, "1")),
    ("full", {"steps": -3}, ConfigError, "steps must be a whole number >= 1, got -3"),
    ("full", {"X": PROBS[:0], "targets": np.zeros(0, int)}, DataError, "X must hold at least one row"),
    ("joint", MSE | {"X_public": PROBS[:, :5]}, DataError, "X_public must have 64 columns"),
]


@pytest.mark.parametrize(("verb", "options", "error", "message"), NONSENSE)
def test_nonsense_is_refused_and_trains_nothing(verb, options, error, message, digits):
    X, y, _, _ = digits
    model = mlp().initialize()
    call, given = {
        "digest": (model.digest, {"X": X}),
        "joint": (model.joint_steps, {"X": X, "y": y, "X_public": X, "targets": PROBS}),
        "prox": (model.train_epochs, {"X": X, "y": y, "epochs": 1, "mu": 0.1}),
        "full": (model.full_batch_steps, {"X": X, "targets": y, "steps": 1}),
    }[verb]
    with pytest.raises(error, match=message):
        call(**{**given, **options})
    assert same(model.arrays(), mlp().initialize().arrays())


@pytest.mark.parametrize("verb", ["fit", "full_batch_steps"])
def test_divergence_is_said_and_not_labelled(verb, digits):
    X, y, _, _ = digits
    model = mlp(optimizer="sgd", lr=1e30)
    with pytest.raises(ConfigError, match=r"Training must keep the loss finite.*Lower lr"):
        model.fit(X, y) if verb == "fit" else model.full_batch_steps(X, y, steps=3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: the tests on one did NOT run")
@pytest.mark.parametrize("verb", TRAINING)
def test_every_verb_works_on_a_gpu(verb, digits):
    X, y, X_test, _ = digits
    model = mlp(device="auto", dropout=0.2).initialize()
    assert next(model.estimator.module_.parameters()).is_cuda
    model.set_arrays(model.arrays())
    call(model, verb, X, y)
    on_cpu = mlp().set_arrays(model.arrays())
    assert np.allclose(model.logits(X_test), on_cpu.logits(X_test), atol=1e-3)
    model.fit_soft(X, np.eye(10)[y] + 0.1).update(X, y, steps=3)


def softmax_steps(arrays, X, y, *, lr, mu, steps):
    """Take gradient steps of a linear softmax model by hand, held near where it starts: gradient + mu (w - w_t)."""
    start = [array.astype(np.float64) for array in arrays]
    weights, bias = (array.copy() for array in start)
    for _ in range(steps):
        scores = X @ weights.T + bias
        probs = np.exp(scores - scores.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        error = (probs - np.eye(len(bias))[y]) / len(y)
        steps_down = error.T @ X + mu * (weights - start[0]), error.sum(axis=0) + mu * (bias - start[1])
        weights, bias = weights - lr * steps_down[0], bias - lr * steps_down[1]
    return weights, bias


@pytest.mark.parametrize("mu", [0.0, 0.3, 2.0])
def test_the_proximal_gradient_is_that_of_the_squared_distance(mu, digits):
    X, y = digits[0][:50], digits[1][:50]
    net = mlp(hidden=[], optimizer="sgd", lr=0.05, batch_size=50).initialize()
    start = [array.copy() for array in net.arrays()]
    expected = softmax_steps(start, X.astype(np.float64), y, lr=0.05, mu=mu, steps=4)
    net.train_epochs(X, y, epochs=4, mu=mu)
    for got, wanted in zip(net.arrays(), expected, strict=True):
        assert got == pytest.approx(wanted, rel=1e-4, abs=2e-6)
    if mu:  # from the same start, the term shows: this test can fail
        free = softmax_steps(start, X.astype(np.float64), y, lr=0.05, mu=0.0, steps=4)
        assert not np.allclose(expected[0], free[0], rtol=1e-4, atol=2e-6)


def test_shifted_steps_follow_the_gradient_with_the_shift_added_and_count_their_steps(digits):
    """With plain SGD a constant shift moves each weight by -lr x shift a step, where the gradient is the same."""
    X, y = digits[0][:50], digits[1][:50]
    net, plain = (mlp(optimizer="sgd", lr=0.1, batch_size=len(X)).initialize() for _ in range(2))
    before = net.arrays()
    shifts = [np.full_like(array, 0.25) for array in before]
    assert net.train_epochs(X, y, epochs=1, shifts=shifts).steps_taken == 1
    plain.train_epochs(X, y, epochs=1)
    for shifted, own in zip(net.arrays(), plain.arrays(), strict=True):
        assert shifted == pytest.approx(own - 0.1 * 0.25, abs=1e-6)
    zero = [np.zeros_like(array) for array in before]
    rest = mlp(optimizer="sgd", lr=0.1, batch_size=16).initialize(), mlp(optimizer="sgd", lr=0.1, batch_size=16)
    assert rest[0].train_epochs(X, y, epochs=2, shifts=zero).steps_taken == 2 * -(-len(X) // 16)
    assert same(rest[0].arrays(), rest[1].train_epochs(X, y, epochs=2).arrays())
    with pytest.raises(DataError, match="shifts must have the net's shapes"):
        net.train_epochs(X, y, epochs=1, shifts=zero[:-1])
    assert net.sgd_rate == 0.1
    for other in ({"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.5}):
        with pytest.raises(ConfigError, match="optimiser must be sgd without momentum"):
            _ = mlp(**other).sgd_rate
