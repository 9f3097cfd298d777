"""Bins: fixed by public facts alone, one for each value of each column, and rows that are drawn back from them."""

import numpy as np
import pandas as pd
import pytest
from schemas import column, schema_of

from fedkd_flwr.data.bins import Bins, bin_rows
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.errors import DataError

SEX = column("sex", "f", "m")
SCHEMA = schema_of(column("age", bins=(0, 18, 30, 99)), SEX)
PUBLIC = make_public_set(pd.DataFrame({"age": [10, 25, 60], "sex": ["f", "m", "f"]}), SCHEMA)
BINS = Bins.of(PUBLIC, most=5)


def test_a_number_is_in_the_bin_that_begins_at_or_below_it_and_a_missing_or_unknown_category_has_a_bin_of_its_own():
    """Outer bins take all beyond them, and an empty number is the public median."""
    assert BINS.sizes == (3, 3)
    ages, sexes = [-5, 17.9, 18, 29, 30, 1000, np.nan, 20, 20, 20], [*"ffffffm", "", "diverse", "f"]
    found = BINS.codes(PUBLIC.features(pd.DataFrame({"age": ages, "sex": sexes})))
    assert found.T.tolist() == [[0, 0, 1, 1, 2, 2, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 2, 2, 0]]


def test_counts_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.integers(0, 99, 200), "sex": rng.choice(["f", "m", "x"], 200)})
    y = rng.integers(0, 2, 200)
    expected = np.zeros((6, 2), dtype=int)
    for age, sex, label in zip(table.age, table.sex, y, strict=True):
        expected[(age >= 18) + (age >= 30), label] += 1
        expected[3 + {"f": 0, "m": 1}.get(sex, 2), label] += 1
    assert (BINS.counts(PUBLIC.features(table), y, num_classes=2) == expected).all()


def test_scores_of_cells_are_the_sum_over_the_thresholds_that_a_row_reaches():
    rng = np.random.default_rng(1)
    scores, X = rng.normal(size=(6, 2)), rng.normal(size=(50, 3)).astype(np.float32)
    X[:, 1:] = np.eye(3)[rng.integers(0, 3, 50)][:, :2]  # of two categories, or none
    weights, rest = BINS.by_threshold(scores)
    reached = X[:, BINS.columns] >= BINS.thresholds
    assert np.allclose(reached @ weights + rest, scores[BINS.cells(BINS.codes(X))].sum(axis=1))


def test_drawn_rows_are_in_the_bins_that_they_were_drawn_for_and_whole_where_edges_are():
    rng = np.random.default_rng(1)
    wanted = np.stack([rng.integers(0, 3, 300), rng.integers(0, 3, 300)], axis=1)
    table = BINS.rows(wanted, rng=rng)
    assert (BINS.codes(PUBLIC.features(table)) == wanted).all()
    assert table.age.dtype == np.int64
    assert table.age.between(0, 99).all()
    assert set(table.sex) == {"f", "m", ""}


@pytest.mark.parametrize("spread", [1.0, 1e-6, 1e7])
def test_without_bins_in_the_schema_public_rows_fill_them_and_few_values_are_bins_of_their_own(spread):
    schema = schema_of(*map(column, "abc"))
    rng = np.random.default_rng(1)
    mostly_0 = np.where(rng.random(500) < 0.9, 0, rng.integers(1, 1000, 500))
    table = pd.DataFrame({"a": rng.normal(size=500) * spread, "b": rng.integers(0, 2, 500), "c": mostly_0})
    public = make_public_set(table, schema)
    bins = Bins.of(public, most=8)
    counts = bins.counts(public.X, np.zeros(500, int), num_classes=2)[:, 0]
    a, b, c = np.split(counts, np.cumsum(bins.sizes)[:-1])
    assert len(a) == 8
    assert a.min() > 50
    assert b.tolist() == np.bincount(table.b).tolist()
    assert len(c) > 3
    assert c[0] < 470
    drawn = bins.rows(bins.codes(public.X), rng=rng)
    assert set(drawn.b) == {0, 1}
    assert (bins.codes(public.features(drawn)) == bins.codes(public.X)).mean() > 0.99
    assert ((drawn.c == 0) == (table.c == 0)).all()
    assert drawn.c.dtype == np.int64
    assert [name for name, _ in bins.names()] == ["a"] * len(a) + ["b"] * 2 + ["c"] * len(c)


def test_rows_of_a_schema_alone_show_each_bin():
    table = bin_rows(SCHEMA)
    public = make_public_set(table, SCHEMA)
    counts = Bins.of(public, most=5).counts(public.X, np.zeros(len(table), int), num_classes=2)
    assert counts[:, 0].min() == 1


@pytest.mark.parametrize(
    ("columns", "shape", "message"),
    [
        ((), (1, 2, 2), "noisy sums must be .* got images of shape.*another source"),
        ((column("note", kind="text"),), None, "noisy sums must be .* got texts: .*note.*another source"),
        ((column("age"), SEX), None, "bins must be given for every numeric .*none of age"),
    ],
)
def test_what_has_no_bins_is_refused_by_name(columns, shape, message):
    with pytest.raises(DataError, match=message):
        bin_rows(schema_of(*columns, shape=shape))
