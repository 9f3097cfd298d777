from __future__ import annotations

import builtins
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr.data.partitioning import _dealing_order, by_party, partition, read_split
from fedkd_flwr.errors import Code, ConfigError, DataError, MissingExtraError

Y = np.random.default_rng(0).integers(0, 10, 2000)


def _check_disjoint(parts, n, *, all_used=True):
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    assert together.min() >= 0
    assert together.max() < n
    assert all(part.dtype == np.int64 and len(part) and (np.diff(part) > 0).all() for part in parts)
    if all_used:
        assert len(together) == n


@pytest.mark.parametrize("num_parties", [1, 3, 20])
@pytest.mark.parametrize("name", ["iid", "dirichlet", "inner-dirichlet", "pathological", "shard", "size-skewed"])
def test_parts_are_disjoint_ascending_seeded_and_numerous(name, num_parties):
    parts, again, other = (partition(Y, name=name, num_parties=num_parties, seed=s, min_rows=1) for s in (1, 1, 2))
    _check_disjoint(parts, len(Y), all_used=name in ("iid", "dirichlet", "size-skewed"))
    assert len(parts) == num_parties
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    if num_parties > 1:
        assert not all(np.array_equal(a, b) for a, b in zip(parts, other, strict=True))


def test_real_parties_are_not_counted_anew_and_each_must_keep_a_row():
    party_of = np.array([1, 0, 1, 1])
    assert [part.tolist() for part in by_party(party_of, ["a", "b"], 0)] == [[1], [0, 2, 3]]
    with pytest.raises(ConfigError, match=r"num-parties must be 2 \(or 0\), the parties in the data: a, b, got 3\."):
        by_party(party_of, ["a", "b"], 3)
    with pytest.raises(DataError, match="must keep a row of each party, got none of c") as caught:
        by_party(party_of, ["a", "b", "c"], 3)
    assert caught.value.code is Code.NO_ROWS


def test_iid_parts_are_equal_in_size_and_mixed():
    parts = partition(np.sort(Y), name="iid", num_parties=10, seed=0)
    assert {len(part) for part in parts} == {200}
    assert all(len(np.unique(np.sort(Y)[part])) == 10 for part in parts)


def test_small_alpha_is_more_skewed_than_large_alpha():
    def largest_share(alpha):
        parts = partition(Y, name="dirichlet", num_parties=5, seed=0, alpha=alpha)
        return np.mean([np.bincount(Y[part]).max() / len(part) for part in parts])

    assert largest_share(0.05) > 0.4 > 0.2 > largest_share(100.0)


def test_half_of_the_rows_may_be_dealt_with_a_second_alpha():
    def parts(alpha, second):
        return partition(Y, name="dirichlet", num_parties=5, seed=0, alpha=alpha, second_alpha=second, min_rows=1)

    def shares(alpha, second):
        counts = np.array([np.bincount(Y[part], minlength=10) for part in parts(alpha, second)])
        return counts / counts.sum(axis=0)

    _check_disjoint(parts(100.0, 0.01), len(Y), all_used=True)
    both, even, skewed = shares(100.0, 0.01), shares(100.0, 0.0), shares(0.01, 0.0)
    # of each class one party gets about all of the skewed half; all get a fifth of the even half
    assert both.max(axis=0).min() > 0.45
    assert both.max(axis=0).max() < 0.75
    assert both.min() > 0.05
    assert even.max() < 0.35
    assert skewed.max(axis=0).mean() > 0.9


