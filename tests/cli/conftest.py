"""The command as a test calls it: in this process, through `main`, with what it printed and its exit code."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from report.conftest import failed_record, make_record, make_sweep, no_pictures, sweep_claim

from fedkd_flwr.cli.main import main

__all__ = ["failed_record", "fedkd", "make_record", "make_sweep", "no_pictures", "sweep_claim"]


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
