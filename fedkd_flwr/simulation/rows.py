"""A simulated federation: its data set, and the rows that its parties are dealt.

Every process loads the data set itself, once, and derives the same split and the same parties from the run's seed;
nobody is told anything over the wire.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.app.models import check_lacks, check_role, global_model, model_factory
from fedkd_flwr.app.output import continued, first_run, output_root
from fedkd_flwr.data.datasets import Pool, load_pool
from fedkd_flwr.data.look import Rules
from fedkd_flwr.data.partitioning import by_party, partition, read_split
from fedkd_flwr.data.public import PublicLabels
from fedkd_flwr.data.tables import given_table
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.models.given import is_given
from fedkd_flwr.models.zoo import pick_model
from fedkd_flwr.seeds import derive_rng
from fedkd_flwr.settings.config import TABLE_RULES, RunConfig, parse_run_config
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.subset import SubsetStore
from fedkd_flwr.strategies.resuming import check_goes_on

__all__ = ["DEFAULT_PARTIES", "central_rows", "check_simulation", "counted", "dealt", "forget_rows", "held_out_rows"]
__all__ += ["hold_out", "lacking", "party_class_counts", "party_name", "simulated_digest", "simulated_pool"]

Rows = tuple[NDArray[Any], ...]

DEFAULT_PARTIES = 10


def simulated_pool(config: RunConfig) -> Pool:
    """Load and split the data set of a simulation; once, also where its parties are counted only then."""
    return _pool(config.model_copy(update={"num_parties": 0}) if config.has_parties else config)


@lru_cache(maxsize=1)
def _pool(config: RunConfig) -> Pool:
    dealing, parameters = config.dealing
    rows = read_split(config.partition_path, **parameters) if dealing == "file" else None
    pool = load_pool(
        config.dataset,
        **_told(config, (*_POOL, *_FILES)),
        rows=rows or None,
        own_parties=config.has_parties,
        hold_out_public=bool(config.draw_public_epsilon),
        rules=Rules(**_told(config, TABLE_RULES)),
        command=None if _in_python(config) else _other_words(config),
        rare=config.num_parties,
    )
    return _with_public_labels(pool, config.public_label_column) if config.public_label_column else pool


_POOL = (*("data_root", "seed", "num_public", "num_test", "num_private", "public_rows"),)
_FILES = ("table", "tables", "test_table", "label", "schema_path", "partition_column")
_LISTS = ("drop", "missing")  # words with commas between them


def _told(config: RunConfig, names: Sequence[str]) -> dict[str, Any]:
    """Return what the run says of these settings, by field name."""
    values = {name: getattr(config, name) for name in names}
    words = {name: tuple(filter(None, map(str.strip, values[name].split(",")))) for name in _LISTS if name in values}
    return values | words


def _in_python(config: RunConfig) -> bool:
    """Tell whether a run has rows or models that only a program could hand over."""
    tables = (config.table, config.public_rows, config.test_table)
    return any(given_table(one) is not None for one in tables) or any(map(is_given, config.models))


def _other_words(config: RunConfig) -> list[str]:
    """Return the settings of this run that say nothing about its table, as words of a command."""
    table = {config.keys()[name] for name in ("dataset", "table", "tables", "label", *TABLE_RULES)}
    values = config.as_scalars()
    changed = {key: values[key] for key in config.changed_keys() if key not in table}
    return [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in changed.items()]


def _with_public_labels(pool: Pool, name: str) -> Pool:
    """Let everybody learn from the public rows' own truth, where the run says that they are labelled."""
    public = pool.public
    if name != public.schema.label or public.y is None:
        rule = f"be the label column {public.schema.label!r} of the data set"
        way_out = "Sets with public rows of another data set bring their labels: leave it empty."
        raise ConfigError(explain("paper.public-label-column", rule, name, way_out))
    if (public.y < 0).any():
        seen = f"{int((public.y < 0).sum()):,} without one"
        raise ConfigError(explain("public rows", "all have a label where paper.public-label-column is given", seen))
    labels = PublicLabels(y=public.y, num_classes=public.num_classes, of_schema=True)
    return replace(pool, public=replace(public, labels=labels))


@lru_cache(maxsize=1)
def dealt(config: RunConfig, num_parties: int) -> list[NDArray[np.int64]]:
    """Return the positions of the rows that each simulated party holds, its own test rows among them."""
    pool = simulated_pool(config)
    if pool.party_names:
        return by_party(pool.party_of, pool.party_names, num_parties)
    name, parameters = config.dealing
    return partition(
        pool.y,
        name="dirichlet" if name == "auto" else name,
        num_parties=num_parties,
        seed=config.seed,
        alpha=config.dirichlet_alpha,
        path=config.partition_path,
        rows=pool.rows,
        **parameters,
    )


def counted(values: Mapping[str, Any], parties: int = DEFAULT_PARTIES) -> RunConfig:
    """Return a simulation's settings with its parties counted: as many as they say, else those that its data name.

    Where neither says it there are ``parties``. Raises `ConfigError` for a setting that is wrong.
    """
    config = parse_run_config(values)
    if config.public_path:
        way_out = "Drop it, or submit the run to your SuperLink: fedkd server run ..."
        raise ConfigError(explain("public-path", "not be given to a simulation", config.public_path, way_out))
    if not (config.num_parties or config.has_parties):
        config = parse_run_config({**values, "num-parties": parties})
    num_parties = config.num_parties or len(simulated_pool(config).party_names)
    return config.model_copy(update={"num_parties": num_parties})


