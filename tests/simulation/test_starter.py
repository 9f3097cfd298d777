"""What starts the processes of parties: their one core is not the command's, and they share the run's rows."""

import os
from multiprocessing import forkserver

import pytest

from fedkd_flwr.simulation.starter import SETTINGS, party_starter


@pytest.fixture(autouse=True)
def own_process():
    """Have the tests' parties forked from a process of their own, and those of later tests from another."""
    forkserver._forkserver._stop()
    yield
    forkserver._forkserver._stop()


def _seen(queue):
    import calendar

    queue.put((os.environ.get("OMP_NUM_THREADS"), hasattr(calendar, "month")))


def test_a_party_computes_on_one_core_and_the_command_on_all_and_no_module_here_shadows_a_library(
    monkeypatch, tmp_path
):
    (tmp_path / "calendar.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("fedkd_flwr.simulation.starter._PRELOAD", ["calendar"])  # other imports take seconds
    starter = party_starter()
    assert "OMP_NUM_THREADS" not in os.environ
    assert _answer(starter, _seen) == ("1", True)


def _answer(starter, ask, *about):
    queue = starter.SimpleQueue()
    process = starter.Process(target=ask, args=(queue, *about))
    process.start()
    found = queue.get()
    process.join()
    return found


def _loaded(queue, values):
    from fedkd_flwr.settings.config import parse_run_config
    from fedkd_flwr.simulation import rows

    before = rows._pool.cache_info().currsize
    rows.simulated_pool(parse_run_config(rows.counted(values).as_scalars()))  # as a party reads it of a message
    queue.put((before, rows._pool.cache_info().hits, SETTINGS in os.environ))


@pytest.mark.parametrize("more", [{}, {"dataset": "no such set"}], ids=["loaded", "unreadable"])
def test_parties_have_the_rows_of_the_run_before_they_are_forked(more, monkeypatch):
    values = {"dataset": "synthetic(rows=60)", "seed": 3, "model": "knn"}
    starter = party_starter({**values, **more})
    assert _answer(starter, _loaded, values) == ((0, 0, False) if more else (1, 1, False))
    assert SETTINGS not in os.environ
