"""PATE's settings; the vote is tested in test_one_shot_vote.py."""

import pytest

from fedkd_flwr.algorithms.pate import CARD, PATEConfig


@pytest.mark.parametrize(
    "noise", [{"noise": "laplace", "noise_strength": 0.1}, {"noise": "gaussian", "noise_strength": 9.0}]
)
def test_noise_is_at_the_server_if_anywhere(noise):
    assert PATEConfig().privacy == "none"
    assert PATEConfig(**noise).privacy == "server"
    assert CARD.noise == ("server",)