def party_name(partition_id: int, config: RunConfig | None = None) -> str:
    """Return the name of a simulated party: that in the data, where they are of real parties.

    >>> party_name(7)
    'party-007'
    """
    names = simulated_pool(config).party_names if config is not None and config.has_parties else ()
    return names[partition_id] if partition_id < len(names) else f"party-{partition_id:03d}"


def lacking(config: RunConfig, partition_id: int) -> Collection[str]:
    """Return the columns that a simulated party lacks: as the run says, else those that its own table lacks."""
    name, pool = party_name(partition_id, config), simulated_pool(config)
    if config.lacks.isdecimal():
        names = pool.public.schema.column_names
        drawn: list[str] = derive_rng(config.seed, name, "lacks").permutation(names)[: int(config.lacks)].tolist()
        return drawn
    return config.lacks_by_party.get(name, ()) if config.lacks else pool.lacks.get(name, ())


def hold_out(seed: int, party: str, positions: NDArray[np.int64], fraction: float) -> tuple[Any, Any]:
    """Split a party's rows into training and own test rows: by position under a random permutation."""
    order = derive_rng(seed, party, "own-test").permutation(positions)
    count = max(min(round(fraction * len(order)), len(order) - 1), 0)
    return order[count:], order[:count]


def _held_out(config: RunConfig, num_parties: int) -> list[tuple[Any, Any]]:
    """Return the positions of each simulated party's training rows and of its own test rows."""
    names = (party_name(i, config) for i in range(num_parties))
    pairs = zip(names, dealt(config, num_parties), strict=True)
    return [hold_out(config.seed, name, positions, config.party_test_fraction) for name, positions in pairs]


def party_class_counts(config: RunConfig, num_parties: int) -> dict[str, list[int]]:
    """Return how many rows of each class each simulated party holds, its own test rows among them."""
    pool = simulated_pool(config)
    return {
        party_name(i, config): np.bincount(pool.y[positions], minlength=pool.public.num_classes).tolist()
        for i, positions in enumerate(dealt(config, num_parties))
    }


@lru_cache(maxsize=128)
def simulated_digest(config: RunConfig, num_parties: int, index: int) -> str:
    """Return what names a simulated party's rows; a process is asked for the same parties in every round."""
    pool, positions = simulated_pool(config), dealt(config, num_parties)[index]
    return hashlib.sha256(pool.X[positions].tobytes() + pool.y[positions].tobytes()).hexdigest()


def forget_rows() -> None:
    """Read files anew from now on: their rows may have changed since the last run of this process."""
    for kept in (_pool, dealt, simulated_digest):
        kept.cache_clear()


def central_rows(config: RunConfig, num_parties: int, pool: Pool, run_id: str = "") -> Rows:
    """Return the training rows of all simulated parties, pooled, as ``pool`` holds them.

    Where parties learn from subsets (NFDP), those they drew in run ``run_id``.
    """
    if config.setting("subset_rows", 0):
        root, kept = output_root(config.output_dir) / "runs" / first_run(config, run_id), []
        for i, positions in enumerate(dealt(config, num_parties)):
            digest = simulated_digest(config, num_parties, i)
            drawn = SubsetStore(LedgerStore(root, party=party_name(i, config), data_digest=digest)).stored()
            kept.append(positions[[] if drawn is None else drawn[drawn < len(positions)]])
    else:
        kept = [train for train, _ in _held_out(config, num_parties)]
    positions = np.concatenate(kept)
    return pool.X[positions], pool.y[positions]


def held_out_rows(config: RunConfig, num_parties: int, pool: Pool) -> dict[str, Rows]:
    """Return the common test rows, and those that all simulated parties hold out, pooled, as ``pool`` holds them."""
    own = [] if config.setting("subset_rows", 0) else [own for _, own in _held_out(config, num_parties)]
    positions = np.concatenate([*own, np.arange(0)])  # a subset is of all rows
    return {"common": pool.common, "own": (pool.X[positions], pool.y[positions], *pool.numbers_of(positions))}


def check_simulation(config: RunConfig, num_parties: int) -> None:
    """Deal the parties and make each model once: what cannot work fails here with its text, not at every party.

    Nothing is written. A run that continues another is checked too: whether anything is left to do.
    """
    if (folder := continued(config)) is not None:
        check_goes_on(folder, config.card, config.rounds)
    pool = simulated_pool(config)
    dealt(config, num_parties)
    _check_lacks(config, num_parties)
    if config.card.one_net:
        global_model(config, pool.public)(seed=0).initialize()
    made: dict[tuple[str, str], Any] = {}
    for role in ("model", *config.card.roles):
        spec = config.model_of(role)
        for i in range(num_parties if spec else 0):
            one = pick_model(spec, i)
            if (role, one) not in made:
                made[role, one] = model_factory(one, pool.public)(seed=0)
                pool.as_read_by(made[role, one])  # a model that reads texts needs a text column
            if role in ("teacher", "student"):
                check_role(role, made[role, one], made["model", pick_model(config.model, i)])


def _check_lacks(config: RunConfig, num_parties: int) -> None:
    """Refuse columns that no party can lack, and parties that there are not."""
    if unknown := config.lacks_by_party.keys() - {party_name(i, config) for i in range(num_parties)}:
        rule, way_out = "name parties of the run, as north:ca,thal;south:slope, or be one number", "Correct the name."
        raise ConfigError(explain("lacks", rule, ", ".join(sorted(unknown)), way_out))
    for lacks in filter(None, (lacking(config, i) for i in range(num_parties))):
        check_lacks(config.card, lacks)
        simulated_pool(config).public.schema.without(lacks)
