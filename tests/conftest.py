"""What holds for all tests: one thread a process, and no time limit on a property's examples."""

from __future__ import annotations

import os

from hypothesis import settings

# Small nets and small arrays gain nothing from threads, and several test processes beside each other lose by them.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

settings.register_profile("untimed", deadline=None)  # a busy machine is no counterexample
settings.load_profile("untimed")
