"""A party's side of each algorithm: NumPyClients that exchange label arrays."""

from fedkd_flwr.clients.base import PartyClient, RefusingClient
from fedkd_flwr.clients.dd import DDClient
from fedkd_flwr.clients.fedct import FedCTClient
from fedkd_flwr.clients.fedkt import FedKTClient
from fedkd_flwr.clients.fedmd import FedMDClient
from fedkd_flwr.clients.fedprox import FedKTProxClient, FedProxClient
from fedkd_flwr.clients.party import Answer, Charge, Finished, Instruction, ModelFactory, Party
from fedkd_flwr.clients.pate import PATEClient
from fedkd_flwr.clients.privatekt import PrivateKTClient

__all__ = [
    "Answer",
    "Charge",
    "DDClient",
    "FedCTClient",
    "FedKTClient",
    "FedKTProxClient",
    "FedMDClient",
    "FedProxClient",
    "Finished",
    "Instruction",
    "ModelFactory",
    "PATEClient",
    "Party",
    "PartyClient",
    "PrivateKTClient",
    "RefusingClient",
]
