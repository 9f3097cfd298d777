import sys
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr.data.partitioning import _deal, _dealing_order, by_party, partition, read_split
from fedkd_flwr.errors import Code, ConfigError, DataError, FedkdError, MissingExtraError
from fedkd_flwr.seeds import derive_rng, derive_seed

Y = np.random.default_rng(0).integers(0, 10, 2000)


def _check_disjoint(parts, n, *, all_used=True):
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0
    assert together.max() < n
    assert all(part.dtype == np.int64 and len(part) and (np.diff(part) > 0).all() for part in parts)
    if all_used:
        assert len(together) == n


@pytest.mark.parametrize("num_parties", [1, 5])
@pytest.mark.parametrize("name", ["iid", "dirichlet", "inner-dirichlet", "pathological", "shard", "size-skewed"])
def test_parts_are_disjoint_ascending_seeded_and_numerous(name, num_parties):
    parts = partition(Y, name=name, num_parties=num_parties, seed=1, min_rows=1)
    _check_disjoint(parts, len(Y), all_used=name in ("iid", "dirichlet", "size-skewed"))
    assert len(parts) == num_parties
    if num_parties > 1:
        again, other = (partition(Y, name=name, num_parties=num_parties, seed=s, min_rows=1) for s in (1, 2))
        assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
        sizes, mixes = [len(part) for part in parts], [np.bincount(Y[part], minlength=10) for part in parts]
        assert {
            "iid": max(sizes) - min(sizes) <= 1 and np.min(mixes) > 0,
            "dirichlet": len(set(sizes)) > 3,
            "inner-dirichlet": set(sizes) == {2000 // 5},
            "pathological": {int((mix > 0).sum()) for mix in mixes} == {2},
            # two blocks of neighbours, each over one boundary at most
            "shard": len(set(sizes)) == 1 and max((mix > 0).sum() for mix in mixes) <= 4,
            "size-skewed": sizes == sorted(sizes) and sizes[-1] / sizes[0] == pytest.approx(5, rel=0.1),
        }[name]
        assert not all(np.array_equal(a, b) for a, b in zip(parts, other, strict=True))


def test_real_parties_are_not_counted_anew_and_each_must_keep_a_row():
    party_of = np.array([1, 0, 1, 1])
    assert [part.tolist() for part in by_party(party_of, ["a", "b"], 0)] == [[1], [0, 2, 3]]
    with pytest.raises(ConfigError, match=r"num-parties must be 2 \(or 0\), the parties in the data: a, b, got 3\."):
        by_party(party_of, ["a", "b"], 3)
    with pytest.raises(DataError, match="must keep a row of each party, got none of c") as caught:
        by_party(party_of, ["a", "b", "c"], 3)
    assert caught.value.code is Code.NO_ROWS


def test_half_of_the_rows_may_be_dealt_with_a_second_alpha():
    def shares(alpha, second):
        settings = {"num_parties": 5, "seed": 0, "alpha": alpha, "second_alpha": second, "min_rows": 1}
        parts = partition(Y, name="dirichlet", **settings)
        _check_disjoint(parts, len(Y))
        counts = np.array([np.bincount(Y[part], minlength=10) for part in parts])
        return counts / counts.sum(axis=0)

    both, even, skewed = shares(100.0, 0.01), shares(100.0, 0.0), shares(0.01, 0.0)
    # of each class one party gets about all of the skewed half; all get a fifth of the even half
    assert both.max(axis=0).min() > 0.45
    assert both.max(axis=0).max() < 0.75
    assert both.min() > 0.05
    assert even.max() < 0.35
    assert skewed.max(axis=0).mean() > 0.9


def test_dirichlet_is_redrawn_until_every_party_has_min_rows():
    parts = partition(np.repeat([0, 1], [18500, 5900]), name="dirichlet", num_parties=50, seed=0, min_rows=10)
    assert min(len(part) for part in parts) >= 10


def test_extreme_skew_still_deals_every_row_where_flwr_datasets_would_divide_by_zero():
    for seed in (3, 7, 12):  # in whose draws 0 / 0 comes up, which would be an error here
        _check_disjoint(partition(Y[:900], name="dirichlet", num_parties=10, seed=seed, alpha=0.01), 900)


@pytest.mark.parametrize(("num_parties", "alpha", "seed"), [(2, 0.1, 0), (9, 1.0, 1)])
def test_iid_and_dirichlet_are_those_of_flwr_datasets(num_parties, alpha, seed):
    from flwr_datasets import partitioner as theirs

    codes = _dealing_order(Y, "rarest-first")
    stream = derive_seed(seed, "partition", "dirichlet", 0)
    made = theirs.DirichletPartitioner(num_parties, "label", alpha, 1, self_balancing=True, seed=stream)
    wanted = _deal(made, num_parties, codes, derive_rng(seed, "partition-order", 0))
    found = partition(Y, name="dirichlet", num_parties=num_parties, seed=seed, alpha=alpha, min_rows=1)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    wanted = _deal(theirs.IidPartitioner(num_parties), num_parties, Y, derive_rng(seed, "partition-order", "iid"))
    found = partition(Y, name="iid", num_parties=num_parties, seed=seed)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    arrays = {"public_1": [0, 1], "test_1": [2], "party_1_00": [9, 3], "party_1_01": [7]}
    np.savez(tmp_path / "parts.npz", **{key: np.array(value, dtype=np.int32) for key, value in arrays.items()})
    return tmp_path / "parts.npz"


def test_row_numbers_of_the_source_file_become_positions_in_the_pool(file):
    rows = np.array([9, 8, 7, 3])
    parts = partition(Y[:4], name="file", num_parties=2, seed=0, path=file, index=1, rows=rows)
    assert [part.tolist() for part in parts] == [[0, 3], [2]]
    assert [len(p) for p in partition(Y[:10], name="file", num_parties=0, seed=0, path=file, index=1)] == [2, 1]


def test_classes_are_dealt_in_the_order_asked_for():
    y = np.array([5, 5, 5, 7, 7, 9])
    assert _dealing_order(y, "rarest-first").tolist() == [2, 2, 2, 1, 1, 0]
    assert _dealing_order(y, "frequent-first").tolist() == [0, 0, 0, 1, 1, 2]
    assert _dealing_order(y, "label").tolist() == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "random"}, "partitioner must be one of iid, dirichlet"),
        ({"num_parties": 0}, "num-parties must be a whole number >= 1, got 0"),
        ({"alpha": 0.0}, "dirichlet-alpha must be finite and > 0"),
        ({"class_order": "random"}, "class_order must be one of rarest-first"),
        ({"name": "pathological", "classes": 11}, "classes of pathological must be a whole number within 1"),
        ({"name": "shard", "blocks": 0}, "blocks of shard must be a whole number >= 1"),
        ({"y": Y[:200], "num_parties": 10, "alpha": 0.1, "min_rows": 19}, "19 rows .* 220 draws .* 10 parties on 200"),
        ({"y": Y[:900], "num_parties": 100}, r"must be at least 100 parties x 10 min_rows, got 900"),
        ({"y": Y[:3], "name": "iid"}, "private rows must be at least 5, one a party, got 3"),
        ({"y": Y[:40], "name": "size-skewed", "num_parties": 20}, "must give each of 20 parties a row, got 40 rows"),
    ],
)
def test_what_cannot_be_dealt_is_refused_with_the_numbers(settings, message):
    with pytest.raises(FedkdError, match=message) as caught:
        partition(**{"y": Y, "name": "dirichlet", "num_parties": 5, "seed": 0, **settings})
    assert (caught.value.code is Code.NO_ROWS) is ("private rows must be at least" in str(caught.value))


