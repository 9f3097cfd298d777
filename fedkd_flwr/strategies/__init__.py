"""The server's side of each algorithm: subclasses of Flower's Strategy."""

from fedkd_flwr.strategies.base import ExchangeConfig, ExchangeStrategy
from fedkd_flwr.strategies.fedct import FedCT, FedCTConfig
from fedkd_flwr.strategies.fedkt import FedKT, FedKTConfig
from fedkd_flwr.strategies.labels import LabelStrategy, PartyLabels
from fedkd_flwr.strategies.pate import PATE, PATEConfig
from fedkd_flwr.strategies.server_model import ServerModelConfig, ServerModelStrategy

__all__ = [
    "PATE",
    "ExchangeConfig",
    "ExchangeStrategy",
    "FedCT",
    "FedCTConfig",
    "FedKT",
    "FedKTConfig",
    "LabelStrategy",
    "PATEConfig",
    "PartyLabels",
    "ServerModelConfig",
    "ServerModelStrategy",
]
