"""The rows of simulated parties: where the data say whose row it is, the parties are those, under their names."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from grid import run_apps

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.rows import (
    check_simulation,
    counted,
    dealt,
    lacking,
    party_class_counts,
    party_name,
    simulated_pool,
)
from fedkd_flwr.stores.saved_model import load

NAMES = ("east", "north/1", "süd")
KEPT = ("dataset", "table", "label", "partition-column", "model")


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
    assert counted(config.as_scalars()).num_parties == 3
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
    record = run_apps(tmp_path, 3, {**config.as_scalars(), "num-parties": 3, "output-dir": str(tmp_path)})
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
        ("hospitals", r"and not the label, got 'hospitals'. Did you mean hospital\?"),
        ("ward", "partition-column must be a column of .*, and not the label, got 'ward'. Its columns are hospital"),
        ("y", "partition-column must be a column of .*, and not the label, got 'y'"),
        ("a", "partition-column 'a' must name two parties or more, of many rows, got 240 different values in 2"),
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


def _record(config, tamper=None):
    """Run this federation in one process; return its record."""
    return run_apps(config.output_dir, 3, config.as_scalars(), tamper=tamper)


def _widths(record):
    folder = Path(record.config["output-dir"]) / "runs" / record.run_id / "parties"
    return {path.stem: load(path).columns for path in folder.glob("*.model") if ".alone" not in path.name}


@pytest.fixture
def three(config, tmp_path):
    return config.model_copy(update={"output_dir": str(tmp_path / "out"), "num_parties": 3})


def test_parties_vote_on_the_columns_they_have_and_the_record_says_which_they_lack(three):
    record = _record(three.model_copy(update={"lacks": "east:b; süd:a"}))
    assert record.status == "completed"
    assert record.rounds[0].answered == sorted(NAMES)
    assert [party.notes for party in record.parties if party.name != "north/1"] == [
        [Note(NoteCode.LACKS_COLUMNS, {"columns": [name]})] for name in ("b", "a")
    ]
    assert sorted(_widths(record).values()) == [("a",), ("a", "b"), ("b",)]


def test_a_column_without_a_value_is_not_found_in_private_rows(config, frame, three):
    frame.assign(b=frame.b.where(frame.hospital != "east")).to_csv(config.table, index=False)
    record = _record(three)
    assert all(note.code != NoteCode.LACKS_COLUMNS for party in record.parties for note in party.notes)
    assert set(_widths(record).values()) == {("a", "b")}


def test_a_reply_that_names_columns_the_schema_has_not_names_none(three):
    def tamper(node, reply):
        if "reply" in reply.content.config_records and node == 0:
            reply.content.config_records["reply"]["lacks"] = "a\n<script>\ny"
        return reply

    notes = _record(three, tamper).parties[0].notes
    assert [note.values for note in notes if note.code == NoteCode.LACKS_COLUMNS] == [{"columns": ["a"]}]


def test_files_without_a_column_make_parties_without_it(config, frame, tmp_path):
    for name, rows in frame.groupby("hospital"):
        gone = ["hospital", *(["b"] if name == "süd" else [])]
        rows.drop(columns=gone).to_csv(tmp_path / f"{name[:2]}.csv", index=False)
    files = ",".join(str(tmp_path / f"{name[:2]}.csv") for name in NAMES)
    by_file = config.model_copy(update={"table": "", "partition_column": "", "tables": files})
    assert {party_name(i, by_file): sorted(lacking(by_file, i)) for i in range(3)} == {"ea": [], "no": [], "sü": ["b"]}
    mixed = by_file.model_copy(update={"partitioner": "iid", "num_parties": 3})
    assert not any(lacking(mixed, i) for i in range(3))


def test_so_many_columns_of_each_party_are_drawn_by_the_seed():
    values = {"dataset": "wine", "num-parties": 6, "lacks": "4"}
    drawn = [[tuple(lacking(parse_run_config(values | {"seed": s}), i)) for i in range(6)] for s in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert {len(set(one)) for one in drawn[0]} == {4}
    assert len(set(drawn[0])) > 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lacks": "west:a"}, "lacks must name parties of the run, .* got 'west'"),
        ({"lacks": "a,b"}, "lacks must name parties of the run, .* got ''"),
        ({"lacks": "east:c"}, "lacks must name some of the schema's columns and not all: a, b, got 'c'"),
        ({"lacks": "2"}, "lacks must name some of the schema's columns and not all"),
        ({"lacks": "east:a", "public-path": "/p.csv"}, "lacks must not be given with public-path"),
        *(
            ({"lacks": "east:a", "algorithm": name, "model": "mlp"}, f"lacks must be empty for {name}: its net must")
            for name in ("fedavg", "fedprox", "scaffold", "feddf", "pfnm", "dp-fedavg", "fedkt-prox", "privatekt")
        ),
        *(
            ({"lacks": "east:a", "algorithm": name, "model": model}, f"lacks must be empty for {name}: its trees must")
            for name, model in (("fedxgb-bagging", "xgboost"), ("pooled-forest", "random-forest"))
        ),
        (
            {"lacks": "east:a", "algorithm": "noisy-sums"},
            "lacks must be empty for noisy-sums: its sums must have all columns, got 'a'. Take .* such as fedct",
        ),
    ],
)
def test_lacking_columns_that_cannot_be_is_refused_by_name(config, changes, message):
    values = {key: value for key, value in config.as_scalars().items() if "." not in key and key in KEPT}
    with pytest.raises(ConfigError, match=message):
        check_simulation(parse_run_config(values | changes), 3)
