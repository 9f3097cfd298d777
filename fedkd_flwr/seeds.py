"""One seed per run; every other stream is derived from it.

A stream is named by who draws (a party, the server), when (a round) and what for, so neither the order of
replies nor parallelism can change a result. Privacy noise never comes from here.
"""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["derive_rng", "derive_seed"]


def derive_seed(seed: int, *names: str | int) -> int:
    """Return a 32-bit seed for the stream called ``names`` in the run seeded with ``seed``.

    >>> derive_seed(1, "party-000", 2) == derive_seed(1, "party-000", 2)
    True
    >>> derive_seed(1, "party-000", 2) == derive_seed(1, "party-001", 2)
    False
    """
    text = "\x1f".join(f"{type(name).__name__}:{name}" for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def derive_rng(seed: int, *names: str | int) -> np.random.Generator:
    """Return a generator for the stream called ``names`` in the run seeded with ``seed``."""
    return np.random.default_rng(derive_seed(seed, *names))
