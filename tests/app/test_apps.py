"""Whole runs through the real ServerApp and ClientApp, in one process: simulations, silos, and what goes wrong."""

import dataclasses
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid, run_apps
from silo_files import MIXED, node_of, write_public

from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.client_app import client_of
from fedkd_flwr.app.predict import read_rows
from fedkd_flwr.app.server_app import app as server_app
from fedkd_flwr.app.server_app import first_settings
from fedkd_flwr.data.tables import load_party_table, load_public, read_table
from fedkd_flwr.errors import ConfigError, DataError, TooFewPartiesError
from fedkd_flwr.models import serialize
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.stores.saved_model import load

LEARN = {"partitioner": "iid", "model": "decision-tree", "num-rounds": 2, "centralised": False}
FAST = {**LEARN, "dataset": "synthetic(rows=200, features=4, classes=3)"}
ONE_SHOT = {"algorithm": "fedkt", "num-rounds": 1, "fedkt.teachers-per-student": 3}
FEDKT = {**FAST, **ONE_SHOT}


def _start(folder, nodes, config):
    """Run the app; the record lies in the folder, whatever happened."""
    if config.get("algorithm", "fedct") in ("fedct", "fedkt", "pate"):  # density ratios fit a forest at each party
        config = {"consensus": "majority", **config}
    run_apps(folder, nodes, config, page=True)


def _record(folder):
    return RunRecord.load(Path(folder) / "runs" / "1" / "record.json")


def _simulate(folder, config=FAST, parties=4):
    _start(folder, parties, config)
    return _record(folder)


def test_how_a_messy_table_was_read_stands_in_record_and_page(tmp_path):
    rows = [f"P{i};{i % 7},5;4;{'no' if i % 2 else 'yes'}" for i in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["id;dose;floor;y", *rows, "P80;1,5;4;"]))
    config = {**LEARN, "dataset": "table", "table": str(tmp_path / "t.csv"), "label": "y"}
    record = _simulate(tmp_path, config, parties=2)
    read = {column.name: (column.read_as, column.repaired, column.missing) for column in record.columns}
    assert read["dose"] == ("numbers (decimal comma)", 81, 0)
    assert read["y"] == ("label, 2 classes", 0, 1)
    assert read["id"][0] == "left out"
    (note,) = (note for note in record.notes if note.code == "look-at-columns")
    words = f"fedkd simulate dataset=table table={tmp_path / 't.csv'} label=y id-column=id drop=floor "
    assert words in note.values["command"]
    assert "model=decision-tree" in note.values["command"]
    assert "How the table was read" in (tmp_path / "runs" / "1" / "report.html").read_text()
    assert record.publishable().columns == []


def test_a_table_without_a_header_in_another_encoding_is_simulated_and_its_model_reads_such_a_file(tmp_path):
    rows = [f"{i % 7};{'юг' if i % 3 else 'запад'};{'нет' if i % 2 else 'да'}\n" for i in range(80)]
    (tmp_path / "t.data").write_bytes("".join(rows).encode("cp1251"))
    of_table = {"dataset": "table", "table": str(tmp_path / "t.data"), "label": "column-3", "header": "none"}
    record = _simulate(tmp_path, {**LEARN, **ONE_SHOT, **of_table, "encoding": "windows-1251"}, parties=2)
    assert [column.name for column in record.columns] == ["", "column-1", "column-2", "column-3"]
    model = load(tmp_path / "runs" / "1" / "model.fedkd")
    (tmp_path / "new.csv").write_bytes("".join(rows[:6]).encode("cp1251"))
    found = read_rows(str(tmp_path / "new.csv"), model)
    assert len(model.predict(found)) == 6
    assert found["column-2"].iloc[0] == "запад"


# -------------------------------------------------------------------------------------------------- simulations


