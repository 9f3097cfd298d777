"""The server's side of each algorithm: subclasses of Flower's Strategy."""

from fedkd_flwr.strategies.base import ExchangeConfig, ExchangeStrategy
from fedkd_flwr.strategies.dd import DD, DDConfig
from fedkd_flwr.strategies.fedct import FedCT, FedCTConfig
from fedkd_flwr.strategies.fedkt import FedKT, FedKTConfig
from fedkd_flwr.strategies.fedmd import FedMD, FedMDConfig
from fedkd_flwr.strategies.fedprox import FedKTProx, FedProx, FedProxConfig, PartyWeights
from fedkd_flwr.strategies.label_exchange import LabelStrategy, PartyLabels
from fedkd_flwr.strategies.one_shot_vote import ServerModelConfig, ServerModelStrategy
from fedkd_flwr.strategies.pate import PATE, PATEConfig
from fedkd_flwr.strategies.privatekt import PrivateKT, PrivateKTConfig
from fedkd_flwr.strategies.score_exchange import PartyScores, SoftConfig, SoftStrategy

__all__ = [
    "DD",
    "PATE",
    "DDConfig",
    "ExchangeConfig",
    "ExchangeStrategy",
    "FedCT",
    "FedCTConfig",
    "FedKT",
    "FedKTConfig",
    "FedKTProx",
    "FedMD",
    "FedMDConfig",
    "FedProx",
    "FedProxConfig",
    "LabelStrategy",
    "PATEConfig",
    "PartyLabels",
    "PartyScores",
    "PartyWeights",
    "PrivateKT",
    "PrivateKTConfig",
    "ServerModelConfig",
    "ServerModelStrategy",
    "SoftConfig",
    "SoftStrategy",
]
