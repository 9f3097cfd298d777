"""The command as a test calls it: in this process, through `main`, with what it printed and its exit code."""

import json
from typing import NamedTuple

import pytest
from report.conftest import failed, failed_record, make_record, no_pictures, sample

from fedkd_flwr.cli.main import main

__all__ = ["failed_record", "fedkd", "make_record", "no_pictures"]


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def fedkd(capfd):
    """Return a caller of the command ``fedkd``."""

    def call(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
        out, err = capfd.readouterr()
        return Done(ended.value.code, out, err)

    return call


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    """Return a folder with a good run, a failed one on other data, broken ones, and files of other kinds."""
    root = tmp_path_factory.mktemp("places")

    def write(run_id, text):
        folder = root / "runs" / run_id
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(text, encoding="utf-8")

    good = sample(3, 2)
    write("100", good.to_json())
    other = sample(3, 2)
    other.run_id, other.config["dataset"] = "101", "adult"
    write("101", other.to_json())
    write("102", failed().to_json())
    write("200", good.to_json()[:200])
    write("201", "[]")
    write("202", json.dumps(good.as_dict() | {"schema_version": 1}))
    write("203", json.dumps(good.as_dict() | {"seed": "x"}))
    (root / "runs" / "204").mkdir()
    (root / "runs" / "205" / "record.json").mkdir(parents=True)
    (root / "file.txt").write_text("text", encoding="utf-8")
    (root / "bytes.bin").write_bytes(b"\xff\xfe\x00\x80" * 9)
    (root / "broken.toml").write_text("a = = 1\n", encoding="utf-8")
    (root / "empty").mkdir()
    (root / "ledger.sqlite3").write_text("{", encoding="utf-8")
    return root