def test_fedct_with_its_defaults_runs_on_digits_and_leaves_a_record_and_a_page(tmp_path):
    record = _simulate(tmp_path, {"model": "decision-tree", "num-rounds": 2})
    assert (record.status, record.reason, record.simulation) == ("completed", "", True)
    assert (record.num_classes, record.num_public) == (10, 449)
    assert [r.answered for r in record.rounds] == [[f"party-{i:03d}" for i in range(4)]] * 2
    assert all(set(p.solo) == set(p.federated) == {"common", "own"} for p in record.parties)
    assert all(len(one.confusion) == 10 and one.brier for p in record.parties for one in p.solo.values())
    assert (record.server, set(record.centralised)) == ({}, {"common", "own"})
    assert record.centralised["own"].n == sum(p.solo["own"].n for p in record.parties)
    assert [p.model for p in record.parties] == ["decision-tree"] * 4
    assert record.parties[0].model_bytes
    assert record.rounds[-1].consensus_accuracy > 0.5
    assert record.centralised_accuracy > np.mean([p.solo["common"].accuracy for p in record.parties])
    assert record.config["partitioner"] == "auto"
    assert {"flwr", "numpy", "scikit-learn"} <= set(record.versions)
    page = (tmp_path / "runs" / "1" / "report.html").read_text(encoding="utf-8")
    assert "party-003" in page


@pytest.mark.parametrize("keeps", [True, False])
def test_a_simulation_keeps_the_parties_models_unless_asked_not_to_and_nothing_else_of_them(tmp_path, keeps):
    _simulate(tmp_path, {**FAST, "save-party-models": keeps})
    models = [f"party-{i:03d}.model" for i in range(4)] if keeps else []
    kept = ["checkpoint.npz", "lineage.json", "participations.json", *models, "record.json", "report.html"]
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == kept
    assert all(serialize.load(path).num_classes == 3 for path in tmp_path.rglob("*.model"))


def _people(rows, seed=0, label="income"):
    """Draw a table with numbers, texts and holes whose class can be learnt from both columns."""
    rng = np.random.default_rng(seed)
    high = rng.integers(0, 2, rows)
    frame = pd.DataFrame(
        {
            "age": np.where(high, rng.normal(60, 5, rows), rng.normal(25, 5, rows)).round(1).astype(str),
            "job": np.where(high, "smith", "cook"),
            "hours": rng.integers(10, 60, rows).astype(str),
            label: np.where(high, ">50K", "<=50K"),
        }
    )
    frame.loc[rng.choice(rows, rows // 10, replace=False), "age"] = ""
    frame.loc[rng.choice(rows, rows // 10, replace=False), "job"] = "?"
    return frame


# --------------------------------------------------------------------------------------------------- failed runs


def _failed(folder, error, match, config=FAST, **keywords):
    with pytest.raises(error, match=match):
        _simulate(folder, config, **keywords)
    record = _record(folder)
    assert record.status == "failed"
    assert record.reason
    assert (folder / "runs" / "1" / "report.html").is_file()
    return record


def test_a_missing_data_set_fails_the_run_and_names_data_root(tmp_path):
    config = {**LEARN, "dataset": "adult", "data-root": str(tmp_path / "nowhere")}
    record = _failed(tmp_path, DataError, "data-root", config)
    assert "data-root" in record.reason
    assert record.rounds == []


def test_too_few_nodes_fail_the_run_after_the_deadline(tmp_path):
    config = {**FAST, "num-parties": 9, "node-deadline-s": 0.1}
    record = _failed(tmp_path, TooFewPartiesError, "number of nodes must reach 9 within 0.1 s, got 4", config)
    assert "raise node-deadline-s" in record.reason
    assert "number of nodes must reach 9" in (tmp_path / "runs" / "1" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"model": "nowhere_to_be_found:Model"}, "model must be importable, got nowhere_to_be_found:Model"),
        ({"final-model": "oracle"}, "model must be one of decision-tree, .*, got 'oracle'"),
        ({"student-model": "knn(depth=3)"}, "A parameter of knn must be among .*, got 'depth'"),
    ],
)
def test_a_model_nobody_can_make_fails_before_any_party_trains(tmp_path, settings, match):
    record = _failed(tmp_path, ConfigError, match, {**FEDKT, **settings})
    assert record.rounds == []


def test_a_relative_output_folder_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"output-dir must be an absolute path, got 'results'\. Write /"):
        _start("results", 2, FAST)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_run_config_is_refused_before_any_party_is_contacted(tmp_path):
    nodes = [{"partition-id": i, "num-partitions": 2} for i in range(2)]
    config = {**FAST, "num-parties": 2, "output-dir": str(tmp_path), "fraction-parties": 0.5}
    grid = InProcessGrid(client_app, nodes, config)
    with pytest.raises(ConfigError, match=r"fraction-parties must not be set for fedct, got 0\.5"):
        server_app(grid, Context(1, 1, {}, RecordDict(), config))
    assert grid.sent == []
    assert list(tmp_path.iterdir()) == []  # not even the beginning of a record


