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


def test_it_is_one_round_of_labels_that_silos_take_part_in_by_default():
    assert (CARD.one_shot, CARD.default_rounds, CARD.sends, CARD.allowed) == (True, 1, "labels", True)
