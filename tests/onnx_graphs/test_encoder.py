"""What a graph takes of raw cells."""

import pandas as pd

from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.onnx_graphs import expected_cells


def test_what_a_graph_expects_of_raw_cells_is_what_the_schema_makes_of_them():
    """The graph takes numbers: whoever feeds it without this package must know what a date or '<0.5' becomes."""
    columns = (
        Column(name="admission", kind="numeric", reading=Reading(dates="day-first")),
        Column(name="seen", kind="numeric", reading=Reading(dates="time")),
        Column(name="lactate", kind="numeric", reading=Reading(ranges=True)),
        Column(name="crp", kind="numeric", reading=Reading(unit="mg/l", thousands="'")),
        Column(name="age", kind="numeric"),
        Column(name="ward", kind="categorical", categories=("a",), reading=Reading(missing=("-",))),
    )
    assert expected_cells(Schema(columns=columns, classes=("no", "yes"))) == {
        "admission": "dates (12.03.2021), the day first, as days since 1970-01-01",
        "seen": "times (13:45), as hours since midnight",
        "lactate": "a bound such as <0.5 is its number, and a range its middle",
        "crp": "apostrophe between thousands; with or without the unit mg/l",
    }
    table = pd.DataFrame({"admission": ["02.01.1970"], "seen": ["13:30"], "lactate": ["<0.5"], "crp": ["1'000 mg/l"]})
    read = [float(columns[i].reading.parse(table[name])[0][0]) for i, name in enumerate(table)]
    assert read == [1.0, 13.5, 0.5, 1000.0]
