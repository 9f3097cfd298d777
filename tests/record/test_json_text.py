"""A record's text."""

import json
import math

from fedkd_flwr.record.notes import Note
from fedkd_flwr.record.run_record import RunRecord, signed


def test_not_a_number_is_null_in_the_file_and_nan_again(record):
    record.rounds[0].accuracy["party-a"] = math.nan
    record.rounds[0].seconds = math.inf
    data = json.loads(record.to_json())
    assert data["rounds"][0]["accuracy"]["party-a"] is None
    again = RunRecord.from_dict(data)
    assert math.isnan(again.rounds[0].accuracy["party-a"])
    assert math.isnan(again.rounds[0].seconds)


def test_a_row_of_numbers_takes_one_line_and_no_text_is_changed(record):
    record.notes = [Note("own", {"text": "a [\n 1,\n 2 ]", "more": "[ 1,  2 ]"})]
    text = record.to_json()
    assert "[ 12, 3 ],\n" in text
    assert json.loads(text) == signed(record.as_dict())
