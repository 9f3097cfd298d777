"""Trees as arrays: they answer as the library does that grew them, and foreign ones are checked."""

import numpy as np
import pytest
from federation import model, rows

from fedkd_flwr.baselines.trees import NAMES, checked, cut, leaf_values, model_of, of_booster, of_forest, together
from fedkd_flwr.errors import PayloadError
from fedkd_flwr.models import serialize

SIZES = {"num_classes": 3, "num_features": 2}
X, Y = rows(200, seed=3)


def forest(name="random-forest", classes=(0, 1, 2)):
    return model(seed=1, name=name, n_estimators=5).fit(*rows(60, seed=1, classes=classes))


@pytest.mark.parametrize("name", ["random-forest", "extra-trees"])
@pytest.mark.parametrize("classes", [(0, 1, 2), (0, 2), (1,)])
def test_a_forest_s_trees_answer_as_the_forest(name, classes):
    one = forest(name, classes)
    made = model_of(of_forest(one, num_trees=5), boosted=False, **SIZES)
    np.testing.assert_allclose(made.predict_proba(X), one.predict_proba(X), atol=1e-6)


def test_a_row_at_a_forest_s_threshold_goes_where_scikit_learn_sends_it():
    one = forest()
    at = [t.tree_.threshold[t.tree_.children_left >= 0].astype(np.float32) for t in one.estimator.estimators_]
    values = np.unique(np.concatenate(at))
    values = np.concatenate([values, np.nextafter(values, np.float32(9)), np.nextafter(values, np.float32(-9))])
    grid = np.stack(np.meshgrid(values, values), axis=-1).reshape(-1, 2)
    made = model_of(of_forest(one, num_trees=5), boosted=False, **SIZES)
    np.testing.assert_allclose(made.predict_proba(grid), one.predict_proba(grid), atol=1e-6)


@pytest.mark.parametrize("parallel", [1, 2])
def test_boosted_trees_answer_as_xgboost(parallel):
    xgboost = pytest.importorskip("xgboost")
    params = {"objective": "multi:softprob", "num_class": 3, "base_score": 0.5, "num_parallel_tree": parallel}
    booster = xgboost.train({**params, "subsample": 0.5}, xgboost.DMatrix(X, Y), num_boost_round=1)
    trees = of_booster(booster)
    assert len(trees["sizes"]) == 3 * parallel
    made = model_of(trees, boosted=True, **SIZES)
    np.testing.assert_allclose(made.predict_proba(X), booster.predict(xgboost.DMatrix(X)), atol=1e-6)


def test_trees_that_are_cut_add_up_to_all():
    trees = together([of_forest(forest(), num_trees=5), of_forest(forest(classes=(0,)), num_trees=5)])
    whole = leaf_values(trees, X, outputs=1)
    for count in (0, 3, 5, 10):
        parts = cut(trees, count)
        assert [len(part["sizes"]) for part in parts] == [count, 10 - count]
        np.testing.assert_allclose(sum(leaf_values(part, X, outputs=1) for part in parts), whole)


def test_the_model_can_be_saved():
    made = model_of(of_forest(forest(), num_trees=5), boosted=False, **SIZES)
    again = serialize.loads(serialize.dumps(made))
    assert np.array_equal(again.predict_proba(X), made.predict_proba(X))


def changed(**arrays):
    return {**of_forest(forest(), num_trees=5), **arrays}


def moved(name, place, value):
    array = changed()[name].astype(np.int64 if name not in ("thresholds", "values") else np.float32)
    array[place] = value
    return changed(**{name: array})


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        dict(reversed(changed().items())),
        changed(columns=changed()["columns"].astype(np.float64)),
        changed(thresholds=changed()["thresholds"][1:]),
        changed(values=changed()["values"][:, 1:]),
        changed(sizes=changed()["sizes"][1:]),
        changed(sizes=changed()["sizes"][:0]),
        moved("sizes", 0, 0),
        moved("sizes", slice(0, 2), [-1, 1]),
        moved("left", 0, -1),
        moved("left", 0, 10_000),
        moved("right", 0, 0),
        moved("columns", 0, 2),
        moved("columns", 0, -1),
        moved("values", (0, 0), -0.5),
        moved("values", slice(None), 0.5),
    ],
)
def test_trees_that_lead_nowhere_are_refused(arrays):
    with pytest.raises(PayloadError):
        checked(arrays, boosted=False, **SIZES)


def test_a_child_in_the_next_tree_is_refused():
    trees = changed()
    last = int(trees["sizes"][0]) - 1  # a leaf, which now leads on
    whole = {name: trees[name].astype(np.int64) for name in ("left", "right")}
    for array in whole.values():
        array[last] = 1
    values = np.delete(trees["values"], int((trees["left"][:last] == 0).sum()), axis=0)
    with pytest.raises(PayloadError, match="children"):
        checked(changed(**whole, values=values), boosted=False, **SIZES)


@pytest.mark.parametrize(("value", "count"), [(2e6, 3), (0.0, 2)])
def test_boosted_trees_are_within_limits_and_as_many_for_each_class(value, count):
    leaf = {name: np.zeros(count, np.uint8) for name in NAMES} | {
        "sizes": np.ones(count, np.uint8),
        "thresholds": np.zeros(count, np.float32),
        "values": np.full((count, 1), value, np.float32),
    }
    with pytest.raises(PayloadError, match="boosted"):
        checked(leaf, boosted=True, **SIZES)
