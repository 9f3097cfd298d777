"""FedXGB-Bagging: in each round every party boosts the common model by one step, and all new trees count.

The arithmetic of Flower's own ``FedXgbBagging`` and its XGBoost example (`flwr.serverapp.strategy`): ``leaves="mean"``
is the example's setting that divides the learning rate by the number of parties, "sum" its other one. A party's step is
computed with its own XGBoost; ``num-rounds`` stands for its ``n_estimators``.

Departures. Every party starts from even odds: in Flower's example XGBoost sets ``base_score`` from the labels of
whichever party answers first. Parties send splits and leaves, not XGBoost's JSON, which holds gains and hessian sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.baselines.cards import FEDXGB_BAGGING as CARD
from fedkd_flwr.baselines.cards import FedXGBBaggingConfig
from fedkd_flwr.baselines.tree_exchange import TreeClient, TreeExchange
from fedkd_flwr.baselines.trees import Trees, cut, leaf_values, of_booster, outputs_of, together
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.errors import ConfigError, explain, import_extra
from fedkd_flwr.wire.label_codec import digests

__all__ = ["FedXGBBaggingClient", "FedXGBBaggingExchange", "aggregate"]


def aggregate(before: Trees, parts: Sequence[Trees], *, config: FedXGBBaggingConfig) -> Trees:
    """Return the trees after a round: those before it, empty before the first, and each party's new ones."""
    new = together(parts)
    if config.leaves == "mean":
        new["values"] = (new["values"] / len(parts)).astype(np.float32)
    return together([before, new]) if before else new


class FedXGBBaggingExchange(TreeExchange):
    """Boosting by trees of all parties. Parameters as in `TreeExchange`."""

    card = CARD
    config: FedXGBBaggingConfig
    boosted = True

    def combine(self, parts: Sequence[Trees]) -> Trees:
        """Put the new trees behind the others."""
        return aggregate(self.trees, parts, config=self.config)


class FedXGBBaggingClient(TreeClient):
    """Sends the trees of one boosting step. Parameters as in `PartyClient`; its ``model`` must be XGBoost's."""

    card = CARD
    boosted = True

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse another model than XGBoost's."""
        if (seen := type(self.party.model(seed=0).template).__name__) != "XGBClassifier":
            raise ConfigError(explain("model", "be XGBoost's for fedxgb-bagging", seen, "Set model=xgboost."))

    def learn(self, instruction: Instruction) -> Answer:
        """Boost the server's model by one step on this party's rows."""
        xgboost = import_extra("xgboost", "xgboost")
        party, classes = self.party, self.party.public.num_classes
        margins, kept = self._margins(instruction)
        params = party.model(seed=instruction.seed("train", instruction.server_round)).template.get_xgb_params()
        params = {name: value for name, value in params.items() if value is not None}
        several = {"objective": "multi:softprob", "num_class": classes}
        params |= {"base_score": 0.5, **({"objective": "binary:logistic"} if classes == 2 else several)}
        rows = xgboost.DMatrix(party.X, party.y, base_margin=margins)
        return Answer(values=of_booster(xgboost.train(params, rows, num_boost_round=1)), **kept)

    def _margins(self, instruction: Instruction) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Return what the server's trees say of this party's rows, and what to keep: only new trees are looked up."""
        party, outputs = self.party, outputs_of(self.party.public.num_classes)
        margins, count, saved = np.zeros((len(party.y), outputs)), 0, instruction.saved
        if not instruction.arrays:
            return margins, {}
        trees = self.received(instruction)
        if saved is not None and "trees" in saved.meta and saved.meta["data"] == party.rows_digest:
            known = cut(trees, saved.meta["trees"])[0]
            if digests(known.values()) == saved.meta["digests"]:  # else of another course of this run
                count, margins = saved.meta["trees"], saved.arrays["kept.margins"]
        margins = margins + leaf_values(cut(trees, count)[1], party.X, outputs=outputs)
        meta = {"trees": len(trees["sizes"]), "digests": digests(trees.values())}
        return margins, {"kept": {"margins": margins}, "meta": meta}
