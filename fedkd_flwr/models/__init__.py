"""Any classifier over a fixed label space: the contract, the zoo, and models as safe bytes."""

from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.zoo import NAMES, make_model, pick_model

__all__ = ["NAMES", "Classifier", "make_model", "pick_model"]