def test_inner_dirichlet_gives_all_parties_equally_many_rows_of_skewed_classes():
    def parts(alpha):
        return partition(Y + 3, name="inner-dirichlet", num_parties=7, seed=0, alpha=alpha)

    def largest_share(alpha):
        return np.mean([np.bincount(Y[part]).max() / len(part) for part in parts(alpha)])

    assert {len(part) for part in parts(0.5)} == {2000 // 7}
    _check_disjoint(parts(0.5), len(Y), all_used=False)
    assert largest_share(0.05) > 0.4 > 0.2 > largest_share(100.0)


def test_pathological_parties_hold_exactly_their_classes():
    parts = partition(Y, name="pathological", num_parties=10, seed=0, classes_per_party=3)
    assert {len(np.unique(Y[part])) for part in parts} == {3}


def test_shards_leave_parties_few_classes():
    parts = partition(Y, name="shard", num_parties=10, seed=0, classes_per_party=2)
    assert {len(part) for part in parts} == {100 * 2}
    assert max(len(np.unique(Y[part])) for part in parts) <= 4  # two blocks, each over one boundary at most


def test_sizes_grow_with_the_party_s_number():
    y = np.zeros(200_000, dtype=int)
    sizes = [len(p) for p in partition(y, name="size-skewed", num_parties=10, seed=0)]
    assert sizes == sorted(sizes)
    assert sizes[-1] / sizes[0] == pytest.approx(10, rel=0.1)


def test_classes_are_dealt_in_the_order_asked_for():
    y = np.array([5, 5, 5, 7, 7, 9])
    assert _dealing_order(y, "rarest-first").tolist() == [2, 2, 2, 1, 1, 0]
    assert _dealing_order(y, "frequent-first").tolist() == [0, 0, 0, 1, 1, 2]
    assert _dealing_order(y, "label").tolist() == [0, 0, 0, 1, 1, 2]


def test_class_order_reaches_the_deal():
    # the class dealt first spreads freely; self-balancing keeps the second from parties that are full
    y = np.repeat([0, 1], [1500, 500])
    parts = {o: partition(y, name="dirichlet", num_parties=5, seed=0, class_order=o) for o in ("rarest-first", "label")}
    assert any(not np.array_equal(a, b) for a, b in zip(*parts.values(), strict=True))
    relabelled = partition(1 - y, name="dirichlet", num_parties=5, seed=0, class_order="label")
    assert all(np.array_equal(a, b) for a, b in zip(parts["rarest-first"], relabelled, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_dirichlet_is_redrawn_until_every_party_has_min_rows(seed):
    parts = partition(np.repeat([0, 1], [18500, 5900]), name="dirichlet", num_parties=50, seed=seed, min_rows=10)
    assert min(len(part) for part in parts) >= 10


def test_extreme_skew_still_deals_every_row_where_flwr_datasets_would_divide_by_zero():
    for seed in range(15):  # its 0 / 0 comes up in about one run of eight and would be an error here
        _check_disjoint(partition(Y[:900], name="dirichlet", num_parties=10, seed=seed, alpha=0.01), 900)


def test_a_party_at_the_average_gets_no_further_class():
    for seed in range(5):
        parts = partition(Y, name="dirichlet", num_parties=10, seed=seed, alpha=0.1)
        assert max(len(part) for part in parts) <= 200 + np.bincount(Y).max()


def test_hopeless_redraws_end_with_the_numbers():
    with pytest.raises(
        DataError, match=r"at least 19 rows \(paper.min-party-rows\), got none such in 220 draws .* 10 parties on 200"
    ):
        partition(Y[:200], name="dirichlet", num_parties=10, seed=0, alpha=0.1, min_rows=19)


def test_too_few_rows_for_min_rows_fail_at_once_with_the_numbers():
    with pytest.raises(DataError, match=r"must be at least 100 parties x 10 paper\.min-party-rows, got 900") as caught:
        partition(Y[:900], name="dirichlet", num_parties=100, seed=0)
    assert caught.value.code is Code.NO_ROWS


def test_more_parties_than_rows_is_refused():
    with pytest.raises(DataError, match="private rows must be at least 5, one a party, got 3"):
        partition(Y[:3], name="iid", num_parties=5, seed=0)


def test_a_skew_that_leaves_a_party_empty_is_refused():
    with pytest.raises(DataError, match="partitioner 'size-skewed' must give each of 20 parties a row, got 40 rows"):
        partition(Y[:40], name="size-skewed", num_parties=20, seed=0)


def test_more_shards_than_rows_is_refused():
    with pytest.raises(DataError, match="5 x 3 shards, got 10"):
        partition(Y[:10], name="shard", num_parties=5, seed=0, classes_per_party=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "random"}, "partitioner must be one of iid, dirichlet"),
        ({"num_parties": 0}, "num-parties must be a whole number >= 1, got 0"),
        ({"alpha": 0.0}, "dirichlet-alpha must be finite and > 0"),
        ({"alpha": float("nan")}, "dirichlet-alpha must be finite and > 0"),
        ({"second_alpha": -1.0}, "paper.second-dirichlet-alpha must be finite and > 0"),
        ({"min_rows": 0}, "paper.min-party-rows must be a whole number >= 1"),
        ({"class_order": "random"}, "paper.class-order must be one of rarest-first"),
        (
            {"name": "pathological", "classes_per_party": 11},
            "paper.classes-per-party must be a whole number within 1",
        ),
        ({"name": "shard", "classes_per_party": 0}, "paper.classes-per-party must be a whole number >= 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        partition(Y, **{"name": "dirichlet", "num_parties": 5, "seed": 0, **settings})


def test_without_flwr_datasets_the_extra_is_named(monkeypatch):
    real_import = builtins.__import__

    def no_flwr_datasets(name, *args, **kwargs):
        if name.startswith("flwr_datasets"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_flwr_datasets)
    with pytest.raises(MissingExtraError, match=r"fedkd-flwr\[simulation\]"):
        partition(Y, name="shard", num_parties=2, seed=0)
    assert len(partition(Y, name="dirichlet", num_parties=2, seed=0)) == 2  # the default needs no extra


@pytest.mark.parametrize(("num_parties", "alpha"), [(2, 0.1), (5, 0.1), (10, 0.5), (10, 100.0), (30, 1.0)])
def test_iid_and_dirichlet_are_those_of_flwr_datasets(num_parties, alpha):
    from flwr_datasets import partitioner as theirs

    from fedkd_flwr.data.partitioning import _deal
    from fedkd_flwr.seeds import derive_rng, derive_seed

    for seed in range(3):
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


def test_public_and_test_rows_are_read_from_the_file(file):
    assert {key: rows.tolist() for key, rows in read_split(file, 1).items()} == {"public": [0, 1], "test": [2]}


def test_rows_outside_the_pool_are_counted_and_named(file):
    with pytest.raises(DataError, match=r"name rows of the private pool .* got 1 row numbers outside it \(first: 9\)"):
        partition(Y[:9], name="file", num_parties=2, seed=0, path=file, index=1)


def test_another_index_or_number_of_parties_is_refused(file):
    with pytest.raises(DataError, match="must have arrays public_0, test_0, party_0_00"):
        partition(Y, name="file", num_parties=2, seed=0, path=file, index=0)
    with pytest.raises(DataError, match="must have arrays public_0"):
        read_split(file, 0)
    with pytest.raises(ConfigError, match=r"num-parties must be 2 \(or 0\), as .* has, got 3"):
        partition(Y, name="file", num_parties=3, seed=0, path=file, index=1)


def test_a_row_given_to_two_parties_is_refused(tmp_path):
    np.savez(tmp_path / "parts.npz", party_0_00=[1, 2], party_0_01=[2])
    with pytest.raises(DataError, match="must name each row once"):
        partition(Y, name="file", num_parties=2, seed=0, path=tmp_path / "parts.npz")


def test_a_missing_or_damaged_partition_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"Set paper.partition-path") as caught:
        partition(Y, name="file", num_parties=2, seed=0, path=tmp_path / "none.npz")
    assert caught.value.code is Code.MISSING_FILE
    (tmp_path / "bad.npz").write_bytes(b"PK")
    with pytest.raises(DataError, match="must be an NPZ file of plain arrays"):
        partition(Y, name="file", num_parties=2, seed=0, path=tmp_path / "bad.npz")
