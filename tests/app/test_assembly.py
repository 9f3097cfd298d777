"""What a silo refuses of a run before any of its files is read."""

import subprocess
import sys

import pandas as pd
import pytest
from schemas import column

from fedkd_flwr.app import assembly
from fedkd_flwr.app.assembly import make_client
from fedkd_flwr.app.output import continued
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import ConfigError, DataError, RefusalError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.processes.alive import ProcessRecord, _started, this_process
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import parse_node_config, parse_run_config
from fedkd_flwr.stores.party_state import StoredReply
from fedkd_flwr.strategies.resuming import save_checkpoint

CALLABLES = (
    *("os:system", "subprocess:run", "builtins:exec", "runpy:run_path", "importlib:import_module", "shutil:rmtree"),
    *("pickle:load", "socket:create_connection", "ctypes:CDLL", "mixed:decision-tree,os:system"),
)


@pytest.mark.parametrize("name", CALLABLES)
@pytest.mark.parametrize("role", ["model", "teacher-model", "student-model"])
def test_a_silo_runs_nothing_that_a_run_names_by_import_string(name, role, tmp_path):
    node = parse_node_config({"party": "a", "data-path": "a.csv", "public-path": "p.csv"})
    run = parse_run_config({"algorithm": "fedkt", role: f"{name}(command='touch {tmp_path / 'seen'}')"})
    with pytest.raises(RefusalError, match="of the run must be a name of the zoo at a node without allow-code"):
        make_client(run, node, "1")
    assert not (tmp_path / "seen").exists()


ABSURD = (
    ("random-forest", {"n_estimators": 10**9}),
    ("random-forest", {"n_jobs": 64}),
    ("decision-tree", {"max_depth": 10**9}),
    ("hist-gradient-boosting", {"max_iter": 10**8}),
    ("logistic-regression", {"max_iter": 100000000}),
    ("knn", {"n_neighbors": 10**9}),
    ("xgboost", {"booster": "dart"}),
    ("mlp", {"hidden": [100000, 100000]}),
    ("mlp", {"hidden": [4096] * 8, "epochs": 1000}),
    ("transformer", {"path": "/etc"}),
    ("mixed:knn,random-forest", {"verbose": 9}),
)


@pytest.fixture
def silo(tmp_path):
    """Return the node config of a silo whose public file is there and whose private file is not."""
    Schema(columns=(column("age"),), classes=("no", "yes"), label="ill").write(tmp_path / "schema.toml")
    pd.DataFrame({"age": [1.0, 2.0, 3.0]}).to_csv(tmp_path / "public.csv", index=False)
    return {"party": "a", "data-path": f"{tmp_path}/none.csv", "public-path": f"{tmp_path}/public.csv"}


@pytest.mark.parametrize(
    ("name", "params", "role"),
    [(*one, "model") for one in ABSURD] + [(*ABSURD[0], role) for role in ("teacher-model", "student-model")],
)
def test_absurd_work_is_refused_before_private_rows_are_read(name, params, role, silo):
    run = {"algorithm": "fedkt", role: f"{name}({', '.join(f'{key}={value!r}' for key, value in params.items())})"}
    with pytest.raises(RefusalError, match=r"named by a run|that a run names"):
        make_client(parse_run_config(run), parse_node_config(silo), "1")


def test_the_owner_of_a_silo_may_name_any_parameter_and_a_simulation_too(silo):
    own = {**silo, "model": "random-forest(n_estimators=5000, n_jobs=2)"}
    with pytest.raises(DataError, match="file must exist"):  # its model was accepted: its rows are read next
        make_client(parse_run_config({"model": "xgboost(booster='dart')"}), parse_node_config(own), "1")
    run = {"dataset": "digits", "model": "random-forest(n_estimators=5000, n_jobs=2)"}
    assert make_client(parse_run_config(run), parse_node_config({"partition-id": 0, "num-partitions": 3}), "1")


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("fedct", "num-rounds"),
        ("fedct", "steps-per-round"),
        ("privatekt", "local-epochs"),
        ("fedprox", "paper.solo-epochs"),
        ("fedkt", "fedkt.students-per-party"),
        ("fedkt", "fedkt.teachers-per-student"),
        *(("fedmd", key) for key in ("paper.initial-epochs", "paper.distillation-epochs", "paper.own-rows-epochs")),
        ("fedmd", "paper.distillation-epochs"),
        ("fedmd", "paper.pretrain-epochs"),
    ],
)
def test_settings_that_cost_time_have_an_upper_end(algorithm, key):
    with pytest.raises(
        ConfigError, match=rf"{key} must be (auto, or )?a whole number >= \d and <= \d+, got 1000000000"
    ):
        parse_run_config({"algorithm": algorithm, key: 10**9})


