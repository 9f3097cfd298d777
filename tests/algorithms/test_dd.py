"""Distributed distillation's settings and card; the average is tested in test_score_exchange.py."""

from __future__ import annotations

import pytest

from fedkd_flwr.algorithms.dd import CARD, DDConfig
from fedkd_flwr.algorithms.exchange import steps_on_pooled
from fedkd_flwr.errors import ConfigError


def test_its_own_setting_stands_in_its_section_and_steps_take_the_place_of_epochs():
    keys = DDConfig.keys()
    assert (keys["distillation_weight"], keys["steps_per_round"]) == ("paper.distillation-weight", "steps-per-round")
    assert "initial_epochs" not in keys
    assert (DDConfig().distillation_weight, DDConfig().steps_per_round) == (1.0, 200)


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        ({}, "mse-probs"),
        ({"answer_form": "argmax"}, "mse-probs"),
        ({"answer_form": "logits"}, "l1-logits"),
        ({"distillation_loss": "cross-entropy"}, "cross-entropy"),
    ],
)
def test_its_usual_distance_is_the_squared_one_of_probabilities(settings, loss):
    config = DDConfig(**settings)
    assert config.loss == loss
    assert config.resolved(num_public=60, num_classes=3, num_rounds=2).distillation_loss == loss


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps_per_round": 0}, "steps-per-round must be a whole number >= 1 and <= 100000, got 0"),
        ({"distillation_weight": float("nan")}, r"paper.distillation-weight must be a number >= 0, got nan"),
        ({"distillation_weight": -1.0}, r"paper.distillation-weight must be a number >= 0, got -1\.0"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        DDConfig(**settings)


def test_its_card():
    assert (CARD.name, CARD.sends, CARD.allowed, CARD.default_rounds) == ("dd", "scores", False, 10)
    assert CARD.train_pooled is steps_on_pooled