# --------------------------------------------------------------------------------------------------------- silos

NAMES = ("north", "south", "west")


@pytest.fixture
def silos(tmp_path, in_this_process):
    """Three silos, each with its own rows, its own copy of the public file, and a folder of its own."""
    nodes = {}
    for i, name in enumerate(("server", *NAMES)):
        folder = tmp_path / name
        folder.mkdir()
        public = write_public(folder, _people(80), MIXED)
        node = node_of(name, _people(40, seed=i), folder / "own.csv", public, folder / "state")
        nodes[name] = {**node, "share-metrics": "accuracy,macro-f1,model"}
    del nodes["server"]
    return nodes


def _deploy(tmp_path, nodes, config=FAST):
    config = {"public-path": str(tmp_path / "server" / "public.csv"), "num-rounds": 2, **config}
    _start(tmp_path / "server", list(nodes.values()), config)
    return _record(tmp_path / "server")


def test_silos_with_their_own_files_run_and_keep_their_models(tmp_path, silos):
    record = _deploy(tmp_path, silos)
    assert (record.status, record.simulation, record.centralised) == ("completed", False, {})
    assert [p.name for p in record.parties] == sorted(NAMES)
    assert all(set(p.federated) == {"own"} for p in record.parties)
    named = {"n", "accuracy", "macro_f1"}
    measured = [one["own"].as_dict() for p in record.parties for one in (p.solo, p.federated)]
    assert all(one.keys() - {"no_probabilities"} == named and one["n"] == 8 for one in measured)
    public = load_public(tmp_path / "server" / "public.csv")
    X, y = load_party_table(tmp_path / "north" / "own.csv", public.schema, public.preprocessor)
    for name in NAMES:
        model = serialize.load(tmp_path / name / "state" / "runs" / "1" / "parties" / f"{name}.model")
        assert (model.predict(X) == y).mean() > 0.8


def test_a_silo_keeps_the_model_trained_alone_too_and_its_owner_alone_is_advised(tmp_path, silos, caplog):
    for node in silos.values():
        node["share-metrics"] = ""
    with caplog.at_level("INFO", logger="flwr.party"):
        record = _deploy(tmp_path, silos, FEDKT)
    assert all(p.solo == p.federated == {} and p.model_bytes is None for p in record.parties)
    assert all(r.accuracy == {} for r in record.rounds)
    public = load_public(tmp_path / "server" / "public.csv")
    for name in NAMES:
        folder = tmp_path / name / "state" / "runs" / "1" / "parties"
        X, y = load_party_table(tmp_path / name / "own.csv", public.schema, public.preprocessor)
        alone = serialize.load(folder / f"{name}.alone.model")
        assert (alone.predict(X) == y).mean() > 0.8
        rows = read_table(tmp_path / name / "own.csv")
        names = np.array(public.schema.classes)[alone.predict(X)]
        assert load(folder / f"{name}.alone.model").predict(rows).tolist() == names.tolist()
        for kind in (name, f"{name}.alone"):
            card = (folder / f"{kind}.card.md").read_text(encoding="utf-8")
            assert f"No claim covers this file: it learnt from private rows of {name}." in card
            assert "What the run claims stands in the server's record" in card
        assert f"{name}: your better model: " in caplog.text
    assert "on 8 own test rows: accuracy" in caplog.text  # which was not shared
    assert not list((tmp_path / "server").rglob("*.alone.model"))


