"""Who learns from labels of public rows learns from answered rows alone; no forest answers for a row it was taught.

A start from labelled public rows: the body is taken over, the last layer starts at zero.
"""

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.models import taught
from fedkd_flwr.models.taught import labels_from_known, pretrain, teach
from fedkd_flwr.models.zoo import make_model


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr(taught, "_TREES", 20)


def _rows(count=200, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(np.int16)


def test_a_known_row_is_answered_by_a_forest_that_was_not_taught_it():
    """Else labels drawn by lot would seem to be learnt, and the consensus would tell which rows are known."""
    X, _ = _rows()
    by_lot = np.random.default_rng(2).integers(2, size=120).astype(np.int16)
    said = labels_from_known(X, np.arange(120), by_lot, seed=1)
    assert 0.35 < (said[:120] == by_lot).mean() < 0.65


def test_a_few_rows_tell_of_all_others_and_the_seed_decides_how():
    X, y = _rows()
    said, again = (labels_from_known(X, np.arange(50), y[:50], seed=1) for _ in range(2))
    assert said.dtype == np.int16
    assert (said[50:] == y[50:]).mean() > 0.9
    assert np.array_equal(said, again)


X = np.arange(6, dtype=np.float32)[:, None]
ROWS = np.array([4, 0, 2])  # in no order: answers belong to rows, not to positions


class Model:
    """Remembers what it was fitted on; predicts 9 plus the number of models made before it."""

    def __init__(self, made):
        self.made, self.number = made, len(made)
        made.append(self)
        self.fitted = self.soft = None

    def fit(self, rows, labels):
        self.fitted = (rows[:, 0].tolist(), np.asarray(labels).tolist())
        return self

    def fit_soft(self, rows, weights):
        self.soft = (rows[:, 0].tolist(), weights.tolist())
        return self

    def predict(self, rows):
        return np.full(len(rows), 9 + self.number, dtype=np.int16)


def _teach(labels, counts=None, *, rows=ROWS):
    made: list[Model] = []
    answers = np.array(labels, dtype=np.int16)
    model = teach(lambda: Model(made), X, rows, answers, None if counts is None else np.array(counts))
    assert model is made[-1]
    return made


def test_only_answered_rows_are_learnt_each_with_its_own_answer_or_with_counts_in_place_of_labels():
    (model,) = _teach([2, -1, 1])
    assert model.fitted == ([4.0, 2.0], [2, 1])
    assert model.soft is None
    (model,) = _teach([2, -1, 1], [[0.5, 1.5], [7, 7], [3, -1]])
    assert model.soft == ([4.0, 2.0], [[0.5, 1.5], [3.0, -1.0]])
    assert model.fitted is None


def test_no_answers_are_refused_by_the_model():
    from sklearn.tree import DecisionTreeClassifier

    from fedkd_flwr.models import Classifier

    nothing = np.full(3, -1, dtype=np.int16)
    for counts in (None, np.zeros((3, 2))):
        with pytest.raises(DataError, match="at least one row"):
            teach(lambda: Classifier(DecisionTreeClassifier(), num_classes=2), X, ROWS, nothing, counts)


LETTERS = 6


def _net(seed=1, name="mlp", classes=LETTERS, features=64, **params):
    pytest.importorskip("torch")
    settings = {"hidden": [16]} if name == "mlp" else {}
    return make_model(name, num_classes=classes, num_features=features, seed=seed, params={**settings, **params})


def _start(model, digits, *, epochs=3, same=False, classes=10, name="digits", seed=7):
    X, y = digits[0][:200], digits[1][:200]
    return pretrain(model, X, y, num_classes=classes, same_classes=same, epochs=epochs, seed=seed, name=name)


def test_parties_with_other_seeds_share_the_body_and_answer_all_classes_alike(digits):
    models = [_start(_net(seed), digits) for seed in (1, 2)]
    first, second = (model.arrays() for model in models)
    fresh = _net(1).initialize().arrays()
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[0], fresh[0])
    assert not np.any(np.concatenate([a.ravel() for a in first[2:]]))
    assert (models[0].predict_proba(digits[2]) == np.float32(1 / LETTERS)).all()


def test_public_labels_of_the_schema_teach_the_last_layer_too(digits):
    model = _start(_net(classes=10, lr=0.01), digits, epochs=20, same=True)
    assert (model.predict(digits[2]) == digits[3]).mean() > 0.7


@pytest.mark.parametrize("freeze", [True, False])
def test_frozen_batch_averages_stay_those_of_the_public_rows_however_the_net_goes_on(freeze):
    rng = np.random.default_rng(0)
    X, y = rng.random((64, 784)).astype(np.float32), np.arange(64) % 10
    model = _net(1, name="cnn-fedmd", features=784, channels=[4, 4], batch_size=16, freeze_norm=freeze)
    untrained = model.initialize().arrays()
    pretrain(model, X, y, num_classes=10, same_classes=False, epochs=1, seed=7, name="noise")
    averages = [4, 5, 10, 11]  # of two blocks: weight and bias, scale and shift, mean and variance
    started = model.arrays()
    assert len(started) == 13
    # the averages come with the body, and pre-training moves them in any case
    assert all((new != old).any() for new, old in zip(started, untrained, strict=True))
    assert not np.any(started[-1])  # one dense layer without bias comes last

    X_own, y_own, answers = X[:20] + 1, y[:20] % LETTERS, rng.random((64, LETTERS))
    before = started
    for step in (
        lambda: model.train_epochs(X_own, y_own, epochs=1),
        lambda: model.digest(X, answers, epochs=1, loss="l1-logits"),
        lambda: model.joint_steps(X_own, y_own, X, answers, steps=1, weight=1.0, loss="l1-logits"),
        lambda: model.full_batch_steps(X_own, y_own, steps=1),
    ):
        step()
        after = model.arrays()
        assert [bool((after[i] == before[i]).all()) for i in averages] == [freeze] * 4
        before = after
    assert all((after[i] != started[i]).any() for i in set(range(13)) - set(averages))


def test_the_same_start_is_computed_once(digits, monkeypatch):
    from fedkd_flwr.models.classifier import Classifier

    calls = []
    real = Classifier.train_epochs
    monkeypatch.setattr(Classifier, "train_epochs", lambda *a, **k: calls.append(1) or real(*a, **k))
    for seed in (1, 2, 3):
        _start(_net(seed), digits, name="once")
    assert len(calls) == 1
    _start(_net(1), digits, name="once", seed=8)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("model", "same", "message"),
    [
        ("decision-tree", False, "a pre-trained model must be a torch net, got another estimator"),
        ("mlp", True, "num_classes must be 6, the model's own, got 10"),
    ],
)
def test_what_cannot_start_so_is_refused(digits, model, same, message):
    made = make_model(model, num_classes=LETTERS, num_features=64, seed=0)
    with pytest.raises(ConfigError, match=message):
        _start(made, digits, same=same)
