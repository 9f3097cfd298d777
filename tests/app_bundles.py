"""Small app bundles for tests."""

from __future__ import annotations

import io
import zipfile

from fedkd_flwr.silo.bundles import Bundle

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
