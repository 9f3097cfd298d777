"""SCAFFOLD: control variates that correct each local step for what a party's rows are unlike the others'; its card.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020 (arXiv 1910.06378),
Algorithm 1 with option II, both learning rates of the server 1. The whole round is told in
`fedkd_flwr.strategies.scaffold`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.algorithms.exchange import LocalEpochsConfig, epochs_on_pooled

__all__ = ["CARD", "Arrays", "SCAFFOLDConfig", "aggregate", "next_control"]

Arrays = Sequence[NDArray[np.floating]]
"""One for each array of a net."""


class SCAFFOLDConfig(LocalEpochsConfig):
    """Settings of SCAFFOLD."""


def next_control(
    control: Arrays, server_control: Arrays, before: Arrays, after: Arrays, *, steps: int, rate: float
) -> list[NDArray[np.float32]]:
    """Return a party's next control variate, c_i+ = c_i - c + (x - y) / (K lr).

    It is the mean gradient over the party's local steps, which Option II has at no cost.

    Parameters
    ----------
    control, server_control : sequence of ndarray
        c_i and c.
    before, after : sequence of ndarray
        The weights that came, x, and those after the local steps, y.
    steps : int
        K, 1 or more.
    rate : float
        The learning rate of a local step, > 0.

    Examples
    --------
    Two steps of 0.5 along the gradient 2 - c_i + c = 2 - 1 + 3 lead from 10 to 6; what comes out is that gradient of 2:

    >>> next_control([np.array([1.0])], [np.array([3.0])], [np.array([10.0])], [np.array([6.0])], steps=2, rate=0.5)
    [array([2.], dtype=float32)]
    """
    found = []
    for mine, servers, x, y in zip(control, server_control, before, after, strict=True):
        moved = (np.asarray(x, dtype=np.float64) - y) / (steps * rate)
        found.append((moved + mine - servers).astype(np.float32))
    return found


def aggregate(
    weights: Arrays, server_control: Arrays, replies: Sequence[tuple[Arrays, Arrays]], *, num_parties: int
) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
    """Return the next weights, x + mean(y_i - x), and the next control, c + (|S| / N) mean(c_i+ - c_i).

    Every party counts alike, however many rows it has, as in Algorithm 1.

    Parameters
    ----------
    weights, server_control : sequence of ndarray
        x and c.
    replies : sequence of (y_i, c_i+ - c_i)
        Of the parties that answered, S; at least one.
    num_parties : int
        N, all parties of the federation.

    Examples
    --------
    Two of four parties moved 1.0 to 2.0 and to 4.0; their controls changed by 1.0 and by 3.0:

    >>> one = lambda value: [np.array([value], dtype=np.float32)]
    >>> aggregate(one(1.0), one(0.5), [(one(2.0), one(1.0)), (one(4.0), one(3.0))], num_parties=4)
    ([array([3.], dtype=float32)], [array([1.5], dtype=float32)])
    """
    share = len(replies) / num_parties

    def mean(which: int, array: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.mean([np.asarray(reply[which][array], np.float64) for reply in replies], axis=0)
        return found

    moved = [mean(0, k).astype(np.float32) for k in range(len(weights))]
    control = [(c + share * mean(1, k)).astype(np.float32) for k, c in enumerate(server_control)]
    return moved, control


CARD = Card(
    name="scaffold",
    title="SCAFFOLD",
    paper='Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020',
    config=SCAFFOLDConfig,
    strategy="fedkd_flwr.strategies.scaffold:SCAFFOLD",
    client="fedkd_flwr.clients.scaffold:SCAFFOLDClient",
    sends="weights",
    default_rounds=10,
    samples=True,
    train_pooled=epochs_on_pooled,
)
