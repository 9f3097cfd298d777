"""The NumPyClient that a party is to Flower: it hands what comes to a visit, and says nothing of its own."""

from __future__ import annotations

from typing import Any

from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedkd_flwr.clients import readiness
from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.final_visit import take_in
from fedkd_flwr.clients.visit import Visit
from fedkd_flwr.wire.records import Scalar

__all__ = ["PartyClient"]


class PartyClient(PartyExchange, NumPyClient):
    """A party in an exchange. Subclasses say what it learns, `learn` and `finish`, and what its replies cost, `charge`.

    Parameters
    ----------
    party : Party
        What it holds and allows.
    noise_rng : Generator, optional
        For tests: seeded noise, and a seeded subset, protect nothing.
    """

    def fit(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Answer one round: labels, the number of public rows labelled, and metrics if they may leave."""
        return Visit(self).answer(parameters, config)

    def evaluate(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[float, int, dict[str, Scalar]]:
        """Take the final labels in; return the zero-one loss and metrics if they may leave."""
        return take_in(self, parameters, config)

    def ready(self, config: dict[str, Scalar]) -> dict[str, Scalar]:
        """Say before the first round whether this party would refuse it (`fedkd_flwr.clients.readiness.ready`)."""
        return readiness.ready(self, config)

    def rehearse(self, config: dict[str, Scalar]) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Answer as in a round, without a private row (`fedkd_flwr.clients.readiness.rehearse`)."""
        return readiness.rehearse(self, config)
