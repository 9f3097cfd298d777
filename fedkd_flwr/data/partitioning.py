"""Dealing the rows of the private pool to parties: as flwr-datasets' partitioners do, or as a file or the data say.

docs/howto/your-data.md says what each gives. ``inner-dirichlet`` and ``shard`` leave out a remainder of rows, and
``pathological`` classes that no party was given. A party that the first class has filled gets nothing of the next one
in ``dirichlet``: flwr-datasets deals classes by label, the published FedKT code Adult's rarer class first, and
``class_order`` says which it is. ``iid`` and ``dirichlet`` are computed here with the same draws, because its
import takes seconds.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice, check_number, check_whole
from fedkd_flwr.data.choices import PARTITIONERS
from fedkd_flwr.data.columns import short_list
from fedkd_flwr.data.formats import read_npz, require_file
from fedkd_flwr.errors import Code, ConfigError, DataError, explain, import_extra
from fedkd_flwr.seeds import derive_rng, derive_seed

__all__ = ["CLASS_ORDERS", "by_party", "partition", "read_split"]

_LIBRARY = "flwr_datasets.partitioner", "simulation"
CLASS_ORDERS = ("rarest-first", "frequent-first", "label")

# flwr-datasets gives up after 11 draws; with 50 parties one draw in three succeeds at alpha 0.5, fewer at alpha 0.01
_DIRICHLET_SEEDS = 20
_DRAWS_PER_SEED = 11


def partition(
    y: NDArray[np.integer],
    *,
    name: str,
    num_parties: int,
    seed: int,
    alpha: float = 0.5,
    second_alpha: float = 0.0,
    classes: int = 2,
    blocks: int = 2,
    min_rows: int = 10,
    class_order: str = "rarest-first",
    path: str | os.PathLike[str] = "",
    index: int = 0,
    rows: NDArray[np.integer] | None = None,
) -> list[NDArray[np.int64]]:
    """Deal the rows of a pool, whose labels are ``y``, to parties: return the positions of each, ascending.

    >>> parts = partition(np.array([0, 0, 1, 1]), name="iid", num_parties=2, seed=0)
    >>> sorted(np.concatenate(parts).tolist())
    [0, 1, 2, 3]

    ``name`` is one of `PARTITIONERS`; party i of ``size-skewed`` is the i-th smallest. The smaller ``alpha``, of
    ``dirichlet`` and ``inner-dirichlet``, the more the parties differ; with a ``second_alpha`` > 0 ``dirichlet`` deals
    half of the rows, drawn at random, by each (FedCT, Table 2). A party of ``pathological`` holds ``classes`` classes,
    one of ``shard`` ``blocks`` blocks of rows sorted by class. ``dirichlet`` is redrawn, at most 220 times, until every
    party has ``min_rows``; ``class_order`` is one of `CLASS_ORDERS`. For ``file``, ``path`` is an NPZ file whose arrays
    ``party_<index>_<party>`` hold row numbers: the source file's, which ``rows`` says of each row of the pool, else
    positions in ``y``; 0 parties are as many as it lists.
    """
    check_choice("partitioner", name, tuple(PARTITIONERS))
    check_choice("class_order", class_order, CLASS_ORDERS)
    if name == "file":
        return _from_file(len(y), num_parties, path, index, rows)
    check_whole("num-parties", num_parties, 1)
    if not len(y) >= num_parties:
        raise DataError(explain("private rows", f"be at least {num_parties}, one a party", len(y)), code=Code.NO_ROWS)
    if name in ("dirichlet", "inner-dirichlet"):
        alphas = (alpha, second_alpha) if second_alpha and name == "dirichlet" else (alpha,)
        return _dirichlet(name, y, num_parties, seed, alphas, min_rows, class_order)
    rng = derive_rng(seed, "partition-order", name)
    if name == "iid":
        return [np.sort(part) for part in np.array_split(rng.permutation(len(y)), num_parties)]
    partitioner = _flwr_partitioner(name, y, num_parties, seed, classes, blocks)
    try:
        return _deal(partitioner, num_parties, y, rng)
    except ValueError as error:
        rule, seen = f"give each of {num_parties} parties a row", f"{len(y)} rows; flwr-datasets says: {error}"
        raise DataError(explain(f"partitioner {name!r}", rule, seen, "Use fewer parties or a milder skew.")) from error


def by_party(party_of: NDArray[np.integer], names: Sequence[str], num_parties: int) -> list[NDArray[np.int64]]:
    """Return the positions of each real party's rows, ascending; row i is of party ``names[party_of[i]]``.

    ``num_parties`` must be all of them, or 0.

    >>> [part.tolist() for part in by_party(np.array([1, 0, 1]), ["north", "south"], 2)]
    [[1], [0, 2]]
    """
    if num_parties not in (0, len(names)):
        way_out = "Leave it out, or set partitioner=dirichlet to split the rows at random."
        rule = f"be {len(names)} (or 0), the parties in the data: {short_list(names)}"
        raise ConfigError(explain("num-parties", rule, num_parties, way_out))
    parts = [np.flatnonzero(party_of == number) for number in range(len(names))]
    if empty := [name for name, part in zip(names, parts, strict=True) if not len(part)]:
        rule, seen = "keep a row of each party", f"none of {short_list(empty)}"
        way_out = "All its rows were drawn as public or test rows: lower num-public and num-test, or leave it out."
        raise DataError(explain("the private rows", rule, seen, way_out), code=Code.NO_ROWS)
    return parts


def _flwr_partitioner(name: str, y: NDArray[np.integer], num_parties: int, seed: int, classes: int, blocks: int) -> Any:
    partitioners = import_extra(*_LIBRARY, what="dealing rows to parties")
    stream = derive_seed(seed, "partition", name)
    if name == "pathological":
        own = check_whole("classes of pathological", classes, 1, len(np.unique(y)))
        # the cited study's mode; every class is used if there are at least as many parties as classes
        mode = "first-deterministic"
        return partitioners.PathologicalPartitioner(num_parties, "label", own, class_assignment_mode=mode, seed=stream)
    if name == "shard":
        check_whole("blocks of shard", blocks, 1)
        if not len(y) >= num_parties * blocks:
            rule = f"be at least one for each of {num_parties} x {blocks} shards"
            raise DataError(explain("private rows", rule, len(y)))
        return partitioners.ShardPartitioner(num_parties, "label", blocks, seed=stream)
    return partitioners.LinearPartitioner(num_parties)


def read_split(path: str | os.PathLike[str], index: int = 0) -> dict[str, NDArray[np.int64]]:
    """Return the row numbers of the public and test rows that a partition file lists, as `load_pool` takes them."""
    arrays, parts = _read_npz(path), ("public", "test")
    if not {f"{part}_{index}" for part in parts} <= arrays.keys():
        raise DataError(_no_such_partition(path, index, arrays))
    return {part: arrays[f"{part}_{index}"].astype(np.int64) for part in parts}


def _dirichlet(
    name: str, y: NDArray[np.integer], num_parties: int, seed: int, alphas: tuple[float, ...], min_rows: int, order: str
) -> list[NDArray[np.int64]]:
    for key, alpha in zip(("dirichlet-alpha", "second_alpha"), alphas, strict=False):
        check_number(key, alpha, above=0)
    check_whole("min_rows", min_rows, 1)
    way_out = "Use fewer parties, more private rows, a lower min_rows or a larger dirichlet-alpha."
    if not len(y) >= num_parties * min_rows:
        rule = f"be at least {num_parties} parties x {min_rows} min_rows"
        raise DataError(explain("private rows", rule, len(y), way_out), code=Code.NO_ROWS)
    codes = _dealing_order(y, order)
    for attempt in range(_DIRICHLET_SEEDS):
        stream, rng = derive_seed(seed, "partition", name, attempt), derive_rng(seed, "partition-order", attempt)
        try:
            # with alpha near 0 nobody below the average size may draw a share of a class: 0 is divided by 0
            with np.errstate(invalid="raise", divide="raise"):
                if name == "dirichlet":
                    rows = rng.permutation(len(y))
                    parts = _balanced(codes[rows], num_parties, alphas, min_rows, np.random.default_rng(stream))
                    return [np.sort(rows[part]) for part in parts]
                sizes = [len(y) // num_parties] * num_parties
                kind = import_extra(*_LIBRARY, what="dealing rows to parties").InnerDirichletPartitioner
                return _deal(kind(sizes, "label", float(alphas[0]), seed=stream), num_parties, codes, rng)
        except (ValueError, FloatingPointError):
            continue
    seen = (
        f"none such in {_DIRICHLET_SEEDS * _DRAWS_PER_SEED} draws of Dirichlet({', '.join(map(str, alphas))}) "
        f"for {num_parties} parties on {len(y)} rows of {len(np.unique(y))} classes"
    )
    raise DataError(explain("every party", f"have at least {min_rows} rows (min_rows)", seen, way_out))


def _balanced(
    codes: NDArray[np.int64], num_parties: int, alphas: tuple[float, ...], min_rows: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Deal the rows, by each alpha an equal part of them, until every party has ``min_rows``; else raise ValueError."""
    pieces = np.array_split(np.arange(len(codes)), len(alphas))
    for _ in range(_DRAWS_PER_SEED):
        dealt = [
            [piece[part] for part in _draw(codes[piece], num_parties, float(alpha), rng)]
            for piece, alpha in zip(pieces, alphas, strict=True)
        ]
        parts = [np.concatenate(own) for own in zip(*dealt, strict=True)]
        if min(len(part) for part in parts) >= max(min_rows, 1):
            return parts
    raise ValueError("a party has too few rows in every draw")


