"""Figures of a model against scikit-learn's own functions, by hand, and from a hostile party."""

import json

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.dummy import DummyClassifier

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.metrics import NAMES, SCORE_BINS, Metrics, check_names, measure


def answers(num_classes, count=200, *, seed=0, skew=0.0):
    rng = np.random.default_rng([seed, num_classes])
    share = np.exp(-skew * np.arange(num_classes))
    y = np.concatenate([np.arange(num_classes), rng.choice(num_classes, count, p=share / share.sum())])
    probs = rng.dirichlet(np.ones(num_classes), len(y)) * 0.6 + 0.4 * np.eye(num_classes)[rng.permutation(y)]
    probs[::3] = 0.6 * probs[::3] + 0.4 * np.eye(num_classes)[y[::3]]
    probs = np.round(probs, 2) + 1e-3  # ties
    probs /= probs.sum(axis=1, keepdims=True)
    return y, probs.argmax(axis=1), probs


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("skew", [0.0, 1.0])
@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_every_figure_is_scikit_learns(num_classes, skew, seed):
    y, labels, probs = answers(num_classes, seed=seed, skew=skew)
    classes = np.arange(num_classes)
    found = measure(y, labels, probs, num_classes=num_classes)
    precision, recall, f1, support = sk.precision_recall_fscore_support(y, labels, labels=classes, zero_division=0)
    dummy = DummyClassifier(strategy="most_frequent").fit(y[:, None], y)
    onehot = np.eye(num_classes)[y]
    scores = probs[:, 1] if num_classes == 2 else probs
    expected = {
        "n": len(y),
        "accuracy": sk.accuracy_score(y, labels),
        "baseline": dummy.score(y[:, None], y),
        "balanced_accuracy": sk.balanced_accuracy_score(y, labels),
        "macro_f1": sk.f1_score(y, labels, average="macro"),
        "roc_auc": sk.roc_auc_score(y, scores, multi_class="ovr", average="macro"),
        "average_precision": sk.average_precision_score(y, scores, average="macro"),
        "log_loss": sk.log_loss(y, probs),
        "brier": sk.mean_squared_error(onehot, probs) * (1 if num_classes == 2 else num_classes),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "support": support,
        "confusion": sk.confusion_matrix(y, labels, labels=classes),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=0, atol=1e-12, err_msg=name)
    if num_classes == 2:
        assert found.brier == pytest.approx(sk.brier_score_loss(y, probs[:, 1]), abs=1e-12)
    assert not found.no_probabilities


def test_calibration_error_by_hand():
    # bins (5/15, 6/15]: one row, wrong; (10/15, 11/15]: two rows, one right; (14/15, 1]: one row, right
    probs = np.array([[0.4, 0.3, 0.3], [0.7, 0.3, 0.0], [0.1, 0.72, 0.18], [0.0, 0.0, 1.0]])
    found = measure(np.array([1, 0, 2, 2]), np.array([0, 0, 1, 2]), probs, num_classes=3)
    assert found.calibration_error == pytest.approx((1 * 0.4 + 2 * 0.21 + 1 * 0.0) / 4, abs=1e-15)


def test_confidence_is_that_of_the_predicted_class_also_where_another_has_more():
    found = measure(np.array([1, 1]), np.array([1, 1]), np.array([[0.8, 0.2], [0.7, 0.3]]), num_classes=2)
    assert found.calibration_error == pytest.approx(0.75)


def test_classes_without_test_rows_are_left_out_of_means():
    y, labels, probs = answers(3)
    wide = np.hstack([probs, np.zeros((len(y), 2))])
    narrow, found = measure(y, labels, probs, num_classes=3), measure(y, labels, wide, num_classes=5)
    for name in ("accuracy", "baseline", "balanced_accuracy", "macro_f1", "roc_auc", "average_precision", "brier"):
        assert getattr(found, name) == pytest.approx(getattr(narrow, name), abs=1e-12), name
    assert (found.support[3:], found.recall[3:]) == ([0, 0], [0.0, 0.0])


def test_test_rows_of_one_class_have_no_ranking():
    found = measure(np.ones(5, int), np.array([1, 1, 1, 0, 1]), np.full((5, 2), 0.5), num_classes=2)
    assert (found.accuracy, found.baseline, found.balanced_accuracy) == (0.8, 1.0, 0.8)
    assert (found.roc_auc, found.average_precision) == (None, None)
    assert found.log_loss == pytest.approx(np.log(2))


