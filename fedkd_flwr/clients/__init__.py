"""A party's side of each algorithm: NumPyClients that exchange label arrays."""

from fedkd_flwr.clients.base import LabelClient, RefusingClient
from fedkd_flwr.clients.fedct import FedCTClient
from fedkd_flwr.clients.fedkt import FedKTClient
from fedkd_flwr.clients.party import Answer, Finished, Instruction, ModelFactory, Party

__all__ = [
    "Answer",
    "FedCTClient",
    "FedKTClient",
    "Finished",
    "Instruction",
    "LabelClient",
    "ModelFactory",
    "Party",
    "RefusingClient",
]
