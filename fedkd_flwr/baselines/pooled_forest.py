"""Pooled forest: one round, after which everybody has the trees of all parties' forests.

Each tree counts alike, whatever the number of rows behind it. Forests of scikit-learn alone: ``random-forest`` and
``extra-trees``. A party with one class sends as many trees that say this class.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedkd_flwr.baselines.cards import POOLED_FOREST as CARD
from fedkd_flwr.baselines.tree_exchange import TreeClient, TreeExchange
from fedkd_flwr.baselines.trees import Trees, of_forest, together
from fedkd_flwr.clients.answer import Answer
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.errors import ConfigError, explain

__all__ = ["PooledForestClient", "PooledForestExchange"]


class PooledForestExchange(TreeExchange):
    """The trees of all forests. Parameters as in `TreeExchange`."""

    card = CARD
    boosted = False

    def combine(self, parts: Sequence[Trees]) -> Trees:
        """Return the trees of all parties."""
        return together(parts)


class PooledForestClient(TreeClient):
    """Sends the trees of its forest. Parameters as in `PartyClient`; its ``model`` must be a forest."""

    card = CARD
    boosted = False

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse a model that is no forest of scikit-learn's."""
        if (seen := type(self.party.model(seed=0).template).__name__) not in (
            "RandomForestClassifier",
            "ExtraTreesClassifier",
        ):
            way_out = "Set model=random-forest or extra-trees."
            raise ConfigError(explain("model", "be a forest for pooled-forest", seen, way_out))

    def learn(self, instruction: Instruction) -> Answer:
        """Grow a forest, and return its trees."""
        party = self.party
        model = party.model(seed=instruction.seed("model")).fit(party.X, party.y)
        return Answer(values=of_forest(model, num_trees=model.template.n_estimators))
