"""Probabilities of "other": for every kind of model, at balanced weights, never by what learnt the row."""

from typing import ClassVar
from unittest import mock

import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.models import open_set as models
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.open_set import open_set, widened
from fedkd_flwr.models.zoo import make_model

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


def drawn(counts, seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), counts)
    return (CENTRES[y] + rng.normal(size=(len(y), 2))).astype(np.float32), y


OWN, Y = drawn((30, 30, 0), 1)  # never saw class 2
PUBLIC, TRUTH = drawn((40, 40, 40), 2)


class OfThree(BaseEstimator):
    """A user's estimator that says nowhere that it has three outputs: nearest mean, by arrays of three rows."""

    def fit(self, X, y):
        self.sums_, self.counts_ = np.zeros((3, X.shape[1])), np.zeros(3)
        np.add.at(self.sums_, y, X)
        np.add.at(self.counts_, y, 1)
        return self

    def predict(self, X):
        means = self.sums_ / np.maximum(self.counts_, 1)[:, None]
        means[self.counts_ == 0] = 1e6
        return ((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)


class Drawn(BaseEstimator):
    """Takes no weights; keeps what it was fitted on."""

    seen: ClassVar[list] = []

    def fit(self, X, y):
        Drawn.seen.append(y)
        self.model_ = DecisionTreeClassifier(random_state=0).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


KINDS = {
    "forest": RandomForestClassifier(10, random_state=1),
    "extra trees": ExtraTreesClassifier(10, random_state=1),
    "few trees": RandomForestClassifier(5, random_state=1),
    "tree": DecisionTreeClassifier(max_depth=4, random_state=1),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "naive bayes": GaussianNB(),
    "fixed outputs": OfThree(),
}


def scored(estimator, *, X=OWN, y=Y, public=PUBLIC, seed=3, **more):
    fresh = Classifier(estimator, num_classes=3)
    return open_set(fresh, X, y, public, rng=np.random.default_rng(seed), **more)


def typical(probs):
    """How much denser own rows are than public ones, which is what the ratios are made from."""
    return probs[:, :3].sum(axis=1) / np.maximum(probs[:, 3], 0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_class_the_party_never_saw_are_other(kind):
    probs = scored(KINDS[kind]).probs
    assert probs.shape == (120, 4)
    assert np.allclose(probs.sum(axis=1), 1)
    known, unknown = TRUTH < 2, TRUTH == 2
    assert np.median(typical(probs)[unknown]) < 0.25
    assert typical(probs)[known].mean() > 3 * typical(probs)[unknown].mean()
    # where own rows are as typical as public ones, the classes are told apart
    sure = known & (probs[:, 3] < 0.9)
    assert (probs[sure, :3].argmax(axis=1) == TRUTH[sure]).mean() > 0.95


def test_a_party_of_one_class_tells_its_rows_from_others():
    X, y = drawn((50, 0, 0), 4)
    probs = scored(RandomForestClassifier(10, random_state=1), X=X, y=y).probs
    assert typical(probs)[TRUTH == 0].mean() > 1.0
    assert typical(probs)[TRUTH != 0].max() < 0.5
    assert not probs[:, 1:3].any()


def test_no_public_row_is_scored_by_what_learnt_it():
    """One nearest neighbour would call every public row "other" if it had seen it."""
    from sklearn.neighbors import KNeighborsClassifier

    probs = scored(KNeighborsClassifier(1)).probs
    assert (probs[TRUTH < 2, 3] < 0.5).mean() > 0.2


def test_own_and_public_rows_weigh_the_same_also_where_no_weights_are_taken():
    Drawn.seen.clear()
    X, y = drawn((10, 6, 0), 5)
    scored(Drawn(), X=X, y=y)
    assert len(Drawn.seen) == 3
    for labels in Drawn.seen:
        assert (labels == labels.max()).sum() == (labels < labels.max()).sum() == 80
        assert abs((labels == 0).sum() - 80 * 10 / 16) <= 6


ALIKE, ALIKE_Y = drawn((60, 60, 60), 6)


@pytest.mark.parametrize("kind", KINDS)
def test_where_own_rows_are_like_public_ones_other_gets_half_and_tells_of_no_row(kind):
    found = scored(KINDS[kind], X=ALIKE, y=ALIKE_Y).probs
    assert (found[:, 3] == 0.5).all()
    assert np.allclose(found.sum(axis=1), 1)
    assert (found[:, :3].argmax(axis=1) == TRUTH).mean() > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_where_class_shares_alone_differ_other_follows_from_them_and_no_model_tells_rows_apart(kind, monkeypatch):
    """Classes lie far apart: a row of class c is public share / own share times as dense among the public rows."""
    monkeypatch.setattr(models, "_refitted", None)
    monkeypatch.setattr(models, "_of_two", None)
    X, y = drawn((120, 80, 40), 6)
    public, truth = drawn((40, 80, 80), 7)
    found = scored(KINDS[kind], X=X, y=y, public=public).probs
    weights = np.array([40 / 120, 80 / 80, 80 / 40]) * 240 / 200
    assert np.allclose(found.sum(axis=1), 1)
    assert found[:, 3] == pytest.approx((weights / (1 + weights))[truth], abs=0.2)
    for c, weight in enumerate(weights):
        assert found[truth == c, 3].mean() == pytest.approx(weight / (1 + weight), abs=0.05)


@pytest.mark.parametrize("public_y", [np.resize([0, 1], 240), np.resize([0, 1, 1], 240)], ids=["alike", "other shares"])
def test_rows_of_the_same_classes_are_rarely_found_unlike(public_y, monkeypatch):
    monkeypatch.setattr(models, "_refitted", refitted := mock.Mock(return_value=np.full((240, 3), 1 / 3)))
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], 60)
    for seed in range(200):
        X, public = (rng.normal(size=(len(one), 1)) + 3 * one[:, None] for one in (y, public_y))
        open_set(Classifier(GaussianNB(), num_classes=2), X, y, public, rng=np.random.default_rng(seed))
    assert refitted.call_count <= 6  # 2 are expected of a test at 0.01; 7 or more come in 1 of 200 such tests


