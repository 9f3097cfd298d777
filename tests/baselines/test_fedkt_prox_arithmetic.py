"""FedKT-Prox's settings: those of both parts in one, and each part's own again."""

import pytest

from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.baselines.cards import FEDKT_PROX as CARD
from fedkd_flwr.baselines.cards import FedKTProxConfig, FedProxConfig
from fedkd_flwr.errors import ConfigError

SIZES = {"num_public": 60, "num_classes": 3}


def test_each_setting_stands_where_its_own_algorithm_has_it():
    assert FedKTProxConfig.keys() == {**FedKTConfig.keys(), **FedProxConfig.keys()}
    assert FedKTProxConfig.keys()["proximal_mu"] == "fedprox.proximal-mu"
    assert FedKTProxConfig.keys()["voting"] == "paper.voting"


def test_the_parts_are_told_apart():
    config = FedKTProxConfig(
        seed=3,
        node_deadline_s=9.0,
        ties="lowest",
        students_per_party=3,
        voting="plain",
        local_epochs=2,
        proximal_mu=0.5,
    )
    assert config.first == FedKTConfig(
        seed=3, node_deadline_s=9.0, ties="lowest", students_per_party=3, voting="plain", party_models=False
    )
    assert type(config.first) is FedKTConfig


def test_alone_a_net_trains_for_as_many_epochs_as_fedprox_s_rounds():
    config = FedKTProxConfig(local_epochs=3)
    found = config.resolved(**SIZES, num_rounds=4)
    assert found == FedKTProxConfig(local_epochs=3, solo_epochs=12)
    assert FedKTProxConfig(local_epochs=3, solo_epochs=2).resolved(**SIZES, num_rounds=4).solo_epochs == 2


def test_on_pooled_rows_fedprox_s_rounds_are_all_but_the_first():
    class Model:
        def train_epochs(self, X, y, *, epochs):
            return (X, y, epochs)

    assert CARD.train_pooled(Model(), "X", "y", config=FedKTProxConfig(local_epochs=3), rounds=5, num_public=9) == (
        "X",
        "y",
        12,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"level": "L1", "noise": "laplace", "gamma": 0.1},
            "fedkt.level must be L0: FedProx's weights carry no noise, got 'L1'. Drop it, or use fedkt.",
        ),
        (
            {"level": "L2", "noise": "gaussian", "sigma": 1.0},
            "fedkt.level must be L0: FedProx's weights carry no noise",
        ),
        (
            {"party_models": False},
            "paper.party-models must keep its default: parties get FedProx's net, got False. It would",
        ),
        (
            {"noise": "laplace", "gamma": 0.1},
            "noise must be none: FedProx's weights carry no noise, got 'laplace'",
        ),
        ({"proximal_mu": -1.0}, "fedprox.proximal-mu must be a number >= 0, got -1.0"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        FedKTProxConfig(**settings)
    assert message in str(caught.value)
