"""PATE's settings; the vote is tested in test_one_shot_vote.py."""

from fedkd_flwr.algorithms.pate import CARD, PATEConfig


def test_noise_is_at_the_server_if_anywhere():
    assert PATEConfig().privacy == "none"
    assert PATEConfig(noise="gaussian", noise_strength=9.0).privacy == "server"
    assert CARD.noise == ("server",)
