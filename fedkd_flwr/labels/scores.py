"""What class scores mean: floats (rows, classes) that are probabilities, logits, or estimates of shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain

__all__ = ["onto_simplex"]


def onto_simplex(estimates: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the probabilities nearest to each row, by squared distance.

    Source: Duchi et al., "Efficient projections onto the l1-ball" (ICML 2008), Figure 1. Unbiased estimates of class
    shares may be negative or above 1; a loss needs shares that are neither.

    Parameters
    ----------
    estimates : ndarray of shape (num_rows, num_classes)
        Finite numbers.

    Returns
    -------
    ndarray of the same shape, float64
        Each row >= 0 and of sum 1; rows that are so already stay as they are.

    Examples
    --------
    >>> onto_simplex(np.array([[0.2, 0.8], [1.5, -0.5], [0.9, 0.5]])).round(3).tolist()
    [[0.2, 0.8], [1.0, 0.0], [0.7, 0.3]]
    """
    exact = np.asarray(estimates, dtype=np.float64)
    if not np.isfinite(exact).all():
        raise DataError(explain("estimates", "be finite", "NaN or infinity"))
    down = -np.sort(-exact, axis=1)
    excess = np.cumsum(down, axis=1) - 1.0
    ranks = np.arange(1, exact.shape[1] + 1)
    kept = (down - excess / ranks > 0).sum(axis=1, keepdims=True)
    shift = np.take_along_axis(excess, kept - 1, axis=1) / kept
    nearest: NDArray[np.float64] = np.maximum(exact - shift, 0.0)
    return nearest
