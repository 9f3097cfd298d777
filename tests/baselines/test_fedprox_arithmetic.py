"""FedProx's settings; Flower's own strategy takes the mean."""

import pytest

from fedkd_flwr.baselines.cards import FedProxConfig
from fedkd_flwr.errors import ConfigError


def test_its_settings_and_where_they_stand():
    assert FedProxConfig.keys() == {
        "seed": "seed",
        "nodes_stable_s": "nodes-stable-s",
        "node_deadline_s": "node-deadline-s",
        "local_epochs": "local-epochs",
        "solo_epochs": "paper.solo-epochs",
        "proximal_mu": "fedprox.proximal-mu",
    }
    assert FedProxConfig().told() == {"seed": 1, "local-epochs": 5, "solo-epochs": 0, "proximal-mu": 0.1}
    assert FedProxConfig(proximal_mu=0).proximal_mu == 0.0  # FedAvg
    assert FedProxConfig().privacy == "none"


@pytest.mark.parametrize("mu", [-0.1, float("nan"), float("inf"), True, "much"])
def test_a_mu_that_is_none_is_refused(mu):
    with pytest.raises(ConfigError, match=rf"fedprox\.proximal-mu must be a number >= 0, got {mu!r}"):
        FedProxConfig(proximal_mu=mu)
