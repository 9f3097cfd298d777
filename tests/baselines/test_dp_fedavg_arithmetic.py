"""DP-FedAvg's settings: the noise is given, or found from epsilon."""

import pytest

from fedkd_flwr.baselines.cards import DP_FEDAVG as CARD
from fedkd_flwr.baselines.cards import DPFedAvgConfig
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise.updates import ClippedSum


@pytest.mark.parametrize("rounds", [1, 30])
def test_the_noise_found_costs_what_was_asked_and_hardly_less(rounds):
    mechanism = DPFedAvgConfig(epsilon=2.0, delta=1e-6).mechanism(rounds)
    cost = Accountant().compose(mechanism.dp_event(), rounds).epsilon(1e-6)
    assert 1.98 < cost <= 2.0


def test_noise_is_not_given_twice():
    with pytest.raises(ConfigError, match=r"paper.noise-multiplier must be auto where epsilon is 2\.0"):
        DPFedAvgConfig(epsilon=2.0, noise_multiplier=3.0)


def test_it_always_adds_noise_at_the_server_and_parties_are_not_told_of_it():
    assert DPFedAvgConfig().privacy == "server"
    assert CARD.noise == ("server",)
    assert set(DPFedAvgConfig().told()) == {"seed", "local-epochs", "solo-epochs"}


def test_noise_that_is_given_is_that_of_every_round_with_the_clipping_norm_that_is_given():
    for rounds in (1, 30):
        assert DPFedAvgConfig(clip=0.25, noise_multiplier=3.0).mechanism(rounds) == ClippedSum(
            clip=0.25, noise_multiplier=3.0
        )
