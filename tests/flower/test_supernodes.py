"""A deployment for real: one SuperLink, two SuperNodes with files of their own, one run of FedKT."""

from __future__ import annotations

import subprocess

import numpy as np
import pandas as pd
import pytest
from flower_runtime import BIN, FlowerHome, free_ports, stop, wait_for_port

from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_party_table, load_public
from fedkd_flwr.models import serialize
from fedkd_flwr.run_record import RunRecord

pytestmark = pytest.mark.flower

SILOS = ("north", "south")
SCHEMA = Schema(
    columns=(
        Column(name="age", kind="numeric"),
        Column(name="job", kind="categorical", categories=("cook", "smith")),
    ),
    classes=("<=50K", ">50K"),
    label="income",
)


def _people(rows, seed):
    rng = np.random.default_rng(seed)
    high = rng.integers(0, 2, rows)
    age = np.where(high, rng.normal(60, 5, rows), rng.normal(25, 5, rows)).round(1)
    texts = {"job": np.where(high, "smith", "cook"), "income": np.where(high, ">50K", "<=50K")}
    return pd.DataFrame({"age": age, **texts})


def _folder(path, seed):
    """Make a folder as a silo, or the server, has it: its copy of the public file, and its own rows."""
    path.mkdir()
    _people(80, seed=0).drop(columns="income").to_csv(path / "public.csv", index=False)
    SCHEMA.write(path / "schema.toml")
    _people(60, seed=seed).to_csv(path / "own.csv", index=False)
    return path


@pytest.fixture
def deployment(tmp_path):
    """Start a SuperLink and the SuperNodes; yield the home to run from."""
    flower = FlowerHome(tmp_path / "flower")
    link, control, *ports = free_ports(2 + len(SILOS))
    address = f"127.0.0.1:{link}"
    (flower.home / "config.toml").write_text(
        f'[superlink]\ndefault = "dep"\n\n[superlink.dep]\naddress = "{address}"\ninsecure = true\n', encoding="utf-8"
    )
    commands = {
        "superlink": [
            *("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(link)),
            *("--control-api-address", f"127.0.0.1:{control}", "--database", str(tmp_path / "superlink.db")),
        ]
    }
    for i, name in enumerate(SILOS):
        folder = _folder(tmp_path / name, seed=i + 1)
        settings = {
            "party": name,
            "data-path": folder / "own.csv",
            "public-path": folder / "public.csv",
            "state-dir": folder / "state",
        }
        node_config = " ".join(f'{key}="{value}"' for key, value in settings.items())
        commands[name] = [
            *("flower-supernode", "--insecure", "--superlink", address, "--host", "127.0.0.1", "--port", str(ports[i])),
            *("--node-config", f"{node_config} share-metrics={'true' if name == 'north' else 'false'}"),
        ]
    started = []
    try:
        for name, (program, *arguments) in commands.items():
            with (tmp_path / f"{name}.log").open("wb") as log:
                command = [str(BIN / program), *arguments]
                # each as on a machine of its own: another home, another working folder
                env = flower.env | {"FLWR_HOME": str(tmp_path / f"{name}-home")}
                started.append(subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=subprocess.STDOUT))
            if name == "superlink":
                wait_for_port(link, started[0])
        yield flower
    finally:
        stop(process.pid for process in started)
        for process in started:
            process.wait(timeout=10)


def test_two_silos_run_fedkt_over_the_wire_and_each_keeps_its_model(deployment, tmp_path):
    server = _folder(tmp_path / "server", seed=9)
    run_id = deployment.submit(
        "dep",
        algorithm="fedkt",
        model="decision-tree",
        num_parties=2,
        public_path=str(server / "public.csv"),
        output_dir=str(server / "out"),
        **{"fedkt.teachers-per-student": 3},
    )
    assert deployment.wait(run_id, "dep") == "finished:completed"
    record = RunRecord.load(server / "out" / "runs" / run_id / "record.json")
    assert (record.status, record.simulation) == ("completed", False)
    assert [(r.answered, r.rejected) for r in record.rounds] == [(list(SILOS), [])]
    # what a silo does not share stays with it
    assert record.party("north").federated["own"] > 0.8
    assert record.party("south").federated == {}

    public = load_public(server / "public.csv")
    X, y = load_party_table(server / "own.csv", public.schema, public.preprocessor)
    kept = {name: tmp_path / name / "state" / "runs" / run_id / "parties" / f"{name}.model" for name in SILOS}
    for path in [record.server_model, *kept.values()]:
        assert (serialize.load(path).predict(X) == y).mean() > 0.9
