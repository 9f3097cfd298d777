"""A run config as people write it in a shell: a TOML file and ``key=value`` words, with paths as they see them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedkd_flwr.algorithms import cards, find_card
from fedkd_flwr.algorithms.card import Config
from fedkd_flwr.app.find_run import OUTPUT, find_checkpoint
from fedkd_flwr.errors import ConfigError, DataError, FedkdError, explain
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import RunConfig

__all__ = ["read_settings", "read_toml", "read_words", "resumed_settings"]


def read_settings(words: Sequence[str], *, of: type[Config] = RunConfig, **given: Any) -> dict[str, Any]:
    """Return the unchecked settings of a run, or of a node, by key; what stands later wins.

    ``words``: at most one ``FILE.toml``, and ``key=value`` words. A value is read as TOML where that fits the setting,
    and as text where it does not. ``given``: settings that options gave, by field name; None and "" are passed over.
    Paths of the file start from its folder, others from the current one.
    """
    files = [word for word in words if "=" not in word]
    if wrong := [word for word in files if not word.endswith(".toml")]:
        rule = "be KEY=VALUE, or one FILE.toml"
        raise ConfigError(explain("each argument", rule, wrong[0], "Write for example: model=knn num-rounds=3"))
    if len(files) > 1:
        raise ConfigError(explain("TOML file", "be given once", " ".join(files), "Give changes to it as KEY=VALUE."))
    found: dict[str, Any] = {}
    if files:
        path = Path(files[0]).expanduser().absolute()
        found |= _absolute(read_toml(path), path.parent, of)
    options = {key.replace("_", "-"): value for key, value in given.items() if value not in (None, "")}
    found |= _absolute(read_words([word for word in words if "=" in word], of=of) | options, Path.cwd(), of)
    zeros = dict(of.zeros())
    with suppress(FedkdError):  # said when the run config is checked, as is a setting that only other algorithms have
        zeros |= find_card(str(found.get("algorithm", RunConfig.default("algorithm")))).config.zeros()
    found = {key: 0 if value == zeros.get(key) else value for key, value in found.items()}
    return ({"dataset": "table"} if found.get("table") or found.get("tables") else {}) | found


def resumed_settings(run: str, output_dir: str | Path = "") -> dict[str, Any]:
    """Return the settings of a run that continues another: those it began with, as its record says."""
    folder = find_checkpoint(run, output_dir or OUTPUT)
    record, root = RunRecord.load(folder.with_name("record.json")), folder.parents[2]
    values = {key: value for key, value in record.config.items() if value is not None}
    return {**values, "resume-from": folder.parent.name, "output-dir": "" if root == OUTPUT.expanduser() else str(root)}


def read_words(words: Sequence[str], *, of: type[Config] = RunConfig) -> dict[str, Any]:
    """Return settings given as ``key=value``, by key.

    >>> read_words(["model=knn", "fedct.quorum=0.8", "label=1", 'name="a-b"', "seed=3"])
    {'model': 'knn', 'fedct.quorum': 0.8, 'label': '1', 'name': 'a-b', 'seed': 3}
    """
    pairs = [word.partition("=")[::2] for word in words]
    kinds = _kinds(next((value for key, value in pairs if key.strip() == "algorithm"), ""), of)
    return {key.strip(): _value(value.strip(), kinds.get(key.strip())) for key, value in pairs}


def _value(written: str, kind: Any) -> Any:
    """Return a value as TOML, if it is TOML of a plain type and the setting does not want text."""
    try:
        value = tomllib.loads(f"value = {written}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return written
    if isinstance(value, str):
        return value
    return written if kind is str or not isinstance(value, bool | int | float) else value


def _kinds(algorithm: str, of: type[Config]) -> dict[str, Any]:
    """Return the type of each setting by its key; those of an algorithm that is not ours, too, if it can be found."""
    try:
        more = [find_card(algorithm)] if ":" in algorithm else []
    except FedkdError:  # said when the run config is checked
        more = []
    configs: list[type[Config]] = [of, *(card.config for card in [*cards().values(), *more])]
    return {key: one.model_fields[name].annotation for one in configs for name, key in one.keys().items()}


def read_toml(path: Path) -> dict[str, Any]:
    """Return the settings of a file by dotted key, as they are written."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return dict(_flat(tomllib.loads(text)))
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise DataError(explain("run configuration", "be a readable file", f"{path} ({why})")) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
        way_out = 'Write one setting a line, such as: model = "knn".'
        if "\\" in text:
            way_out += " Write paths with / or in single quotes: table = 'C:\\Users\\anna\\patients.csv'"
        raise ConfigError(explain(f"file {path}", "be TOML in UTF-8", f"an error: {error}", way_out)) from error


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield values by dotted key, as Flower does; its own function brings `requests` along, which opens a socket."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, bool | int | float | str):
            yield before + key, value
        else:
            raise ValueError(f"{before}{key} is neither text, number nor true or false")


def _absolute(values: Mapping[str, Any], folder: Path, of: type[Config]) -> dict[str, Any]:
    """Return settings with paths that do not depend on where a process runs."""

    def absolute(key: str, value: str) -> str:
        paths = [one.strip() for one in value.split(",")] if key == "tables" else [value]
        return ",".join(str(folder / Path(one).expanduser()) for one in paths if one)

    return {
        key: absolute(key, value) if key in of.paths() and isinstance(value, str) else value
        for key, value in values.items()
    }
