"""The rows of simulated parties: where the data say whose row it is, the parties are those, under their names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.app import client_app, server_app
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.rows import count_parties, dealt, party_class_counts, party_name, simulated_pool

NAMES = ("east", "north/1", "süd")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"hospital": rng.choice(NAMES, 240, p=[0.5, 0.3, 0.2]), "a": rng.normal(size=240)})
    return rows.assign(b=rows.hospital.map({name: i for i, name in enumerate(NAMES)}), y=rows.a > 0)


@pytest.fixture
def config(frame, tmp_path):
    frame.to_csv(tmp_path / "rows.csv", index=False)
    words = {"dataset": "table", "table": str(tmp_path / "rows.csv"), "label": "y", "partition-column": "hospital"}
    return parse_run_config({**words, "algorithm": "fedkt", "model": "decision-tree", "centralised": False})


def test_a_column_says_whose_row_it_is_and_is_no_feature(config):
    pool = simulated_pool(config)
    assert count_parties(config) == 3
    assert [party_name(i, config) for i in range(3)] == sorted(NAMES)
    assert pool.public.schema.column_names == ("a", "b")
    assert pool.columns[-1].read_as == "left out: it says whose row it is"
    parts = dealt(config, 3)
    assert sum(map(len, parts)) == len(pool.y) == 120
    assert [len(np.unique(pool.X[part, 1])) for part in parts] == [1, 1, 1]  # b is another name of the hospital
    assert party_class_counts(config, 3)["süd"] == np.bincount(pool.y[parts[2]]).tolist()


def test_one_file_for_each_party_gives_the_parties_of_the_column(config, frame, tmp_path):
    for number, (_, rows) in enumerate(frame.groupby("hospital")):
        (tmp_path / "all").mkdir(exist_ok=True)
        rows.drop(columns="hospital").to_csv(tmp_path / "all" / f"h{number}.csv", index=False)
    files = config.model_copy(update={"table": "", "partition_column": "", "tables": str(tmp_path / "all")})
    pool = simulated_pool(files)
    assert pool.party_names == ("h0", "h1", "h2")
    assert pool.public.schema.column_names == ("a", "b")
    assert [len(np.unique(pool.X[part, 1])) for part in dealt(files, 3)] == [1, 1, 1]


def test_real_parties_keep_their_names_in_the_record(config, tmp_path):
    values = {**config.as_scalars(), "num-parties": 3, "output-dir": str(tmp_path)}
    grid = InProcessGrid(client_app.app, [{"partition-id": i, "num-partitions": 3} for i in range(3)], values)
    record = server_app.federate(grid, Context(1, 1, {}, RecordDict(), values), page=False)
    assert record.status == "completed"
    assert [party.name for party in record.parties] == sorted(NAMES)
    assert all(sum(party.class_counts) for party in record.parties)


def test_rows_are_split_at_random_where_the_run_says_so(config):
    pool = simulated_pool(config.model_copy(update={"partitioner": "iid"}))
    assert pool.party_names == ()
    assert party_name(1, config.model_copy(update={"partitioner": "iid"})) == "party-001"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            "ward",
            "partition-column must be a column of .*, and not the label, got 'ward'. Its columns are hospital",
        ),
        ("y", "partition-column must be a column of .*, and not the label, got 'y'"),
        (
            "a",
            "partition-column 'a' must name two parties or more, of many rows, got 240 different values in 2",
        ),
        ("gap", "partition-column 'gap' must say of each row whose it is, got 2 empty cells. Fill them in"),
    ],
)
def test_a_column_that_names_no_parties_is_refused(config, frame, tmp_path, column, message):
    gaps = frame.assign(gap=["", " ", *frame.hospital[2:]]) if column == "gap" else frame
    gaps.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match=message):
        simulated_pool(config.model_copy(update={"partition_column": column}))


def test_another_number_of_parties_than_the_data_have_is_refused(config):
    with pytest.raises(ConfigError, match="num-parties must be 3"):
        dealt(config, 4)
