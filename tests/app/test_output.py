"""The folder of results, and whether a party's state may be written there."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from fedkd_flwr.app.client_app import client_of
from fedkd_flwr.app.output import require_writable
from fedkd_flwr.errors import Code, DataError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="folders are read-only to another user")


@pytest.fixture
def read_only():
    """A folder that only another user than the one below may write to."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "egress").mkdir(mode=0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def _as_another_user(folder, work):
    """Do the work as a user who may not write into the folder; return what it returns, as text."""
    for one in (folder / "egress", folder):
        one.chmod(0o555)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            os.write(write, str(work()).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read().decode()


def _refused(folder):
    try:
        require_writable(folder)
    except DataError as error:
        return f"{error.code} {error}"
    return "passes"


def test_a_state_folder_is_made_for_its_owner_alone(tmp_path):
    require_writable(tmp_path / "new" / "state")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "new", tmp_path / "new" / "state")] == [0o700] * 2
    assert list((tmp_path / "new" / "state").iterdir()) == []


def test_a_state_folder_that_cannot_be_written_is_named_with_its_reason(read_only):
    told = _as_another_user(read_only, lambda: _refused(read_only))
    assert told.startswith(f"{Code.STATE_READ_ONLY} state-dir {read_only} must be writable, got Permission denied")


def test_a_party_says_before_the_first_round_that_its_state_folder_cannot_be_written(read_only):
    """It was ready, and then withheld each round: an error while it wrote could have been a private row's doing."""
    node = {"party": "a", "data-path": "no.csv", "public-path": "no.csv", "state-dir": str(read_only)}
    node["require-privacy"] = True

    def ready():
        client = client_of(Context(7, 1, node, RecordDict(), {"algorithm": "fedct"}))
        return client.ready({"privacy": "party"})["code"], client.fit([], {"privacy": "party"})[2]["code"]

    assert _as_another_user(read_only, ready) == str((Code.STATE_READ_ONLY.value,) * 2)


def test_a_full_disk_passes_because_models_of_private_rows_may_have_filled_it(tmp_path, monkeypatch):
    def full(*, dir):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert _refused(tmp_path) == "passes"
