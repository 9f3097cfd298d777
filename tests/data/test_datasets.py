import numpy as np
import pandas as pd
import pytest
from data.conftest import check_pool, forest_accuracy

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.errors import Code, FedkdError


def test_copied_test_rows_are_those_that_stand_among_the_private_ones_with_the_same_label_and_text(tmp_path):
    rng = np.random.default_rng(0)
    once = pd.DataFrame({"a": rng.normal(size=80), "b": rng.choice(["x", "y"], 80), "y": rng.integers(0, 2, 80)})
    once["text"] = [f"word{i % 7} and word{i % 5} are here, with number{i}" for i in range(80)]

    def copied(table, **keywords):
        table.to_csv(tmp_path / "table.csv", index=False)
        return load_pool("table", seed=1, table=str(tmp_path / "table.csv"), label="y", **keywords)

    assert copied(once).num_copied_test_rows() == 0
    twice = pd.concat([once, once])
    pool = copied(twice)
    private = set(map(tuple, np.c_[pool.X, pool.y]))
    assert pool.num_copied_test_rows() == sum(tuple(row) in private for row in np.c_[pool.X_test, pool.y_test])
    assert 10 < pool.num_copied_test_rows() < 40
    relabelled = pd.concat([once, once.assign(y=1 - once.y)])
    assert copied(relabelled).num_copied_test_rows() == 0
    assert copied(pd.concat([once, once.assign(a=once.a + 1)])).num_copied_test_rows() == 0
    reordered = once.assign(text=[" ".join(reversed(text.split())) for text in once.text])
    assert copied(pd.concat([once, reordered])).num_copied_test_rows() == 0


@pytest.mark.parametrize(
    ("name", "rows", "features", "accuracy"),
    [
        ("digits", 1797, 64, 0.93),
        ("breast-cancer", 569, 30, 0.9),
        ("wine", 178, 13, 0.9),
        ("synthetic(rows=2000, classes=4)", 2000, 20, 0.8),
    ],
)
def test_embedded_sets_split_in_half_and_quarters_and_can_be_learnt(name, rows, features, accuracy):
    pool, quarter = load_pool(name, seed=0), round(rows / 4)
    check_pool(pool, rows - 2 * quarter, quarter, quarter, features)
    assert forest_accuracy(pool) > accuracy
    again, other = load_pool(name, seed=0), load_pool(name, seed=1)
    assert np.array_equal(pool.rows, again.rows)
    assert pool.public.fingerprint == again.public.fingerprint
    assert not np.array_equal(pool.rows, other.rows)
    if name == "digits":  # of which no two images are the same
        assert len(np.unique(np.concatenate([pool.X, pool.public.X, pool.X_test]), axis=0)) == rows
    if name == "breast-cancer":  # PrivateKT's sizes
        check_pool(load_pool(name, seed=0, num_test=114, num_public=370, num_private=85), 85, 370, 114, 30)


@pytest.mark.parametrize(("features", "classes"), [(2, 2), (50, 10), (5, 20)])
def test_synthetic_data_is_neither_trivial_nor_hopeless_at_any_size(features, classes):
    pool = load_pool(f"synthetic(rows=2000, features={features}, classes={classes})", seed=3)
    assert 0.7 < forest_accuracy(pool) < 0.99


TWICE = {"public": [1], "test": [1]}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": TWICE}, "name each row of the train file once"),
        ({"rows": TWICE | {"public": [178]}}, r"rows\['public'\] must be row numbers below 178 of 'wine', got 178"),
        ({"rows": TWICE | {"public": []}}, r"rows\['public'\] .* got 'none'"),
        ({"rows": {"test": [1]}}, "must have 'public', 'test'"),
        ({"num_public": 200, "num_private": 46}, r"at most the 178 rows of 'wine', got 290 \(200 public, 44 test, 46 "),
        ({"num_public": 134}, r"leave at least one of each part, got 134 public, 44 test, 0 private\. Give more"),
        ({"name": "iris"}, r"dataset must be one of digits, .*fashion-mnist.*, got 'iris'"),
        (
            {"name": "digits(public_from='test')"},
            "public_from must be 'train', or 'test' for a set with an official test",
        ),
        ({"name": "synthetic(features=2, classes=5)"}, "features of synthetic must place 5 classes apart, got 2"),
        ({"name": "synthetic(columns=4)"}, "parameter of synthetic must be rows or features or classes, got 'columns'"),
        ({"name": "synthetic(rows=10, classes=4)"}, "rows of synthetic must be >= 16 for 4 classes, got 10"),
    ],
)
def test_an_impossible_split_is_refused(settings, message):
    if "rows" in settings:
        settings = {"rows": {key: np.array(value, dtype=int) for key, value in settings["rows"].items()}}
    with pytest.raises(FedkdError, match=message) as caught:
        load_pool(**{"name": "wine", "seed": 0, **settings})
    assert (caught.value.code is Code.NO_ROWS) is (settings == {"num_public": 134})