def test_public_shares_are_found_through_what_a_model_mistakes():
    mistaken = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.3, 0.7]])
    y, shares = np.repeat([0, 1, 2], (5, 3, 2)), np.array([0.2, 0.3, 0.5])
    assert models._public_shares(mistaken[y], y, shares @ mistaken) == pytest.approx(shares)
    outside = models._public_shares(mistaken[y], y, np.array([0.0, 0.05, 0.95]))
    assert outside[:2] == pytest.approx([0, 0], abs=1e-5)


def test_the_rank_test_is_that_of_mann_and_whitney_where_rows_weigh_the_same():
    rng = np.random.default_rng(1)
    public, own = rng.normal(0.2, 1, 90), rng.normal(size=60)
    found = models._chance_of_larger(public, own, np.full(60, 3.0))
    assert found == pytest.approx(mannwhitneyu(public, own, alternative="greater").pvalue, rel=0.05)


def test_rows_of_unlike_weights_are_not_taken_for_more_rows_than_they_are():
    rng, weights = np.random.default_rng(1), np.resize([3.0, 0.2, 0.2], 60)
    found = [models._chance_of_larger(rng.random(90), rng.random(60), weights) for _ in range(500)]
    assert 10 <= sum(one < 0.05 for one in found) <= 45  # 25 are expected


@pytest.mark.parametrize(
    ("own", "public", "shift"),
    [
        ((60, 60, 60), (40, 40, 40), 1.5),
        ((60, 60, 60), (40, 60, 80), 1.5),
        ((160, 160, 40), (40, 40, 80), 0.0),
        ((90, 90, 120), (100, 100, 10), 0.0),
        ((100, 80, 0), (40, 40, 40), 0.0),
        ((90, 60, 29), (90, 60, 29), 0.0),
        ((600, 60, 32), (600, 60, 32), 0.0),
        ((180, 0, 0), (180, 0, 0), 0.0),
    ],
    ids=[
        "other rows",
        "other rows and shares",
        "rarer here",
        "commoner here",
        "a class not held",
        "few rows of a class",
        "a rare class",
        "one class",
    ],
)
def test_rows_that_differ_or_hold_a_rare_class_are_told_from_public_ones(own, public, shift, monkeypatch):
    monkeypatch.setattr(models, "_refitted", refitted := mock.Mock(return_value=np.full((sum(public), 4), 0.25)))
    X, y = drawn(own, 6)
    scored(GaussianNB(), X=X + np.float32(shift), y=y, public=drawn(public, 7)[0])
    refitted.assert_called_once()


def test_rows_whose_classes_no_model_tells_are_not_taken_for_rows_like_the_public_ones():
    y = np.random.default_rng(1).permutation(ALIKE_Y)
    assert np.ptp(scored(GaussianNB(), X=ALIKE, y=y).probs[:, 3]) > 0.1


