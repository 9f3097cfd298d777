"""What the cards of all baselines say, and where their two sides are."""

import pytest

from fedkd_flwr.algorithms import cards
from fedkd_flwr.algorithms.exchange import epochs_on_pooled

BASELINES = {name: card for name, card in cards().items() if ".baselines." in card.strategy}

TREES = {"fedxgb-bagging", "pooled-forest"}
NO_NETS = {*TREES, "stacked"}


def test_these_are_the_baselines():
    nets = {"fedavg", "fedprox", "scaffold", "feddf", "pfnm", "dp-fedavg", "fedkt-prox"}
    assert set(BASELINES) == nets | NO_NETS


@pytest.mark.parametrize("name", BASELINES)
def test_its_card_says_that_more_than_labels_leaves_and_no_silo_lets_it_by_default(name):
    card, one_shot = BASELINES[name], name in ("pfnm", "pooled-forest", "stacked")
    sends = "trees" if name in TREES else "scores" if name == "stacked" else "weights"
    assert (card.name, card.title.lower(), card.sends, card.allowed) == (name, name, sends, False)
    assert (card.samples, card.one_shot, card.one_net) == (not one_shot, one_shot, name not in NO_NETS)
    assert card.noise == {"dp-fedavg": ("server",), "stacked": ("party",)}.get(name, ())
    assert card.roles == (("teacher", "student") if name == "fedkt-prox" else ())
    assert (card.train_pooled is epochs_on_pooled) is (name not in {"fedkt-prox", *NO_NETS})
