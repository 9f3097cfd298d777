"""Parties are forked from a process that has the rows of their run; where it cannot have them, they load them."""

import os
import subprocess
import sys
from multiprocessing import forkserver

import pytest

from fedkd_flwr.simulation.starter import SETTINGS, party_starter

RUN = {"dataset": "synthetic(rows=60)", "seed": 3, "model": "knn"}


def _loaded(queue):
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.simulation import rows

    before = rows._pool.cache_info().currsize
    rows.simulated_pool(parse_run_config(rows.counted(RUN).as_scalars()))  # as a party reads it of a message
    queue.put((before, rows._pool.cache_info().hits, SETTINGS in os.environ))


@pytest.mark.parametrize(("dataset", "found"), [(RUN["dataset"], (1, 1, False)), ("nothing", (0, 0, False))])
def test_a_party_has_its_runs_rows_unless_they_cannot_be_read(dataset, found):
    forkserver._forkserver._stop()
    starter = party_starter({**RUN, "dataset": dataset})
    assert SETTINGS not in os.environ
    queue = starter.SimpleQueue()
    process = starter.Process(target=_loaded, args=(queue,))
    process.start()
    assert queue.get() == found
    process.join()
    forkserver._forkserver._stop()  # the next test's parties are of another run


def test_in_any_other_process_it_changes_nothing():
    code = "import signal, sys, fedkd_flwr.simulation.preload as p; sys.exit(3 + (p.settings is not None))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 3
