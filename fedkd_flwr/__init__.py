"""Federated learning where parties share labels, not weights, on Flower."""

__version__ = "0.1.0"
