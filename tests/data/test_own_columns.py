"""How the columns are read that only one party has, and how they stand beside the shared ones in its own model."""

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data import Column, Schema, make_public_set
from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.encoder import Encoder
from fedkd_flwr.data.own_columns import OwnColumns, find_columns
from fedkd_flwr.errors import ConfigError, DataError

SCHEMA = Schema(columns=(Column(name="age", kind="numeric"),), classes=("no", "yes"), label="y")
PUBLIC = pd.DataFrame({"age": [20.0, 30.0, 40.0]})


def _table(count=60):
    return pd.DataFrame(
        {
            "age": [str(20 + i % 30) for i in range(count)],
            "dose": [f"{i % 20},5" for i in range(count)],
            "ward": ["a" if i % 3 else "b" for i in range(count)],
            "id": [f"P{i}" for i in range(count)],
            "blank": [""] * count,
            "y": ["no" if i % 2 else "yes" for i in range(count)],
        }
    )


def test_each_column_is_read_by_what_it_holds_and_one_that_cannot_be_used_costs_no_other():
    columns, left_out = find_columns(_table(), ["dose", "ward", "id", "blank", "age", "y", "none", "dose"], SCHEMA)
    assert [(one.name, one.kind) for one in columns] == [("dose", "numeric"), ("ward", "categorical")]
    assert columns[0].reading.decimal == ","
    assert left_out["age"] == "it is a shared column already"
    assert left_out["y"] == "it is the label"
    assert left_out["none"] == "the file has no such column"
    assert left_out["blank"] == "it is empty in every row"
    assert left_out["id"] == "60 different texts in 60 rows: an identifier or names"
    assert find_columns(_table(), ["dose"], Schema(columns=(), classes=("a", "b"), shape=(1, 2, 2)))[0] == ()


def test_a_column_that_no_rule_reads_in_one_way_is_left_out():
    table = pd.DataFrame({"sum": ["1,234", "5,678", "2,500"] * 20})
    columns, left_out = find_columns(table, ["sum"], SCHEMA)
    assert columns == ()
    assert "commas before three digits only" in left_out["sum"]
    with pytest.raises(DataError, match="own-columns must name a column that can be used, got sum"):
        OwnColumns.fit(table, ["sum"], SCHEMA)


def test_a_model_s_encoder_gives_shared_features_and_then_own_ones_and_survives_its_file():
    table = _table()
    public, own = make_public_set(PUBLIC, SCHEMA), OwnColumns.fit(table, ["dose", "ward"], SCHEMA)
    encoder = Encoder.from_bytes(own.encoder(public).to_bytes())
    assert encoder.own == ("dose", "ward")
    assert encoder.reads == ("age", "dose", "ward")
    beside = np.concatenate([public.features(table), own.features(table)], axis=1)
    assert np.array_equal(encoder.features(table[["ward", "dose", "age"]]), beside)
    assert abs(own.features(table)[:, 0].mean()) < 1e-6  # fitted on the party's rows: the public rows lack it
    assert Encoder.from_bytes(Encoder.of(public).to_bytes()).own == ()


def test_raw_numbers_stay_raw_beside_own_columns():
    public = make_public_set(PUBLIC, SCHEMA, scale=False)
    table = _table()
    encoder = OwnColumns.fit(table, ["ward"], SCHEMA).encoder(public)
    assert np.array_equal(encoder.features(table)[:, 0], public.features(table)[:, 0])


def test_a_cell_that_cannot_be_read_counts_as_empty():
    own = OwnColumns.fit(_table(), ["dose"], SCHEMA)
    odd = pd.DataFrame({"dose": ["broken", "", "9,5"]})
    first, empty, _ = own.features(odd)[:, 0]
    assert first == empty


def test_a_model_reads_own_cells_as_its_run_did_and_shared_ones_strictly():
    """`fedkd predict` refused the whole file for one cell that the run had read as empty."""
    table = _table()
    public, own = make_public_set(PUBLIC, SCHEMA), OwnColumns.fit(table, ["dose", "ward"], SCHEMA)
    encoder = Encoder.from_bytes(own.encoder(public).to_bytes())
    table.loc[3, "dose"], table.loc[4, "dose"] = "spilt", "inf"
    emptied = table.assign(dose=table["dose"].mask([i in (3, 4) for i in range(60)]))
    assert np.array_equal(encoder.features(table), encoder.features(emptied))
    assert np.array_equal(encoder.features(table)[:, 1:], own.features(table))
    assert np.array_equal(encoder.features(table[["age", "dose", "ward"]].to_numpy()), encoder.features(table))
    with pytest.raises(DataError, match="column 'age' must hold numbers, got 'old'"):
        encoder.features(table.assign(age="old"))


def test_a_simulation_deals_columns_that_public_rows_and_schema_are_without():
    pool = load_pool("breast-cancer", seed=3, own_share=0.1)
    whole = load_pool("breast-cancer", seed=3)
    assert len(pool.own_columns) == 3
    assert pool.X.shape[1] == whole.X.shape[1] - 3
    assert not set(pool.own_columns) & set(pool.public.schema.column_names)
    kept = [name not in pool.own_columns for name in whole.public.schema.column_names]
    assert np.array_equal(pool.X, whole.X[:, kept])  # the same rows, encoded in the same way
    assert (len(pool.own_table), len(pool.own_test_table)) == (len(pool.y), len(pool.y_test))
    assert list(pool.own_table.columns) == list(pool.own_columns)
    assert pool.own_columns != load_pool("breast-cancer", seed=4, own_share=0.1).own_columns


def test_columns_of_images_are_not_dealt_and_some_must_stay_shared():
    with pytest.raises(ConfigError, match="own-column-share must leave shared columns"):
        load_pool("breast-cancer", seed=1, own_share=0.999)
