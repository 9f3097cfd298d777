"""Whole runs on texts through the real ServerApp and ClientApp, in one process: transformers, TF-IDF, and both."""

import numpy as np
import pytest
import tiny_text
from grid import run_apps

from fedkd_flwr.app.predict import predictions
from fedkd_flwr.data.tables import load_party_table, load_public
from fedkd_flwr.errors import DataError
from fedkd_flwr.models import serialize
from fedkd_flwr.stores.saved_model import load

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    pytest.importorskip("transformers")
    pytest.importorskip("torch._dynamo")  # torch's first optimiser imports it: once here, not in each party's process
    return tiny_text.tiny_bert(tmp_path_factory.mktemp("bert"))


def reading(bert, **more):
    pairs = {"path": str(bert), "train": "all", "lr": 0.002, "max_length": 16, "epochs": 10, **more}
    return f"transformer({', '.join(f'{key}={value!r}' for key, value in pairs.items())})"


def start(folder, nodes, config):
    fast = {"num-rounds": 2, "centralised": False, "party-test-fraction": 0.3}
    if "algorithm" not in config:  # FedCT, which trains nets for so many steps
        fast["steps-per-round"] = 10
        fast["consensus"] = "majority"  # density ratios fit a second model at each party
    return run_apps(folder, nodes, {**fast, **config})


def simulate(folder, config, parties=3):
    tiny_text.table(400).to_csv(folder / "reviews.csv", index=False)
    table = {"dataset": "table", "table": str(folder / "reviews.csv"), "label": "liked", "partitioner": "iid"}
    return start(folder, parties, {**table, **config})


@pytest.fixture
def silos(tmp_path):
    """Three silos: one with CSV files, one with Parquet files, one with missing texts."""
    nodes = []
    for i, name in enumerate(("server", "north", "south", "west")):
        folder = tmp_path / name
        folder.mkdir()
        tiny_text.SCHEMA.write(folder / "schema.toml")
        suffix = "parquet" if name == "south" else "csv"
        public, own = tiny_text.table(100, seed=50)[["review"]], tiny_text.table(80, seed=i)
        if name == "west":
            own.loc[:2, "review"] = None
        for frame, stem in ((public, "public"), (own, "own")):
            path = folder / f"{stem}.{suffix}"
            frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
        files = {"data-path": f"{folder}/own.{suffix}", "public-path": f"{folder}/public.{suffix}"}
        nodes.append({"party": name, "state-dir": f"{folder}/state", "share-metrics": "accuracy,model", **files})
    return nodes[1:]


def deploy(tmp_path, nodes, config):
    return start(tmp_path / "server", nodes, {"public-path": f"{tmp_path}/server/public.csv", **config})


def test_silos_fine_tune_their_own_transformers_by_fedct_and_keep_them_between_rounds(tmp_path, silos, bert):
    for silo in silos:
        silo |= {"model": reading(bert)}
    record = deploy(tmp_path, silos, {"num-rounds": 3})
    assert record.status == "completed"
    assert [p.name for p in record.parties] == ["north", "south", "west"]
    assert all(p.notes == [] for p in record.parties)  # nobody's state was lost
    assert np.mean([p.federated["own"].accuracy for p in record.parties]) > 0.8
    public = load_public(tmp_path / "north" / "public.csv")
    for name, suffix in (("north", "csv"), ("south", "parquet"), ("west", "csv")):
        model = serialize.load(tmp_path / name / "state" / "runs" / "1" / "parties" / f"{name}.model")
        X, y = load_party_table(tmp_path / name / f"own.{suffix}", public.schema, public.as_read_by(model).preprocessor)
        assert X.shape == (80, 1)
        assert (model.predict(X) == y).mean() > 0.8
        # (rounds + the final one) x 10 steps, none of them from the start again
        assert {float(s["step"]) for s in model.estimator.optimizer_.state.values()} == {40.0}


def test_fedkt_leaves_the_server_a_transformer_taught_by_trees(tmp_path, bert):
    config = {"algorithm": "fedkt", "num-rounds": 1, "model": "decision-tree", "fedkt.teachers-per-student": 2}
    config |= {"consensus": "majority"}
    config |= {"final-model": reading(bert), "paper.party-models": False}
    record = simulate(tmp_path, config)
    assert record.status == "completed"
    assert record.server_accuracy > 0.7
    model = load(record.server_model)
    rows = tiny_text.table(20, seed=8)
    answers = predictions([model], rows.assign(shop="x"))  # what fedkd predict does
    assert (answers["prediction"] == rows["liked"]).mean() > 0.7
    own = serialize.load(record.server_model).predict_proba(rows[["review"]].to_numpy(dtype=object))
    assert np.array_equal(answers[["probability_no", "probability_yes"]].to_numpy(), own)
    with pytest.raises(DataError, match="review"):
        predictions([model], rows.rename(columns={"review": "text"}))