def _draw(
    codes: NDArray[np.int64], num_parties: int, alpha: float, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Deal each class by shares ~ Dirichlet(alpha), none to a party above the average size, as flwr-datasets does."""
    held: list[list[NDArray[np.int64]]] = [[] for _ in range(num_parties)]
    sizes = np.zeros(num_parties, dtype=np.int64)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        shares = rng.dirichlet(np.full(num_parties, alpha))
        shares[sizes > len(codes) / num_parties] = 0.0
        shares /= np.cumsum(shares)[-1]  # added one by one: the last bit decides where a class is cut
        cuts = (np.cumsum(shares) * len(rows)).astype(int)[:-1]
        for party, part in enumerate(np.split(rows, cuts)):
            held[party].append(part)
            sizes[party] += len(part)
    return [np.concatenate(parts) for parts in held]


def _dealing_order(y: NDArray[np.integer], class_order: str) -> NDArray[np.int64]:
    """Return the labels renumbered in the order in which classes are dealt."""
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    key = {"rarest-first": counts, "frequent-first": -counts, "label": classes}[class_order]
    rank = np.empty(len(classes), dtype=np.int64)
    rank[np.argsort(key, kind="stable")] = np.arange(len(classes))
    return rank[codes]


def _deal(
    partitioner: Any, num_parties: int, labels: NDArray[np.integer], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Run a flwr-datasets partitioner over shuffled rows, because it cuts by position and shuffles only afterwards."""
    from datasets import Dataset

    order = rng.permutation(len(labels))
    with warnings.catch_warnings():
        # our docstring says that draws are repeated and classes left out; datasets uses a deprecated pyarrow option
        said = "The specified min_partition_size|Classes: |The sum of the partition_sizes"
        warnings.filterwarnings("ignore", message=said, category=UserWarning)
        warnings.filterwarnings("ignore", message="Specifying null_placement", category=FutureWarning)
        partitioner.dataset = Dataset.from_dict({"label": labels[order].astype(np.int64), "row": order})
        parts = [partitioner.load_partition(i).with_format("numpy")["row"][:] for i in range(num_parties)]
    if not all(len(part) for part in parts):
        raise ValueError("a party without rows")
    return [np.sort(part).astype(np.int64) for part in parts]


def _from_file(
    num_rows: int, num_parties: int, path: str | os.PathLike[str], index: int, rows: NDArray[np.integer] | None
) -> list[NDArray[np.int64]]:
    arrays = _read_npz(path)
    prefix = f"party_{index}_"
    keys = sorted((key for key in arrays if key.startswith(prefix)), key=lambda key: (len(key), key))
    if not keys:
        raise DataError(_no_such_partition(path, index, arrays))
    if num_parties not in (0, len(keys)):
        raise ConfigError(explain("num-parties", f"be {len(keys)} (or 0), as {path} has", num_parties))
    numbers = np.arange(num_rows) if rows is None else np.asarray(rows, dtype=np.int64)
    named = np.concatenate([arrays[key] for key in keys]).astype(np.int64)
    if len(np.unique(named)) != len(named):
        raise DataError(explain(f"partition {index} of {path}", "name each row once", "repeated row numbers"))
    if len(outside := np.setdiff1d(named, numbers)):
        rule = f"name rows of the private pool ({len(numbers)} rows)"
        seen = f"{len(outside)} row numbers outside it (first: {outside[0]})"
        way_out = "Load the pool with the public and test rows of the same file."
        raise DataError(explain(f"partition {index} of {path}", rule, seen, way_out))
    by_number = np.argsort(numbers)
    positions = by_number[np.searchsorted(numbers, named, sorter=by_number)]
    cuts = np.cumsum([len(arrays[key]) for key in keys])[:-1]
    return [np.sort(part).astype(np.int64) for part in np.split(positions, cuts)]


def _read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    return read_npz(require_file(path, "Set paper.partition-path to an NPZ file of row numbers."))


def _no_such_partition(path: str | os.PathLike[str], index: int, arrays: dict[str, NDArray[Any]]) -> str:
    rule = f"have arrays public_{index}, test_{index}, party_{index}_00, ..."
    return explain(f"partition {index} of {Path(path)}", rule, f"arrays {short_list([*arrays], 3)}")
