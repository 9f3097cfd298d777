"""What holds for all tests: one thread a process, and no time limit on a property's examples."""

import gc
import os
from typing import Any

# Small nets and small arrays gain nothing from threads, and several test processes beside each other lose by them.
# Before NumPy is imported, which reads this once.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from fedkd_flwr.models.payloads import import_skops

# Imports make a million objects that live to the end: the collector, which looks through them all for garbage again and
# again, and in each fork, is on as soon as tests begin, and leaves these out.
gc.disable()

# No test outlives a power cut; those that count the calls patch this themselves. See also `as_on_a_disk`.
os.fsync = lambda handle: None

settings.register_profile("untimed", deadline=None, max_examples=40)  # a busy machine is no counterexample
settings.load_profile("untimed")


@pytest.fixture
def in_this_process(monkeypatch):
    """Let silos learn without a child process, as where a system knows no limits: the forks take half of the time."""
    monkeypatch.setattr("fedkd_flwr.app.assembly.limits_of", lambda seconds, gigabytes: None)


@pytest.fixture
def no_page(monkeypatch):
    """Let no run draw its page, which takes longer than a small run."""
    for room in ("audit.run", "report.page"):
        monkeypatch.setattr(f"fedkd_flwr.{room}.write_page", lambda record, path: path)


@pytest.fixture(autouse=True, scope="session")
def sync() -> str:
    """Import what writes a model: a party's own process is a fork of this one; ledgers wait for no disk."""
    from fedkd_flwr.stores import book

    import_skops()
    before, book.SYNC = book.SYNC, "OFF"
    return before


@pytest.fixture
def as_on_a_disk(monkeypatch, sync):
    """Write ledgers as outside of tests."""
    monkeypatch.setattr("fedkd_flwr.stores.book.SYNC", sync)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, of what tests make, and seldom."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with what starts Flower's processes: it takes longest."""
    items.sort(key=lambda item: item.get_closest_marker("flower") is None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give each worker one file at a time, and all that starts Flower's processes to one worker."""
    return _ByFile(config, log)


class _ByFile(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return "flower" if file.startswith("tests/flower/") else file
