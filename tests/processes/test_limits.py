"""Work that hangs, eats memory, forks or dies is ended, and nothing of it is left."""

import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fedkd_flwr.errors import Code, ConfigError, DataError, FedkdError, LimitError, PayloadError
from fedkd_flwr.processes import limits
from fedkd_flwr.processes.limits import Limits, can_have_child, limits_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are kept on Linux")
SOON = 0.3  # seconds
ANY = Limits(seconds=20.0, memory=0)
SHORT = Limits(seconds=SOON, memory=0)


def _alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _mine():
    return limits._children(os.getpid())


@pytest.fixture(autouse=True)
def nothing_left():
    before = _mine()
    yield
    assert _mine() == before


def test_the_bytes_of_the_work_come_back_and_nothing_else_changes_here():
    seen = []
    data = bytes(range(256)) * 20_000  # more than a pipe holds
    assert ANY(lambda: (seen.append(1), data)[1]) == data
    assert ANY(lambda: b"") == b""
    assert seen == []


@pytest.mark.parametrize(
    "error", [DataError("too few", code=Code.NO_ROWS), PayloadError("bad"), FedkdError("odd"), LimitError("inner")]
)
def test_an_error_of_ours_comes_back_as_it_was(error):
    def work():
        raise error

    with pytest.raises(type(error)) as caught:
        ANY(work)
    assert (type(caught.value), caught.value.code, str(caught.value)) == (type(error), error.code, str(error))


@pytest.mark.parametrize("error", [ValueError("odd rows"), KeyboardInterrupt("odd rows"), SystemExit("odd rows")])
def test_any_other_error_is_internal_and_its_traceback_comes_back(error):
    def work():
        raise error

    with pytest.raises(FedkdError, match="odd rows") as caught:
        ANY(work)
    assert caught.value.code is Code.INTERNAL
    assert "in work" in str(caught.value)  # of the traceback


def _ignore_signals_and_sleep():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        time.sleep(1)


def _spin():
    while True:
        np.ones(10**6).sum()


@pytest.mark.parametrize("work", [_ignore_signals_and_sleep, _spin])
def test_work_that_hangs_is_ended_at_its_deadline(work):
    began = time.monotonic()
    with pytest.raises(
        LimitError, match=r"must end within 0.3 s \(round-limit-s\), got more time. It was ended"
    ) as caught:
        SHORT(work)
    assert SOON <= time.monotonic() - began < SOON + 10
    assert caught.value.code is Code.LIMIT_EXCEEDED


def test_a_piece_has_its_part_of_the_time_and_no_more():
    began = time.monotonic()
    with pytest.raises(LimitError, match=r"within 0.2 s"):
        Limits(seconds=20.0, memory=0)(_spin, parts=100)
    assert time.monotonic() - began < 10


def _resident_in_a_child() -> int:
    """Return what a child takes before it does anything: less than this process, whose libraries it has not touched."""
    return int(ANY(lambda: str(limits._resident(os.getpid())).encode()))


def test_work_that_eats_memory_is_ended():
    base = _resident_in_a_child()

    def hog():
        kept = []
        while True:
            kept.append(np.ones(2**18))  # 2 MB
            time.sleep(0.001)

    began = time.monotonic()
    with pytest.raises(LimitError, match=r"must take at most .* GB \(memory-limit-gb\), got .* GB"):
        Limits(seconds=20.0, memory=base + 100 * 2**20)(hog)
    assert time.monotonic() - began < 15


def test_memory_of_processes_that_the_work_starts_counts_too():
    code = "import time\nkept = bytearray(b'1' * 2**27)\ntime.sleep(60)"

    def work():
        subprocess.Popen([sys.executable, "-c", code])
        time.sleep(60)
        return b""

    base = _resident_in_a_child()
    with pytest.raises(LimitError, match="memory-limit-gb"):
        Limits(seconds=20.0, memory=base + 100 * 2**20)(work)


def test_work_that_starts_too_many_processes_is_ended(monkeypatch):
    monkeypatch.setattr(limits, "MAX_PROCESSES", 10)

    def bomb():
        for _ in range(12):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        time.sleep(60)
        return b""

    with pytest.raises(LimitError, match="number of processes"):
        ANY(bomb)