def test_an_owner_who_cannot_be_told_changes_nothing_that_leaves(tmp_path, silos, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no card")

    monkeypatch.setattr("fedkd_flwr.app.model_cards.write_card", broken)
    record = _deploy(tmp_path, silos)
    assert record.status == "completed"
    assert all(set(p.federated) == {"own"} and not p.notes for p in record.parties)


AUTO = {**FAST, "num-rounds": 1, "consensus": "auto"}


def test_silos_send_no_density_ratios_unless_their_owners_say_so(tmp_path, silos):
    assert _deploy(tmp_path, silos, AUTO).consensus_rule != "density-ratio"


def test_silos_send_density_ratios_where_their_owners_say_so_and_none_that_demands_privacy(tmp_path, silos):
    for node in silos.values():
        node |= {"allow-algorithms": "fedct", "allow-vote-rules": "density-ratio"}
    silos["north"]["require-privacy"] = True
    record = _deploy(tmp_path, silos, AUTO)
    assert "hold the two classes in about the same shares" in record.consensus_reason  # as their counts say
    assert [(r.party, r.code) for r in record.rounds[0].rejected] == [("north", "not ready: privacy-required")]
    assert all(record.party(name).public_fit > 0 for name in ("south", "west"))


def _edits(name, edit):
    def spoil(folder, node):
        path = folder / f"{name}.csv"
        edit(pd.read_csv(path, dtype=str, na_filter=False)).to_csv(path, index=False)

    return spoil


PROBLEMS = {
    "class outside": (_edits("own", lambda f: f.replace({">50K": "millions"})), "class-outside-schema", "'millions'"),
    "a column is missing": (_edits("own", lambda f: f.drop(columns="job")), "wrong-data", "a table without job"),
    "no rows": (_edits("own", lambda f: f[:0]), "no-rows", "hold at least one row"),
    "no file": (lambda f, n: (f / "own.csv").unlink(), "missing-file", "own.csv"),
    "no schema": (lambda f, n: (f / "schema.toml").unlink(), "missing-file", "schema.toml"),
    "another public file": (_edits("public", lambda f: f.assign(hours="40")), "public-set-mismatch", "the same public"),
    "another label": (lambda f, n: n.update(label="wage"), "wrong-config", "label must be the schema's label column"),
    "unknown key": (lambda f, n: n.update(modell="knn"), "wrong-config", "Did you mean model?"),
    "relative state folder": (lambda f, n: n.update({"state-dir": "state"}), "wrong-config", "be an absolute path"),
    "not allowed": (lambda f, n: n.update({"allow-algorithms": "fedkt"}), "not-allowed", "must be one of ['fedkt']"),
    "a budget": (lambda f, n: n.update({"epsilon-budget": 1.0}), "privacy-required", "lift require-privacy"),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_silo_with_a_problem_tells_the_server_its_code_and_its_own_log_more(tmp_path, silos, caplog, case):
    spoil, code, text = PROBLEMS[case]
    spoil(tmp_path / "south", silos["south"])
    config = parse_run_config({**FAST, "public-path": str(tmp_path / "server" / "public.csv")})
    public = load_public(config.public_path)
    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        client = client_of(Context(1, 1, silos["south"], RecordDict(), config.as_scalars()))
        said = client.ready(first_settings(config, public))
    assert (said["party"], said["code"]) == ("south", code)
    assert text in caplog.text
    assert text not in str(said)


def test_beside_a_silo_with_a_problem_the_others_finish(tmp_path, silos, caplog):
    spoil, code, text = PROBLEMS["class outside"]
    spoil(tmp_path / "south", silos["south"])
    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        record = _deploy(tmp_path, silos, {**FAST, "num-rounds": 1})
    assert record.status == "completed"
    assert record.rounds[0].answered == ["north", "west"]
    assert [(r.party, r.code) for r in record.rounds[0].rejected] == [("south", f"not ready: {code}")]
    # the silo's own log says what to do; the server learns the code only
    assert text in caplog.text
    assert text not in dataclasses.replace(record, config={}).to_json()
    with pytest.raises(TooFewPartiesError, match=f"south: {code}"):
        _deploy(tmp_path, {name: silos[name] for name in ("north", "south")}, {**FAST, "node-deadline-s": 0.05})


def test_a_silo_that_demands_privacy_takes_no_model_the_run_names_by_import_string(tmp_path, silos, caplog):
    for silo in silos.values():
        silo["allow-code"] = True
    silos["south"]["epsilon-budget"] = 1.0
    with caplog.at_level(logging.ERROR, logger="flwr.party"):
        record = _deploy(tmp_path, silos, {**FAST, "num-rounds": 1, "model": "sklearn.tree:DecisionTreeClassifier"})
    assert record.rounds[0].answered == ["north", "west"]
    assert [(r.party, r.code) for r in record.rounds[0].rejected] == [("south", "not ready: not-allowed")]
    assert "must be a name of the zoo at a node that demands privacy" in caplog.text
