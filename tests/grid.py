"""An in-process Flower grid: whole rounds through the real ClientApp and door, without Ray, in under a second."""

from fedkd_flwr.simulation.in_process import Handler, InProcessGrid

__all__ = ["Handler", "InProcessGrid"]
