"""A run record as JSON: its text and digest, and how the text is read and checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.files import canonical, digest_of, without_nan

__all__ = ["SCHEMA_VERSION", "STRICT", "Number"]
__all__ += ["built", "check_digest", "json_text", "read_json", "record_digest", "signed"]

_NUMBERS = re.compile(r"\[\n[\s\d.,eE+nul-]*\]")  # a list of numbers; no JSON string holds a line break
_Record = TypeVar("_Record")
SCHEMA_VERSION = 2
STRICT = ConfigDict(extra="forbid", strict=True)
"""How a record is read: no other fields, and no other types, in its parts neither."""
Number = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""A number that may be NaN or infinite, which a file holds as null."""


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
    except (ValueError, RecursionError) as error:  # bytes that are no UTF-8, too
        seen, way_out = f"a damaged file at {path} ({error})", "The run may still be writing it, or was cut off."
        raise DataError(explain("run record", "be whole JSON", seen, way_out)) from error


def check_digest(data: Mapping[str, Any], path: str | Path) -> None:
    """Raise `DataError` if something in a record's file was changed."""
    if data.get("digest") != record_digest(data):
        seen = f"{'other values' if 'digest' in data else 'no digest'} in {path}"
        way_out = "Somebody or a disk changed it. `fedkd_flwr.record.run_record.signed` signs a change on purpose."
        raise DataError(explain("run record", "be what its digest was made of", seen, way_out))


@cache
def _reader(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def built(cls: type[_Record], data: dict[str, Any], where: str) -> _Record:
    """Return a dataclass made of plain values; raises `DataError` where a field is missing or of another type."""
    try:
        made: _Record = _reader(cls).validate_json(json.dumps(data))  # type: ignore[arg-type]  # a type has a hash
    except ValidationError as error:
        first = error.errors()[0]
        place = ": ".join([where, ".".join(map(str, first["loc"]))])
        rules = {"missing": "be given", "unexpected_keyword_argument": f"be a field of version {SCHEMA_VERSION}"}
        seen = "none" if first["type"] == "missing" else first["input"]
        rule = rules.get(first["type"], first["msg"].removeprefix("Input should "))
        raise DataError(explain(place, rule, seen)) from error
    return made
