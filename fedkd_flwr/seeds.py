"""Random streams derived from the one seed of a run.

The name of a stream says who draws from it (a party or the server), in which round, and for what purpose. So neither
the order of replies nor parallel execution can change a result. Privacy noise is never drawn from these streams.
"""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["derive_rng", "derive_seed"]


def derive_seed(seed: int, *names: str | int) -> int:
    """Return the seed, in [0, 2**32), of the stream that ``names`` identify in a run: who draws, when and what for.

    The text ``"1"`` and the number ``1`` name different streams.

    >>> derive_seed(1, "party-000", 2), derive_seed(1, "party-001", 2)
    (3888871119, 2031749764)
    """
    text = "\x1f".join(f"{type(name).__name__}:{name}" for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def derive_rng(seed: int, *names: str | int) -> np.random.Generator:
    """Return a generator for the stream that ``names`` identify; parameters as in `derive_seed`."""
    return np.random.default_rng(derive_seed(seed, *names))
