"""FedMD's settings and card; the average is tested in test_score_exchange.py."""

from __future__ import annotations

from fedkd_flwr.algorithms.card import PAPER
from fedkd_flwr.algorithms.fedmd import CARD, FedMDConfig
from fedkd_flwr.algorithms.score_exchange import DigestConfig, passes_on_pooled


def test_its_settings_are_shared_ones_and_stand_at_the_top():
    assert FedMDConfig.keys() == DigestConfig.keys()
    assert {key.rpartition(".")[0] for key in FedMDConfig.keys().values()} == {"", PAPER}
    assert FedMDConfig().loss == "cross-entropy"
    assert FedMDConfig(answer_form="logits").loss == "l1-logits"


def test_its_card_says_that_scores_leave_and_no_silo_lets_them_by_default():
    assert (CARD.name, CARD.sends, CARD.allowed, CARD.noise) == ("fedmd", "scores", False, ("party",))
    assert (CARD.one_shot, CARD.default_rounds) == (False, 20)
    assert CARD.train_pooled is passes_on_pooled
