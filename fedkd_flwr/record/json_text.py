"""A run record as JSON: its text and digest, and how the text is read and checked."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.files import canonical, digest_of, without_nan

__all__ = ["SCHEMA_VERSION", "built", "check_digest", "json_text", "read_json", "record_digest", "signed"]

_NUMBERS = re.compile(r"\[\n[\s\d.,eE+nul-]*\]")  # a list of numbers; no JSON string holds a line break
_Record = TypeVar("_Record")
SCHEMA_VERSION = 2


def json_text(values: dict[str, Any]) -> str:
    """Return plain values as indented JSON text; a list of numbers takes one line."""
    text = json.dumps(values, indent=1, allow_nan=False)
    return _NUMBERS.sub(lambda found: " ".join(found[0].split()), text)  # of a matrix each row


def record_digest(data: Mapping[str, Any]) -> str:
    """Return the digest of a record as JSON holds it: over its other fields, then each round, in canonical form."""
    rest = {key: value for key, value in data.items() if key != "digest"}
    return digest_of(canonical(rest | {"rounds": []}), *map(canonical, rest.get("rounds", [])))


def signed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record that was changed on purpose as plain JSON types, with the digest that `RunRecord.load` asks for.

    >>> sorted(signed({"run_id": "7", "algorithm": "fedct"}))
    ['algorithm', 'digest', 'run_id']
    """
    plain = without_nan(dict(data))
    return {**plain, "digest": record_digest(plain)}


def read_json(path: str | Path) -> Any:
    """Return what a record's file holds as JSON; raises `DataError` if there is none."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        seen, way_out = f"{path} ({error.strerror or type(error).__name__})", "Name a run's record.json."
        raise DataError(explain("run record", "be a readable file", seen, way_out)) from error
    except UnicodeDecodeError as error:
        raise DataError(explain("run record", "be UTF-8 text", f"other bytes in {path}")) from error
    except (ValueError, RecursionError) as error:
        seen, way_out = f"a damaged file at {path} ({error})", "The run may still be writing it, or was cut off."
        raise DataError(explain("run record", "be whole JSON", seen, way_out)) from error


def check_digest(data: Mapping[str, Any], path: str | Path) -> None:
    """Raise `DataError` if something in a record's file was changed."""
    if data.get("digest") != record_digest(data):
        seen = f"{'other values' if 'digest' in data else 'no digest'} in {path}"
        way_out = "Somebody or a disk changed it. `fedkd_flwr.record.run_record.signed` signs a change on purpose."
        raise DataError(explain("run record", "be what its digest was made of", seen, way_out))


def built(cls: type[_Record], data: object, where: str) -> _Record:
    """Return a dataclass made of plain values; raises `DataError` where a field is missing or of another type."""
    if not isinstance(data, dict):
        raise DataError(explain(where, "be an object", type(data).__name__))
    known = {item.name: item for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    unknown = sorted(str(key) for key in data if key not in known)
    if unknown:
        raise DataError(explain(where, f"hold only the fields of version {SCHEMA_VERSION}", unknown))
    required = {
        name
        for name, item in known.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    }
    missing = sorted(required - data.keys())
    if missing:
        raise DataError(explain(where, f"have the fields {missing}", "a record without them"))
    hints = _hints(cls)  # type: ignore[arg-type]  # a type has a hash
    return cls(**{name: _typed(value, hints[name], f"{where}: {name}") for name, value in data.items()})


_hints = lru_cache(get_type_hints)  # it parses each field's type; a large run has tens of thousands of parts


def _typed(value: Any, hint: Any, where: str) -> Any:
    """Return ``value`` as the type that ``hint`` names, or raise a `DataError`."""
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        return built(hint, value, where)  # type: ignore[arg-type]
    arguments = get_args(hint)
    if type(None) in arguments:
        return None if value is None else _typed(value, arguments[0], where)
    outer = get_origin(hint) or hint
    if outer is float and value is None:  # `to_json` writes NaN as null
        return math.nan
    if outer is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, outer) or (outer is int and isinstance(value, bool)):
        raise DataError(explain(where, f"be a {outer.__name__}", value))
    if outer is list:
        return [_typed(item, arguments[0], f"{where}[{i}]") for i, item in enumerate(value)]
    if outer is dict:
        return {key: _typed(item, arguments[1], f"{where}[{key!r}]") for key, item in value.items()}
    return value
