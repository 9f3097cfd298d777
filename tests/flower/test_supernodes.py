"""A deployment for real: one SuperLink, two SuperNodes with files of their own, a foreign app, and a run of FedKT."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from flower_runtime import BIN, ROOT, FlowerHome, free_ports, stop, wait_for_port
from silo_files import AGE, JOB, schema_of, write_public

from fedkd_flwr.data.tables import load_party_table, load_public
from fedkd_flwr.models import serialize
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.silo.bundles import Approvals, build_bundle

# a pattern's name in Flower's own build of an app
pytestmark = [pytest.mark.flower, pytest.mark.filterwarnings("ignore:GitWildMatchPattern")]

SILOS = ("north", "south")
SCHEMA = schema_of(AGE, JOB)


def _people(rows, seed):
    rng = np.random.default_rng(seed)
    high = rng.integers(0, 2, rows)
    age = np.where(high, rng.normal(60, 5, rows), rng.normal(25, 5, rows)).round(1)
    texts = {"job": np.where(high, "smith", "cook"), "income": np.where(high, ">50K", "<=50K")}
    return pd.DataFrame({"age": age, **texts})


def _folder(path, seed):
    """Make a folder as a silo, or the server, has it: its copy of the public file, and its own rows."""
    path.mkdir()
    write_public(path, _people(80, seed=0), SCHEMA)
    _people(60, seed=seed).to_csv(path / "own.csv", index=False)
    return path


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """Start a SuperLink and the SuperNodes: `north` runs approved bundles only, `south` is Flower's own.

    Return the home to run from, and the folder of the silos.
    """
    tmp_path = tmp_path_factory.mktemp("deployment")
    flower = FlowerHome(tmp_path / "flower")
    Approvals(tmp_path / "approved").add(build_bundle(flower.app))
    link, control, *ports = free_ports(2 + len(SILOS))
    address = f"127.0.0.1:{link}"
    (flower.home / "config.toml").write_text(
        f'[superlink]\ndefault = "dep"\n\n[superlink.dep]\naddress = "{address}"\ninsecure = true\n', encoding="utf-8"
    )
    commands = {
        "superlink": [
            *(BIN / "flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(link)),
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
        supernode = [BIN / "flower-supernode"]
        if name == "north":
            ours = ["node", "run", "--no-check", "--approved", tmp_path / "approved", "share-metrics=accuracy"]
            supernode = [sys.executable, "-m", "fedkd_flwr.cli", *ours]
            config = [f"{key}={value}" for key, value in settings.items()]
        else:
            config = ["--host", "127.0.0.1", "--port", str(ports[i])]
            text = " ".join(f'{key}="{value}"' for key, value in settings.items())
            config += ["--node-config", f'{text} share-metrics=""']
        commands[name] = [*supernode, "--insecure", "--superlink", address, *config]
    started = []
    try:
        for name, command in commands.items():
            with (tmp_path / f"{name}.log").open("wb") as log:
                # each as on a machine of its own: another home, another working folder
                env = flower.env | {"FLWR_HOME": str(tmp_path / f"{name}-home")}
                if name == "north":  # what it has installed
                    env["PYTHONPATH"] = str(ROOT)
                started.append(subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=subprocess.STDOUT))
            if name == "superlink":
                wait_for_port(link, started[0])
        yield flower, tmp_path
    finally:
        stop(process.pid for process in started)
        for process in started:
            process.wait(timeout=10)


# a submitter's own app: at each node it reads the private file, leaves a trace, and sends what it has read
CURIOUS = {
    "pyproject.toml": """
[project]
name = "curious"
version = "1.0.0"

[tool.flwr.app]
publisher = "somebody"

[tool.flwr.app.components]
serverapp = "curious.server:app"
clientapp = "curious.client:app"

[tool.flwr.app.config]
out = ""
""",
    "curious/__init__.py": "",
    "curious/client.py": """
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(message, context):
    path = Path(context.node_config["data-path"])
    path.with_name("trace").write_text("was here")
    return Message(RecordDict({"read": ConfigRecord({"text": path.read_text()})}), reply_to=message)
""",
    "curious/server.py": """
import json
import time
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    deadline = time.monotonic() + 180
    while len(nodes := list(grid.get_node_ids())) < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
    asked = [Message(RecordDict(), dst_node_id=node, message_type="query") for node in nodes]
    replies = list(grid.send_and_receive(asked, timeout=120))
    said = [reply.error.reason if reply.has_error() else reply.content["read"]["text"] for reply in replies]
    Path(context.run_config["out"]).write_text(json.dumps(said))
""",
}


@pytest.fixture(scope="module")
def curious_replies(deployment):
    """Submit an app that no silo has approved; return what the nodes replied."""
    flower, tmp_path = deployment
    app, out = tmp_path / "curious-app", tmp_path / "curious.json"
    for name, text in CURIOUS.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(text, encoding="utf-8")
    answer = flower.flwr("run", str(app), "dep", "--run-config", f'out="{out}"')
    assert answer["success"], answer
    assert flower.wait(str(answer["run-id"]), "dep", output=out) == "finished:completed"
    return json.loads(out.read_text(encoding="utf-8"))


def test_an_app_that_was_not_approved_reads_nothing_where_the_node_checks_and_everything_elsewhere(
    deployment, curious_replies
):
    _, tmp_path = deployment
    south = (tmp_path / "south" / "own.csv").read_text(encoding="utf-8")
    assert sorted(curious_replies) == sorted(["bundle-not-approved", south])
    assert [(tmp_path / name / "trace").exists() for name in SILOS] == [False, True]
    log = (tmp_path / "north.log").read_text(encoding="utf-8")
    assert "of somebody/curious 1.0.0 must have an app bundle approved" in log


@pytest.mark.usefixtures("curious_replies")  # the node that refused a run serves the next one
def test_two_silos_run_fedkt_over_the_wire_and_each_keeps_its_model(deployment):
    flower, tmp_path = deployment
    server = _folder(tmp_path / "server", seed=9)
    settings = ["algorithm=fedkt", "model=decision-tree", "num-parties=2", "fedkt.teachers-per-student=3"]
    settings += [f"public-path={server / 'public.csv'}", f"output-dir={server / 'out'}"]
    command = [sys.executable, "-m", "fedkd_flwr.cli", "server", "run", *settings, "--app", str(flower.app)]
    env = flower.env | {"PYTHONPATH": str(ROOT)}
    given = subprocess.run(
        [*command, "--superlink", "dep", "--json"], cwd=flower.home, env=env, capture_output=True, timeout=120
    )
    assert given.returncode == 0, given.stdout + given.stderr
    run_id = json.loads(given.stdout)["run_id"]
    output = server / "out" / "runs" / run_id / "record.json"
    assert flower.wait(run_id, "dep", output=output) == "finished:completed"
    record = RunRecord.load(output)
    assert (record.status, record.simulation) == ("completed", False)
    assert [(r.answered, r.rejected) for r in record.rounds] == [(list(SILOS), [])]
    # what a silo does not share stays with it
    assert record.party("north").federated["own"].accuracy > 0.8
    assert record.party("south").federated == {}

    public = load_public(server / "public.csv")
    X, y = load_party_table(server / "own.csv", public.schema, public.preprocessor)
    kept = {name: tmp_path / name / "state" / "runs" / run_id / "parties" / f"{name}.model" for name in SILOS}
    for path in [record.server_model, *kept.values()]:
        assert (serialize.load(path).predict(X) == y).mean() > 0.9
