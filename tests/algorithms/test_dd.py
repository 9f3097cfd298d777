"""Distributed distillation's settings and card; the average is tested in test_score_exchange.py."""

import pytest

from fedkd_flwr.algorithms.dd import DDConfig


@pytest.mark.parametrize(
    ("settings", "loss"),
    [({}, "mse-probs"), ({"answer_form": "argmax"}, "mse-probs"), ({"answer_form": "logits"}, "l1-logits")],
)
def test_its_usual_distance_is_the_squared_one_of_probabilities(settings, loss):
    assert DDConfig(**settings).loss == loss
    assert DDConfig.from_told(DDConfig(**settings).told()).loss == loss