@pytest.mark.parametrize("bad", ["<0.5", "1,1,1", '"1', "é"])
def test_a_bad_cell_in_its_file_gives_a_silo_s_other_rows_no_new_budget(bad, tmp_path):
    schema = Schema(columns=(column("age"),), classes=("no", "yes"))
    pd.DataFrame({"age": range(6)}).to_csv(tmp_path / "public.csv", index=False)
    schema.write(tmp_path / "schema.toml")
    run = parse_run_config({"public-path": str(tmp_path / "public.csv"), "model": "decision-tree"})
    own = tmp_path / "own.csv"
    node = parse_node_config(
        {"party": "a", "data-path": str(own), "public-path": str(tmp_path / "public.csv"), "state-dir": str(tmp_path)}
    )

    def party(ages):
        lines = ["age,label", *(f"{age},{label}" for age, label in zip(ages, ["no", "yes"] * 4, strict=True)), ""]
        own.write_text("\n".join(lines), encoding="latin-1")
        return make_client(run, node, "1").party

    ledger, budget = party(range(8)).ledger, Budget(epsilon=1.5)
    words = dict.fromkeys(("algorithm", "mechanism", "adversary", "neighbouring_relation"), "any")
    events = [(PureEvent(1.0), 1)]
    ledger.charge(run_id="1", server_round=1, events=events, reply=StoredReply(), budget=budget, unit="record", **words)
    spoilt = party([*range(7), bad])
    assert spoilt.fault is not None
    assert len(spoilt.y) > 0
    with pytest.raises(RefusalError, match="privacy budget of a"):
        spoilt.ledger.ask(events, budget)
    party(range(100, 108)).ledger.ask(events, budget)  # rows that were never in it
    fresh = party([bad, *range(201, 208)]).ledger
    fresh.charge(run_id="2", server_round=1, events=events, reply=StoredReply(), budget=budget, unit="record", **words)
    party([*range(300, 307), bad]).ledger.ask(events, budget)  # nor does a bad cell show in what a file may ask


def test_a_file_that_is_replaced_while_it_is_read_is_not_learnt_from_at_another_s_cost(tmp_path, monkeypatch):
    schema = Schema(columns=(column("age"),), classes=("no", "yes"))
    pd.DataFrame({"age": range(6)}).to_csv(tmp_path / "public.csv", index=False)
    schema.write(tmp_path / "schema.toml")
    run = parse_run_config({"public-path": str(tmp_path / "public.csv"), "model": "decision-tree"})
    own, public = tmp_path / "own.csv", str(tmp_path / "public.csv")
    node = parse_node_config({"party": "a", "data-path": str(own), "public-path": public, "state-dir": str(tmp_path)})

    def write(first):
        pd.DataFrame({"age": range(first, first + 4), "label": ["no", "yes"] * 2}).to_csv(own, index=False)

    write(0)
    with monkeypatch.context() as race:
        load = assembly.load_usable_rows
        race.setattr(assembly, "load_usable_rows", lambda *a: (write(50), load(*a))[1])
        with pytest.raises(DataError, match="must stay as it is while it is read"):
            make_client(run, node, "1")
    party = make_client(run, node, "1").party
    write(100)
    with pytest.raises(DataError, match="must stay as it is while it is read"):
        party.ledger.ask([(PureEvent(1.0), 1)], Budget())


def test_a_run_that_still_goes_on_is_not_continued(tmp_path):
    folder = save_checkpoint(tmp_path / "runs" / "5" / "checkpoint", {}, {}).parent
    record = RunRecord(run_id="5", algorithm="fedct")
    config = parse_run_config({"resume-from": "5", "output-dir": str(tmp_path)})
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        here = this_process()
        record.process = ProcessRecord(pid=other.pid, started=_started(other.pid), machine=here.machine)
        folder.with_name("record.json").write_text(record.to_json(), encoding="utf-8")
        with pytest.raises(ConfigError, match=r"got 5, which still goes on. Stop it first \(process \d+\)"):
            continued(config)
        other.kill()
    assert continued(config) == folder


def test_in_a_simulation_one_party_of_each_model_weighs_it_however_many_models_there_are():
    six = "mixed:decision-tree,hist-gradient-boosting,knn,logistic-regression,random-forest,extra-trees"
    config = parse_run_config({"model": six, "num-parties": 8, "partitioner": "iid"})
    nodes = [parse_node_config({"partition-id": i, "num-partitions": 8}) for i in range(8)]
    assert [make_client(config, node, "1").party.weigh_model for node in nodes] == [True] * 6 + [False] * 2
