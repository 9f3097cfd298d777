"""The JSON Schema of a run record, derived from the dataclasses of `fedkd_flwr.record.run_record`."""

from __future__ import annotations

from typing import Any

from fedkd_flwr.record.run_record import SCHEMA_VERSION, RunRecord

__all__ = ["record_schema"]


def record_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of what `RunRecord.to_json` writes."""
    from pydantic import TypeAdapter

    schema = _as_written(TypeAdapter(RunRecord).json_schema())
    schema["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _as_written(value: Any) -> Any:
    """Allow null for numbers, which is how NaN is written, and no other fields; drop the titles, which say nothing."""
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "number":
        return {"type": ["number", "null"]}
    names = value.get("properties")
    kept = {key: _as_written(item) for key, item in value.items() if key not in ("title", "default", "properties")}
    if isinstance(names, dict):
        kept["properties"] = {name: _as_written(item) for name, item in names.items()}
        kept["additionalProperties"] = False
    return kept
