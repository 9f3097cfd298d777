"""The JSON Schema of a record takes what is written and nothing else."""

import json

import pytest

from fedkd_flwr.report.record_schema import record_schema


def test_the_schema_takes_what_is_written_and_nothing_else(make_record):
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(record_schema())
    record = make_record(3, 2)
    record.rounds[0].agreement = float("nan")  # written as null
    record.seconds = float("nan")
    written = json.loads(record.to_json())
    validator.validate(written)
    for path, wrong in (("seed", "x"), ("unknown", 1), ("schema_version", 99)):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**written, path: wrong})
    assert record_schema()["$defs"]["Metrics"]["properties"]["n"] == {"type": "integer"}
