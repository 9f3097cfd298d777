"""What starts the processes of parties: their one core is not the command's."""

import os
from multiprocessing import forkserver

from fedkd_flwr.simulation.starter import party_starter


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
    begun = forkserver._forkserver._forkserver_pid is None
    starter = party_starter()
    assert "OMP_NUM_THREADS" not in os.environ
    queue = starter.SimpleQueue()
    process = starter.Process(target=_seen, args=(queue,))
    process.start()
    assert queue.get() == ("1", True)
    process.join()
    if begun:
        forkserver._forkserver._stop()  # the next test's parties have what they need