@pytest.mark.parametrize("slow", [True, False], ids=["at the deadline", "after an answer"])
def test_orphans_that_left_the_group_are_ended_too(tmp_path, slow):
    marker = tmp_path / "orphans"

    def work():
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    with marker.open("a") as file:
                        file.write(f"{os.getpid()}\n")
                    time.sleep(60)
                os._exit(0)
        while not marker.exists() or len(marker.read_text().split()) < 3:
            time.sleep(0.01)
        time.sleep(60 if slow else 0)
        return b"done"

    if slow:
        with pytest.raises(LimitError):
            Limits(seconds=0.6, memory=0)(work)
    else:
        assert ANY(work) == b"done"
    orphans = [int(word) for word in marker.read_text().split()]
    assert len(orphans) == 3
    assert not any(map(_alive, orphans))


def test_a_bomb_that_keeps_forking_is_ended_with_all_its_children(tmp_path):
    def bomb():
        while True:
            if os.fork() == 0:
                time.sleep(0.02)
            else:
                time.sleep(0.05)

    began = time.monotonic()
    with pytest.raises(LimitError):
        SHORT(bomb)
    assert time.monotonic() - began < SOON + 10


def _segfault():
    faulthandler.disable()  # pytest's, which would print every thread
    ctypes.string_at(0)
    return b""


@pytest.mark.parametrize(
    "work", [lambda: os._exit(0), lambda: os._exit(3), lambda: os.kill(os.getpid(), signal.SIGKILL), _segfault]
)
def test_a_process_that_dies_is_work_that_raised(work):
    with pytest.raises(FedkdError, match="ended without an answer") as caught:
        ANY(work)
    assert caught.value.code is Code.INTERNAL


def test_work_on_several_threads_does_not_wait_for_those_this_process_had():
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 2, 100)

    def work():
        return HistGradientBoostingClassifier(max_iter=2).fit(X, y).predict(X).tobytes()

    assert ANY(work) == work()  # this process has no such threads yet, and then it has
    assert ANY(work) == work()


def test_processes_that_were_there_before_live_on():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with pytest.raises(LimitError):
            SHORT(_spin)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_work_ends_with_the_process_that_asked_for_it(tmp_path):
    marker = tmp_path / "child"
    if (parent := os.fork()) == 0:
        try:
            ANY(lambda: (marker.write_text(str(os.getpid())), time.sleep(60))[1])
        finally:
            os._exit(1)
    while not (marker.exists() and marker.read_text()):
        time.sleep(0.02)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    child, until = int(marker.read_text()), time.monotonic() + 2
    while _alive(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _alive(child)


def test_three_quarters_of_the_machine_s_memory_are_the_default_and_0_seconds_no_deadline():
    found = limits_of(0.0, 0.0)
    assert found is not None
    assert found.seconds == 0
    assert 0 < found.memory <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    assert limits_of(0.0, 2.0) == Limits(seconds=0.0, memory=2_000_000_000)
    assert Limits(seconds=0.0, memory=0)(lambda: b"no deadline") == b"no deadline"


def test_where_nothing_can_be_forked_limits_are_refused_and_0_takes_part(monkeypatch):
    monkeypatch.delattr(os, "fork")
    with pytest.raises(ConfigError, match=r"must be 0 where a process cannot be forked, .* Set round-limit-s=0"):
        limits_of(3000.0, 0.0)
    assert limits_of(0.0, 0.0) is None


def test_a_process_that_has_used_a_gpu_has_no_child_that_could_use_it(monkeypatch):
    torch = pytest.importorskip("torch")
    assert can_have_child()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert not can_have_child()


def test_where_nobody_tells_memory_a_limit_of_it_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "_PROC", tmp_path / "proc")
    with pytest.raises(ConfigError, match="memory-limit-gb must be 0 on a system without /proc"):
        limits_of(3000.0, 1.0)
    assert limits_of(3000.0, 0.0) == Limits(seconds=3000.0, memory=0)
    assert limits_of(0.0, 0.0) is None
