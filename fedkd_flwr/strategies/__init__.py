"""The server's side of each algorithm: subclasses of Flower's Strategy."""

from fedkd_flwr.strategies.base import ExchangeConfig, LabelStrategy
from fedkd_flwr.strategies.fedct import FedCT, FedCTConfig
from fedkd_flwr.strategies.fedkt import FedKT, FedKTConfig
from fedkd_flwr.strategies.reception import PartyLabels

__all__ = [
    "ExchangeConfig",
    "FedCT",
    "FedCTConfig",
    "FedKT",
    "FedKTConfig",
    "LabelStrategy",
    "PartyLabels",
]
