"""Own columns in whole runs: silos that name them, simulations that deal them, and that nothing of them leaves."""

import re

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.app import predict
from fedkd_flwr.app.assembly import make_client
from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.server_app import app as server_app
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.ledger.rows import hash_rows
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.table import summary_table
from fedkd_flwr.saved_model import load
from fedkd_flwr.settings.config import parse_node_config, parse_run_config

pytestmark = pytest.mark.usefixtures("in_this_process")

SCHEMA = Schema(
    columns=(Column(name="age", kind="numeric"), Column(name="hours", kind="numeric")),
    classes=("<=50K", ">50K"),
    label="income",
)
RUN = {"model": "decision-tree", "model-params": "max_depth=3", "num-rounds": 1, "fedct.consensus": "majority"}
NAMES = ("north", "south")


def _people(count, seed):
    """Age says half of it, and the bonus, which the public file lacks, all of it."""
    rng = np.random.default_rng(seed)
    rich = rng.random(count) < 0.5
    age = np.where(rich, 45, 40) + rng.normal(scale=10, size=count)
    table = pd.DataFrame({"age": age.round(1), "hours": rng.integers(10, 60, count)})
    table["bonus"] = np.where(rich, 900, 100) + rng.integers(0, 50, count)
    table["income"] = np.where(rich, ">50K", "<=50K")
    return table


def _silos(folder, own=""):
    nodes = {}
    for i, name in enumerate(("server", *NAMES)):
        home = folder / name
        home.mkdir(parents=True)
        _people(80, seed=9)[["age", "hours"]].to_csv(home / "public.csv", index=False)
        SCHEMA.write(home / "schema.toml")
        _people(100, seed=i).to_csv(home / "own.csv", index=False)
        paths = {"data-path": str(home / "own.csv"), "public-path": str(home / "public.csv")}
        nodes[name] = {"party": name, **paths, "state-dir": str(home / "state")}
    del nodes["server"]
    if own:
        nodes["north"]["own-columns"] = own
    return nodes


def _start(folder, nodes, config):
    config = {"num-parties": len(nodes), "node-deadline-s": 1.0, "node-settle-s": 0.05, **RUN, **config}
    config["output-dir"] = str(folder)
    grid = InProcessGrid(client_app, list(nodes), config)
    server_app(grid, Context(1, 1, {}, RecordDict(), config))
    return RunRecord.load(folder / "runs" / "1" / "record.json"), grid


def _deploy(folder, own="", share="", **config):
    nodes = _silos(folder, own)
    for node in nodes.values():
        node["share-metrics"] = share
    return _start(folder / "server", nodes.values(), {"public-path": str(folder / "server" / "public.csv"), **config})


def _said(grid):
    """What left the parties: each reply's records, as bytes and values, without what names the node."""
    return [
        (
            {name: [array.data for array in record.values()] for name, record in reply.content.array_records.items()},
            {name: str(dict(record)) for name, record in reply.content.metric_records.items()},  # NaN is not NaN
            {
                name: {key: value for key, value in record.items() if key != "node-proof"}
                for name, record in reply.content.config_records.items()
            },
        )
        for reply in grid.replies
    ]