@pytest.mark.parametrize(
    "probs",
    [None, np.full((4, 2), np.nan), np.array([[1, np.inf]] * 4), np.full((4, 2), 0.7), np.array([[1.5, -0.5]] * 4)],
    ids=["none", "NaN", "infinity", "scores", "negative"],
)
def test_what_is_no_probability_gives_no_figure_that_needs_one(probs):
    found = measure(np.array([0, 1, 0, 1]), np.array([0, 1, 1, 1]), probs, num_classes=2)
    assert found.no_probabilities
    assert found.accuracy == 0.75
    assert (found.roc_auc, found.average_precision, found.log_loss, found.brier) == (None, None, None, None)
    assert found.calibration_error is None


def test_score_counts_hold_the_rows_of_both_classes_at_or_above_each_threshold():
    y, labels, probs = answers(2)
    found = measure(y, labels, probs, num_classes=2)
    for k in range(SCORE_BINS):
        reached = [sum(e[1 + c] for e in found.score_counts if e[0] >= k) for c in (0, 1)]
        assert reached == [int((probs[y == c, 1] >= k / SCORE_BINS - 1e-9).sum()) for c in (0, 1)]


def test_a_score_on_an_edge_belongs_to_the_bin_above_and_the_last_bin_holds_1():
    p = np.array([0.0, 0.02, 0.58, 0.98, 1.0])
    found = measure(np.array([0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1]), np.stack([1 - p, p], axis=1), num_classes=2)
    assert found.score_counts == [(0, 1, 0), (1, 1, 0), (29, 0, 1), (49, 0, 2)]


def test_more_than_two_classes_and_models_without_probabilities_have_no_score_counts():
    assert FOUND.score_counts == measure(np.array([0, 1]), np.array([0, 1]), None, num_classes=2).score_counts == []
    sent = json.dumps({"n": 4, "score_counts": [[0, 2, 2]]}).encode()
    assert Metrics.opened(sent, num_classes=2) is not None
    assert Metrics.opened(sent, num_classes=3) is None


@pytest.mark.parametrize(
    ("y", "labels", "probs"),
    [(np.array([], int), np.array([], int), None), ([0, 1], [0], None), ([0, 1], [0, 1], np.zeros((2, 3)))],
)
def test_arrays_that_do_not_fit_are_refused(y, labels, probs):
    with pytest.raises(DataError, match="test rows must be"):
        measure(np.asarray(y), np.asarray(labels), probs, num_classes=2)


FOUND = measure(*answers(4, 90, skew=0.9), num_classes=4)  # supports: about 50, 22, 10, 5
TWO = measure(*answers(2, 90), num_classes=2)
NUMBERS = Metrics(n=12, rmse=2.5, mae=1.5, r2=-0.5, pairs=[(1.0, 2.0, 10), (3.0, 3.5, 2)])
WITH = {"score-counts": TWO, **dict.fromkeys(("rmse", "mae", "r2", "pairs"), NUMBERS)}


def test_only_what_is_named_leaves_and_always_with_its_number_of_rows():
    for name in (n for n in NAMES if n != "model"):
        shared = WITH.get(name, FOUND).shared([name]).as_dict()
        extra = {"support"} if name in ("precision", "recall", "f1", "confusion") else set()
        assert shared.keys() == {"n", name.replace("-", "_")} | extra
        assert shared["n"] == WITH.get(name, FOUND).n


def test_errors_of_numbers_travel_and_pairs_of_few_rows_stay_home():
    assert NUMBERS.shared(["pairs"], min_support=10).pairs == [(1.0, 2.0, 10)]
    assert Metrics.opened(NUMBERS.to_bytes(), num_classes=4) == NUMBERS
    pairs = [[1.0, 2.0, 13]], [[1.0, "x", 2]], [2]
    for broken in ({"r2": 1.5}, {"rmse": -1.0}, *({"pairs": one} for one in pairs)):
        assert Metrics.opened(json.dumps({"n": 12, **broken}).encode(), num_classes=4) is None


def test_a_class_with_few_rows_stays_home_and_so_does_what_would_give_it_away():
    metrics = Metrics(n=40, recall=[1.0, 0.5, 0.5, 0.0], support=[20, 12, 5, 3], confusion=[[9] * 4] * 4)
    shared = metrics.shared(["recall", "confusion"], min_support=10)
    # 3 and 5 are fewer than 10 together: with 12 and 20 known, n would tell their sum
    assert shared.support == [20, None, None, None]
    assert shared.recall == [1.0, None, None, None]
    assert shared.confusion == [[9] * 4, None, None, None]
    assert metrics.shared(["recall"], min_support=6).support == [20, 12, None, None]
    assert metrics.shared(["recall"], min_support=3).support == [20, 12, 5, 3]
    assert metrics.shared(["recall"], min_support=4).support == [20, 12, None, None]  # a single one would be n - others


