"""PATE's settings: where its noise is. The vote is tested in test_one_shot_vote.py."""

from __future__ import annotations

import pytest

from fedkd_flwr.algorithms.one_shot_vote import OneShotVoteConfig
from fedkd_flwr.algorithms.pate import CARD, PATEConfig


@pytest.mark.parametrize(
    ("settings", "privacy"),
    [({}, "none"), ({"noise": "laplace", "gamma": 1.0}, "server"), ({"noise": "gaussian", "epsilon": 1.0}, "server")],
)
def test_noise_is_at_the_server_if_anywhere(settings, privacy):
    assert PATEConfig(**settings).privacy == privacy


def test_it_has_the_vote_s_settings_and_none_of_its_own():
    assert PATEConfig.keys() == OneShotVoteConfig.keys()
    assert (PATEConfig().voters_rule, PATEConfig().votes_per_party) == ("half", 1)


def test_its_card():
    assert (CARD.name, CARD.config, CARD.sends, CARD.one_shot, CARD.default_rounds) == (
        "pate",
        PATEConfig,
        "labels",
        1,
        1,
    )
    assert (CARD.noise, CARD.roles, CARD.allowed) == (("server",), ("final",), True)
