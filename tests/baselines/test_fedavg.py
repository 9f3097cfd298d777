"""FedAvg: FedProx's rounds with mu = 0."""

import pytest
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
from rounds import run, same

pytest.importorskip("torch")


def test_it_is_fedprox_with_mu_zero_and_flower_s_own_strategy():
    fedavg, _ = run("fedavg", rounds=2)
    fedprox, _ = run("fedprox", rounds=2, proximal_mu=0.0)
    assert same(fedavg.model.arrays(), fedprox.model.arrays())
    assert type(fedavg.exchange.flower) is FlowerFedAvg
    assert fedavg.claims == []