def test_a_single_public_row_and_a_single_own_row_are_enough():
    probs = scored(DecisionTreeClassifier(), X=OWN[:1], y=Y[:1], public=PUBLIC[:1]).probs
    assert probs.shape == (1, 4)


class TestNets:
    @pytest.fixture(autouse=True)
    def _torch(self):
        pytest.importorskip("torch")

    def net(self, **params):
        return make_model("mlp", num_classes=3, num_features=2, seed=1, params={"hidden": [16], "lr": 0.02, **params})

    def goes_on(self, models=(), steps=60):
        fresh = self.net()
        assert widened(fresh).template.num_classes == 4
        assert fresh.template.num_classes == 3
        return open_set(fresh, OWN, Y, PUBLIC, rng=np.random.default_rng(3), steps=steps, models=models)

    def test_a_net_has_one_output_more_and_goes_on_where_it_was(self):
        first = self.goes_on()
        second = self.goes_on(first.models)
        assert [net.num_classes for net in second.models] == [4, 4]
        for found in (first, second):
            assert np.median(typical(found.probs)[TRUTH == 2]) < 0.5
        assert typical(second.probs)[TRUTH == 2].mean() < typical(first.probs)[TRUTH == 2].mean() + 0.05

    def test_without_a_number_of_steps_a_net_takes_those_of_its_epochs(self):
        found = self.goes_on(steps=None)
        assert typical(found.probs)[TRUTH < 2].mean() > 2 * typical(found.probs)[TRUTH == 2].mean()

    @pytest.mark.parametrize(("batch_size", "nets", "taken"), [(2, 1, 9), (4, 2, 6)])
    def test_one_net_scores_all_rows_where_a_round_draws_at_most_a_tenth_of_them(
        self, monkeypatch, batch_size, nets, taken
    ):
        """120 public rows and 12 steps for both nets: 12 or 24 of the rows are drawn."""
        steps = []
        update = Classifier.update
        monkeypatch.setattr(Classifier, "update", lambda *a, **k: steps.append(k["steps"]) or update(*a, **k))
        fresh = self.net(batch_size=batch_size)
        found = open_set(fresh, OWN, Y, PUBLIC, rng=np.random.default_rng(3), steps=12)
        assert (len(found.models), steps) == (nets, [taken] * nets)
        assert found.probs.sum(axis=1) == pytest.approx(np.ones(120))


def test_out_of_bag_scores_are_those_of_trees_that_did_not_draw_the_row_and_the_seed_s():
    forest = scored(RandomForestClassifier(12, random_state=1)).probs
    wide = Classifier(RandomForestClassifier(36, random_state=1, oob_score=True), num_classes=4)
    rows, labels = np.concatenate((OWN, PUBLIC)), np.concatenate((Y, np.full(120, 3)))
    weights = np.repeat((180 / 120, 180 / 240), (60, 120))
    wide.fit(rows, labels, sample_weight=weights)
    assert np.allclose(forest[:, [0, 1, 3]], wide.estimator.oob_decision_function_[60:])
    assert (scored(RandomForestClassifier(12, random_state=1)).probs == forest).all()


def test_a_tree_is_scored_as_a_forest_of_trees_with_its_parameters():
    """A tree's own probabilities are 0 and 1, of which ratios are made badly."""
    grown = scored(DecisionTreeClassifier(max_depth=4, random_state=1)).probs
    assert 0 < grown[0, 3] < 1
    forest = RandomForestClassifier(20, max_depth=4, max_features=None, random_state=1)
    assert np.allclose(grown[:, 3], scored(forest).probs[:, 3])


@pytest.mark.parametrize(
    ("name", "size", "weights"),
    [
        ("logistic-regression", {}, {"class_weight": "balanced"}),
        ("random-forest", {"n_estimators": 5}, {"class_weight": "balanced"}),
        ("hist-gradient-boosting", {"max_iter": 3}, {"class_weight": "balanced"}),
        ("xgboost", {"n_estimators": 3}, {"scale_pos_weight": 9.0}),
    ],
)
def test_weights_that_a_model_gives_its_classes_change_no_density(name, size, weights):
    """Densities are divided by the classes' shares: weights that do so too would count a rare class twice."""
    rng = np.random.default_rng(1)
    y = (rng.random(100) < 0.1).astype(np.int64)
    X = (rng.normal(size=(100, 2)) + 2 * y[:, None]).astype(np.float32)

    def probs(params):
        model = make_model(name, num_classes=2, num_features=2, seed=0, params=size | params)
        return open_set(model, X, y, PUBLIC[:60], rng=np.random.default_rng(0)).probs.tolist()

    assert probs({}) == probs(weights)
