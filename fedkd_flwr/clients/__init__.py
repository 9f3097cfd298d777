"""A party's side of each algorithm: NumPyClients that exchange label arrays."""

from fedkd_flwr.clients.base import PartyClient, RefusingClient
from fedkd_flwr.clients.fedct import FedCTClient
from fedkd_flwr.clients.fedkt import FedKTClient
from fedkd_flwr.clients.party import Answer, Charge, Finished, Instruction, ModelFactory, Party
from fedkd_flwr.clients.pate import PATEClient

__all__ = [
    "Answer",
    "Charge",
    "FedCTClient",
    "FedKTClient",
    "Finished",
    "Instruction",
    "ModelFactory",
    "PATEClient",
    "Party",
    "PartyClient",
    "RefusingClient",
]
