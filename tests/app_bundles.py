"""Small app bundles for tests."""

import io
import os
import time
import zipfile
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedkd_flwr.silo.bundles import Approvals, Bundle
from fedkd_flwr.silo.node_work import Work

PYPROJECT = """
[project]
name = "{name}"
version = "{version}"

[tool.flwr.app]
publisher = "lab"

[tool.flwr.app.components]
serverapp = "votes.server:app"
clientapp = "{client_app}"

[tool.flwr.app.config]
rounds = 3
"""


def packed(files):
    """Return files as the bytes of a zip."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def make_bundle(code="app = None\n", *, name="votes", version="1.0", client_app="votes.client:app", **more):
    """Return a bundle of an app ``votes`` with one module, and with more files."""
    project = PYPROJECT.format(name=name, version=version, client_app=client_app)
    files = {"pyproject.toml": project, "votes/client.py": code, ".info/CONTENT": "", **more}
    return Bundle.from_bytes(packed(files), source="test")


ROOT = Path(__file__).parents[1]


CLIENT_APP = """
from pathlib import Path

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    print("a word on stdout")
    asked = message.content["ask"]["what"]
    if asked == "nothing":
        return None
    if asked == "raise":
        raise ValueError("private words")
    context.state["seen"] = ConfigRecord({"rounds": 1})
    said = f"{asked} {context.node_config['party']} {context.run_config['rounds']}"
    return Message(RecordDict({"say": ConfigRecord({"said": said})}), reply_to=message)
"""


def work_of(bundle, *, ask="hello", agent=False, ttl=60.0, ahead=0.0, sent=None):
    """Return an instruction with what belongs to it; ``sent`` is what the server sends instead of the bundle."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 5, 1, 7
    message = Message(RecordDict({"ask": ConfigRecord({"what": ask})}), dst_node_id=7, message_type="train", ttl=ttl)
    message.metadata.__dict__["_message_id"] = "m1"
    message.metadata.created_at = time.time() - ahead
    context = Context(5, 7, {"party": "north"}, RecordDict(), {})
    run = Run.create_empty(5)
    run.fab_id, run.fab_version, run.fab_hash = bundle.app, bundle.version, bundle.sha256
    if agent:
        run.primary_task_type = TaskType.AGENT_APP
    return Work(message, context, run, Fab(bundle.sha256, sent or bundle.content, {}))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install an app ``votes`` for the ClientApp's process; return its bundle, whose own code must never run."""
    package = tmp_path / "site" / "votes"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "client.py").write_text(CLIENT_APP, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(package.parent), str(ROOT)]))
    return make_bundle("raise SystemExit('the code of a bundle ran')\n")


@pytest.fixture
def approvals(tmp_path, installed):
    approvals = Approvals(tmp_path / "approved")
    approvals.add(installed)
    return approvals