def test_without_flwr_datasets_the_extra_is_named_and_the_default_needs_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr_datasets.partitioner", None)
    with pytest.raises(MissingExtraError, match=r"fedkd-flwr\[simulation\]"):
        partition(Y, name="shard", num_parties=2, seed=0)
    assert len(partition(Y, name="dirichlet", num_parties=2, seed=0)) == 2


def test_a_file_of_another_pool_index_or_number_of_parties_or_none_is_refused(file, tmp_path):
    def deal(rows=2000, **settings):
        usual = {"name": "file", "num_parties": 2, "seed": 0, "path": file, "index": 1}
        return partition(Y[:rows], **usual | settings)

    assert {key: rows.tolist() for key, rows in read_split(file, 1).items()} == {"public": [0, 1], "test": [2]}
    np.savez(tmp_path / "twice.npz", party_0_00=[1, 2], party_0_01=[2])
    (tmp_path / "bad.npz").write_bytes(b"PK")
    for settings, message in (
        ({"rows": 9}, r"name rows of the private pool .* got 1 row numbers outside it \(first: 9\)"),
        ({"index": 0}, "must have arrays public_0, test_0, party_0_00"),
        ({"num_parties": 3}, r"num-parties must be 2 \(or 0\), as .* has, got 3"),
        ({"path": tmp_path / "twice.npz", "index": 0}, "must name each row once"),
        ({"path": tmp_path / "none.npz"}, "Set paper.partition-path"),
        ({"path": tmp_path / "bad.npz"}, "must be an NPZ file of plain arrays"),
    ):
        with pytest.raises(FedkdError, match=message):
            deal(**settings)
    with pytest.raises(DataError, match="must have arrays public_0"):
        read_split(file, 0)
