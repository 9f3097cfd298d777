"""What holds for all tests: one thread a process, and no time limit on a property's examples."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Small nets and small arrays gain nothing from threads, and several test processes beside each other lose by them.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

settings.register_profile("untimed", deadline=None)  # a busy machine is no counterexample
settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with Flower's processes, all in one worker: they wait more than they compute, and want free ports."""
    for item in items:
        if item.get_closest_marker("flower"):
            item.add_marker(pytest.mark.xdist_group("flower"))
    items.sort(key=lambda item: item.get_closest_marker("flower") is None)
