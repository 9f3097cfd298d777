"""FedMD's pairs: public rows of one data set, private rows of another."""

from __future__ import annotations

import gzip
import os
import struct

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.public import PublicLabels
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.errors import Code, ConfigError, DataError


def _idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    with gzip.open(path, "wb") as file:
        file.write(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def root(tmp_path):
    """Sixty digits and, per file, 80 letters: the letter in the first pixel, EMNIST's own labels from 1."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 60), ("t10k", 20)):
        images, labels = rng.integers(0, 255, (count, 28, 28)), np.arange(count) % 10
        images[:, 0, 0] = labels
        _idx(tmp_path / f"mnist/{part}-images-idx3-ubyte.gz", images)
        _idx(tmp_path / f"mnist/{part}-labels-idx1-ubyte.gz", labels)
    for part in ("train", "test"):
        images, labels = rng.integers(0, 255, (80, 28, 28)), np.arange(80) % 26 + 1
        images[:, 0, 0], images[:, 0, 1], images[:, 1, 0] = labels, 7, 9
        _idx(tmp_path / f"emnist-letters/emnist-letters-{part}-images-idx3-ubyte.gz", images)
        _idx(tmp_path / f"emnist-letters/emnist-letters-{part}-labels-idx1-ubyte.gz", labels)
    return tmp_path


def test_private_rows_are_six_letters_and_public_rows_digits_with_labels_of_their_own(root):
    pool = load_pool("mnist-emnist", seed=1, data_root=root)
    assert pool.public.schema.classes == tuple("abcdef")
    assert len(pool.y) == len(pool.y_test) == 20
    # the first pixel is the letter, counted from 1; upright, its neighbours have changed places
    assert np.array_equal(np.rint(pool.X[:, 0] * 255), pool.y + 1)
    assert (np.rint(pool.X[:, 1] * 255) == 9).all()
    assert pool.public.num_rows == 60
    assert pool.public.y is None
    assert np.array_equal(np.rint(pool.public.X[:, 0] * 255), pool.public.labels.y)
    assert (pool.public.labels.num_classes, pool.public.labels.of_schema) == (10, False)


def test_in_the_joint_label_space_digits_come_first_and_are_the_truth(root):
    pool = load_pool("mnist-emnist", seed=1, data_root=root, output_classes="joint")
    assert pool.public.schema.classes == (*"0123456789", *"abcdef")
    assert set(pool.y) == set(range(10, 16)) == set(pool.y_test)
    assert np.array_equal(np.rint(pool.X[:, 0] * 255), pool.y - 9)
    assert np.array_equal(pool.public.labels.y, pool.public.y)
    assert (pool.public.labels.num_classes, pool.public.labels.of_schema) == (16, True)


def test_fewer_rows_are_drawn_from_their_own_files(root):
    pool = load_pool("mnist-emnist", seed=1, data_root=root, num_public=7, num_private=5, num_test=3)
    assert (pool.public.num_rows, len(pool.y), len(pool.y_test)) == (7, 5, 3)
    assert len(pool.public.labels.y) == 7
    other = load_pool("mnist-emnist", seed=2, data_root=root, num_public=7)
    assert other.public.fingerprint != pool.public.fingerprint


def test_explicit_public_rows_count_in_the_public_file(root):
    rows = {"public": np.array([59, 3]), "test": np.array([0]), "private": np.array([1, 2])}
    pool = load_pool("mnist-emnist", seed=1, data_root=root, rows=rows)
    assert pool.public.labels.y.tolist() == [9, 3]
    with pytest.raises(DataError, match="row numbers below 60"):
        load_pool("mnist-emnist", seed=1, data_root=root, rows={**rows, "public": np.array([60])})


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"output_classes": "both"}, ConfigError, "paper.output-classes must be one of private, joint, got 'both'"),
        ({"public_from": "test"}, ConfigError, "paper.public-from must be"),
        ({"num_public": 61}, DataError, "be at most the 60 public rows"),
        (
            {"name": "digits", "output_classes": "joint"},
            ConfigError,
            "paper.output-classes must be private for 'digits'",
        ),
    ],
)
def test_impossible_pools_are_refused(root, settings, error, message):
    with pytest.raises(error, match=message):
        load_pool(**{"name": "mnist-emnist", "seed": 1, "data_root": root, **settings})


def test_a_missing_half_is_named(tmp_path):
    with pytest.raises(DataError, match="mnist/train-images") as caught:
        load_pool("mnist-emnist", seed=1, data_root=tmp_path)
    assert caught.value.code == Code.MISSING_FILE


@pytest.mark.parametrize(
    ("name", "private", "public"), [("mnist-emnist", 28800, 60000), ("cifar10-cifar100", 3000, 10000)]
)
def test_the_real_pairs_have_the_published_sizes(name, private, public):
    if not os.environ.get("FEDKD_DATA"):
        pytest.skip("FEDKD_DATA is not set: the real pairs were NOT read")
    pool = load_pool(name, seed=1, data_root=os.environ["FEDKD_DATA"])
    assert (len(pool.y), pool.public.num_rows) == (private, public)
    assert np.bincount(pool.y).tolist() == [private // 6] * 6


SCHEMA = Schema(columns=(Column(name="a", kind="numeric"),), classes=("no", "yes"), label="paid")


def _public(tmp_path, frame):
    frame.to_csv(tmp_path / "public.csv", index=False)
    SCHEMA.write(tmp_path / "schema.toml")
    return tmp_path / "public.csv"


def test_a_silo_s_public_file_may_bring_labels_of_the_schema_or_of_their_own(tmp_path):
    path = _public(tmp_path, pd.DataFrame({"a": [1, 2, 3], "paid": ["yes", "no", "no"], "kind": ["x", "z", "y"]}))
    of_schema = load_public(path, labels="paid").labels
    assert (of_schema.y.tolist(), of_schema.num_classes, of_schema.of_schema) == ([1, 0, 0], 2, True)
    own = load_public(path, labels="kind").labels
    assert (own.y.tolist(), own.num_classes, own.of_schema) == ([0, 2, 1], 3, False)
    assert load_public(path).labels is None
    assert load_public(path).fingerprint == load_public(path, labels="kind").fingerprint


@pytest.mark.parametrize(
    ("column", "name", "message"),
    [
        ({"kind": ["x", "x", "x"]}, "kind", "column 'kind' must hold at least two classes, got 1"),
        ({"paid": ["yes", "maybe", "no"]}, "paid", "maybe"),
        ({}, "kind", "paper.public-label-column must be a column of"),
    ],
)
def test_labels_that_are_not_there_are_refused(tmp_path, column, name, message):
    path = _public(tmp_path, pd.DataFrame({"a": [1, 2, 3], **column}))
    with pytest.raises(DataError, match=message):
        load_public(path, labels=name)


def test_public_labels_are_checked():
    with pytest.raises(DataError, match=r"labels of the public rows must lie within 0..1, got 0 to 2"):
        PublicLabels(y=np.array([0, 2], dtype=np.int16), num_classes=2)
