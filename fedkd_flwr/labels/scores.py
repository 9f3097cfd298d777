"""What class scores mean: floats (rows, classes) that are probabilities, logits, or estimates of shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain

__all__ = ["dequantise", "onto_simplex", "quantise"]


def onto_simplex(estimates: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the probabilities nearest to each row of finite numbers, by squared distance: float64, each row of sum 1.

    Source: Duchi et al., "Efficient projections onto the l1-ball" (ICML 2008), Figure 1. Unbiased estimates of class
    shares may be negative or above 1; a loss needs shares that are neither. Rows that are so already stay as they are.

    >>> onto_simplex(np.array([[0.2, 0.8], [1.5, -0.5], [0.9, 0.5]])).round(3).tolist()
    [[0.2, 0.8], [1.0, 0.0], [0.7, 0.3]]
    """
    exact = np.asarray(estimates, dtype=np.float64)
    if not np.isfinite(exact).all():
        raise DataError(explain("estimates", "be finite", "NaN or infinity"))
    # the nearest is the same for a row that is shifted, and a large lead would absorb the 1 that is subtracted below;
    # by a whole number, so that rows that are probabilities keep their bits
    exact = exact - np.floor(exact.max(axis=1, keepdims=True))
    down = -np.sort(-exact, axis=1)
    excess = np.cumsum(down, axis=1) - 1.0
    ranks = np.arange(1, exact.shape[1] + 1)
    kept = (down - excess / ranks > 0).sum(axis=1, keepdims=True)
    shift = np.take_along_axis(excess, kept - 1, axis=1) / kept
    return np.asarray(np.maximum(exact - shift, 0.0))


def quantise(probs: NDArray[np.floating], bits: int) -> NDArray[np.uint8]:
    """Return probabilities as whole numbers, uint8, of steps of ``1 / (2^bits - 1)``; each row sums to ``2^bits - 1``.

    Source: Sattler et al., "CFD: Communication-efficient federated distillation via soft-label quantization and delta
    coding" (IEEE TNSE 2022), constrained quantisation: the nearest vector of such steps, found by largest remainders.
    With one bit (of 1 to 8) it is the one-hot of the largest probability. Equal remainders go to the lower class.

    >>> quantise(np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]), 2).tolist()
    [[2, 1, 0], [1, 0, 2]]
    """
    steps = 2**bits - 1
    exact = np.asarray(probs, dtype=np.float64) * steps
    # a sum of slightly more than 1 must not give more steps than there are
    whole = np.floor(np.minimum(exact, steps) + 1e-9)
    left = steps - whole.sum(axis=1, keepdims=True)
    # the first `left` classes by remainder get one step more; a surplus, which only rounding makes, comes off the last
    rank = np.argsort(np.argsort(-(exact - whole), axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(whole + (rank < left), dtype=np.uint8)


def dequantise(steps: NDArray[np.integer], bits: int) -> NDArray[np.float32]:
    """Return what `quantise` made as probabilities again: float32, each row of sum 1.

    >>> dequantise(np.array([[3, 0], [0, 3]], np.uint8), 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.asarray(steps / (2**bits - 1), dtype=np.float32)