def test_a_silo_s_own_model_reads_its_own_columns_and_is_better_for_it(tmp_path):
    record, _ = _deploy(folder := tmp_path, own="bonus, none", share="accuracy")
    north, south = record.parties
    assert north.extended["own"].accuracy >= north.federated["own"].accuracy + 0.1
    assert (north.own_columns, south.extended) == ([], {})  # names stay with the silo
    home = folder / "north" / "state" / "runs" / "1" / "parties"
    model = load(home / "north.extended.model")
    assert model.columns == ("age", "hours", "bonus")
    fresh = _people(100, seed=77)
    fresh.drop(columns="income").to_csv(folder / "fresh.csv", index=False)
    table = predict.read_rows(str(folder / "fresh.csv"), model)
    assert (predict.predictions(model, table)["prediction"] == fresh["income"]).mean() > 0.95
    table.loc[0, "bonus"] = "spilt"
    assert len(predict.predictions(model, table)) == 100
    (said,) = predict.notes(model, table)
    assert said == (
        "column 'bonus': 1 of 100 rows hold nothing that can be read there and count as empty, as in the run: 'spilt'"
    )
    assert load(home / "north.model").columns == ("age", "hours")
    card = (home / "north.extended.card.md").read_text(encoding="utf-8")
    assert "north's model, with its own columns too" in card
    assert "but for columns that only north has (bonus)" in card
    assert "What your own columns (bonus) add" in (home / "north.html").read_text(encoding="utf-8")
    assert not (folder / "south" / "state" / "runs" / "1" / "parties" / "south.extended.model").exists()


def test_no_vote_depends_on_own_columns_and_without_shared_metrics_nothing_does(tmp_path):
    with_them, without = (_said(_deploy(tmp_path / str(i), own=own)[1]) for i, own in enumerate(("bonus", "")))
    assert with_them == without
    assert any(any(arrays.values()) for arrays, _, _ in with_them)


def test_beside_a_claim_nothing_leaves_that_an_owner_shares_elsewhere(tmp_path):
    noise = {"label-mechanism": "randomized-response", "label-epsilon": 0.05}
    record, grid = _deploy(tmp_path, own="bonus", share="accuracy", **noise)
    assert record.claims
    assert not any(p.extended or p.federated or p.solo for p in record.parties)
    assert "extended" not in str([reply[1:] for reply in _said(grid)])
    assert (tmp_path / "north" / "state" / "runs" / "1" / "parties" / "north.extended.model").exists()


def test_what_was_spent_follows_the_rows_that_the_voting_model_reads(tmp_path):
    node = parse_node_config(_silos(tmp_path, own="bonus")["north"])
    run = parse_run_config({"public-path": node.public_path, **RUN})

    def hashes():
        rows = make_client(run, node, "1").party.ledger.rows
        return rows.digest, hash_rows(rows.blocks(), b"k" * 16).tolist()

    before = hashes()
    table = pd.read_csv(node.data_path)
    table.assign(bonus=0).to_csv(node.data_path, index=False)
    after = hashes()
    assert before[0] != after[0]  # another file
    assert before[1] == after[1]  # with the same rows, as far as a vote can tell of them
    table.assign(age=1).to_csv(node.data_path, index=False)
    assert hashes()[1] != before[1]


def test_a_simulation_deals_columns_and_shows_each_party_s_gain(tmp_path):
    config = {"dataset": "breast-cancer", "own-column-share": 0.1, "partitioner": "iid", "centralised": False}
    nodes = [{"partition-id": i, "num-partitions": 2} for i in range(2)]
    record, _ = _start(tmp_path, nodes, {**config, "save-party-models": True})
    assert [len(p.own_columns) for p in record.parties] == [2, 1]
    assert all(set(p.extended) == {"common", "own"} for p in record.parties)
    assert not any(p.extended or p.own_columns for p in record.publishable().parties)
    assert "with own columns too" in summary_table(record)
    page = (tmp_path / "runs" / "1" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"with own columns too, [0-9,]+ common", page)
    for party in record.parties:
        if (kept := tmp_path / "runs" / "1" / "parties" / f"{party.name}.extended.model").exists():
            assert set(load(kept).columns) > set(party.own_columns)
        else:
            assert party.extended == party.federated
    frame = record.to_frame("models")
    assert {"solo", "federated", "extended"} <= set(frame["whose"])


def test_own_columns_belong_to_silos_and_shares_to_simulations():
    with pytest.raises(ConfigError, match="own-columns must be given with data-path"):
        parse_node_config({"partition-id": 0, "num-partitions": 2, "own-columns": "a"})
    with pytest.raises(ConfigError, match="own-column-share"):
        parse_run_config({"own-column-share": 1.0})