def test_of_two_classes_a_rare_one_keeps_all_figures_of_it_home():
    y = np.repeat([0, 1], [60, 4])
    found = measure(y, y, np.eye(2)[y], num_classes=2).shared(NAMES, min_support=10)
    assert (found.baseline, found.roc_auc, found.average_precision, found.score_counts) == (None, None, None, [])
    assert (found.recall, found.support, found.confusion) == ([None, None], [None, None], [None, None])
    assert (found.n, found.accuracy, found.balanced_accuracy) == (64, 1.0, 1.0)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"share-metrics must be one of accuracy, .*, got 'auc'"):
        check_names(["accuracy", "auc"])
    with pytest.raises(ConfigError, match="got 'accuracy,f1'"):
        check_names("accuracy,f1")
    with pytest.raises(ConfigError, match="got True"):
        check_names(True)


@pytest.mark.parametrize("min_support", [0, 10])
def test_what_leaves_arrives_as_it_was(min_support):
    shared = FOUND.shared(NAMES, min_support=min_support)
    assert Metrics.opened(shared.to_bytes(), num_classes=4) == shared
    two = TWO.shared(NAMES, min_support=min_support)
    assert two.score_counts
    assert Metrics.opened(two.to_bytes(), num_classes=2) == two


@pytest.mark.parametrize(("right", "figure"), [(False, "accuracy"), (True, "brier"), (True, "calibration_error")])
def test_a_figure_that_is_exactly_zero_arrives_as_zero_and_not_as_unknown(right, figure):
    """Else the worst models, and the best by Brier score, would drop out of every mean and every count."""
    y = np.array([0, 1, 0, 1])
    labels = y if right else 1 - y
    found = measure(y, labels, np.eye(2)[labels], num_classes=2)
    assert getattr(found, figure) == 0.0
    assert Metrics.opened(found.to_bytes(), num_classes=2) == found


def test_the_largest_message_is_within_the_limit():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 100, 20_000)
    probs = rng.dirichlet(np.ones(100), len(y))
    found = measure(y, rng.integers(0, 100, len(y)), probs, num_classes=100)
    assert Metrics.opened(found.to_bytes(), num_classes=100) == found


GOOD = {"n": 4, "accuracy": 0.5, "recall": [0.5, None], "support": [2, None], "confusion": [[1, 1], None]}


@pytest.mark.parametrize(
    "change",
    [
        {"n": 0}, {"n": True}, {"n": 4.0}, {"n": None}, {"n": 2**40}, {"n": "4"},
        {"accuracy": 1.5}, {"accuracy": -0.1}, {"accuracy": "1"}, {"accuracy": True},
        {"accuracy": float("nan")}, {"log_loss": float("inf")}, {"log_loss": -1.0}, {"brier": 2.5}, {"colour": "red"},
        {"recall": [0.5]}, {"recall": [0.5, 2]}, {"recall": {"0": 1}}, {"recall": 3}, {"recall": [0.5, [1]]},
        {"support": [3, 1]}, {"support": [None, 1]}, {"recall": [None, 1.0]}, {"confusion": [None, [0, 1]]},
        {"recall": [0.5, 0.5], "support": [0, 0], "confusion": [[1, 1], [0, 2]]},
        {"recall": [0.5, 0.5], "support": [2, 1], "confusion": [[1, 1], [0, 2]]},
        {"support": [3, 3]}, {"support": [-1, 2]}, {"support": [1.5, 2]}, {"support": [1, 1, 1]},
        {"confusion": [[1, 1]]}, {"confusion": [[1, 1], [1]]}, {"confusion": [[1, 1], [5, 0]]},
        {"confusion": [[1, 1], [-1, 0]]}, {"confusion": [1, 2]},
        {"no_probabilities": 1}, {"pairs": [[0.0, float("inf"), 1]]},
        {"score_counts": [[50, 2, 2]]}, {"score_counts": [[0, 2]]}, {"score_counts": [[0, 5, -1]]}, {"score_counts": 4},
        {"score_counts": [[3, 1, 1], [3, 1, 1]]}, {"score_counts": [[0, 2, 1]]},
        {"score_counts": [[0, 4, 0], [1, 0, 0]]}, {"score_counts": [[0, 2.0, 2]]}, {"score_counts": [["0", 2, 2]]},
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_a_wrong_type_size_or_range_leaves_nothing(change):
    assert Metrics.opened(json.dumps(GOOD).encode(), num_classes=2) is not None
    assert Metrics.opened(json.dumps(GOOD | change).encode(), num_classes=2) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"4", b"null", b"\xff", b"[" * 4000, b"1" * 4300, b" " * 10_000, "{}", 0.5, None],
    ids=repr,
)
def test_bytes_that_are_no_metrics_leave_nothing(data):
    assert Metrics.opened(data, num_classes=2) is None


def test_a_matrix_of_too_many_classes_is_refused():
    assert Metrics.opened(json.dumps({"n": 5, "confusion": [[0] * 101] * 101}).encode(), num_classes=101) is None
