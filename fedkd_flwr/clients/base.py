"""The NumPyClient that a party is to Flower: it hands what comes to a visit, and says whether it would answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.final_visit import take_in
from fedkd_flwr.clients.instruction import withholds
from fedkd_flwr.clients.party import Party
from fedkd_flwr.clients.refusals import code_of, obey, refusal, require_claim, signed
from fedkd_flwr.clients.visit import Visit, refused
from fedkd_flwr.errors import Code
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.records import Scalar

__all__ = ["PartyClient", "judge", "try_model"]

_LEAST_LEFT = 1e-3  # of a budget: where not even this is left, it is spent
_TRIED = 64  # public rows that a rehearsal tries a model on


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
        """Say before the first round whether this party would refuse it, by what no private row decides beside a claim.

        ``config``: the settings of the first round, without its arrays.
        """
        error, name = judge(self, config), self.party.name
        said = signed(name) if error is None else refused(self, error, config)
        return said if said.get("code") != Code.WITHHELD else signed(name)

    def rehearse(self, config: dict[str, Scalar]) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Answer as in a round, but with the lowest class for each public row, which nothing private has touched.

        Refuses as `ready`, and where this party's model fails on public rows with made-up labels; beside a claim it
        answers then, as it does in a round. Nothing is charged or kept.
        """
        said, party = self.ready(config), self.party
        if "code" in said:
            return [], 0, said
        try:
            try_model(party)
        except Exception as error:
            # its process is a copy of this one, with all private rows: a limit may be passed because of them
            code = code_of(error, withheld=withholds(party, self.card, config))
            told = refusal(party.name, error, code, simulated=party.simulated)
            if code != Code.WITHHELD:
                return [], 0, told
        nothing = np.zeros((1, party.public.num_rows), dtype=np.int16)
        labels = encode_labels(nothing, public=party.spec, server_round=1)
        return [labels], party.public.num_rows, {**said, "payload": "labels"}


def judge(exchange: PartyExchange, config: dict[str, Scalar]) -> Exception | None:
    """Return why this party would refuse the first round of a run with these settings, None where it would not.

    Nothing is learnt, charged or kept, and no note goes into the ledger.
    """
    try:
        visit = Visit(exchange)
        visit.open([], config, answered=False)
        party, instruction = visit.party, visit.instruction
        private = instruction.config.privacy == "party"
        require_claim(party, private)
        if party.fault is not None and not private:
            raise party.fault
        # unknown where an array names the rows to ask, which is not here: then only a spent budget is seen
        known = type(exchange).num_rows is PartyExchange.num_rows or getattr(instruction.config, "subset_rows", 0) > 0
        exact = exchange.charge(instruction) if private and known else None
        if exact is not None or not private:
            obey(exchange, instruction, exact, final=False)
        if private and party.budget.epsilon < math.inf:
            least = [(PureEvent(party.budget.epsilon * _LEAST_LEFT), 1)]
            party.ledger.ask(exact.events if exact is not None else least, party.budget)
    except Exception as error:
        return error
    return None


def try_model(party: Party) -> None:
    """Fit a party's model to a few public rows with made-up labels of all classes, and let it answer."""
    X, num_classes = party.public.X[:_TRIED], party.public.num_classes

    def work() -> bytes:
        party.model(seed=0).fit(X, np.arange(len(X)) % num_classes).predict(X)
        return b""

    work() if party.apart is None else party.apart(work)
