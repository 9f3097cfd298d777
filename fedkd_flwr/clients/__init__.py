"""A party's side of each algorithm: NumPyClients that exchange label arrays."""

from fedkd_flwr.clients.base import Answer, Finished, Instruction, LabelClient, ModelFactory, Party, RefusingClient
from fedkd_flwr.clients.fedct import FedCTClient
from fedkd_flwr.clients.fedkt import FedKTClient

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
