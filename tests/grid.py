"""An in-process Flower grid: whole rounds through the real ClientApp and door, without Ray, in under a second."""

from fedkd_flwr.simulation import grid
from fedkd_flwr.simulation.grid import Handler

__all__ = ["Handler", "InProcessGrid"]


class InProcessGrid(grid.InProcessGrid):
    """The package's own, on whose way replies can be spoilt and messages delivered in another order.

    ``tamper(node_index, reply) -> reply | None`` spoils what crosses the wire; None loses it. ``order``: in which order
    the messages of a round are delivered.
    """

    def __init__(self, *args, tamper=None, order=None, first_node_id=1000, **keywords):
        self.first, self.tamper, self.order = first_node_id, tamper, order
        super().__init__(*args, **keywords)

    def push_messages(self, messages):
        messages = list(messages)
        return super().push_messages(messages if self.order is None else [messages[i] for i in self._places(messages)])

    def _places(self, messages):
        return [i for i in self.order if i < len(messages)]

    def _answered(self, message):
        reply = super()._answered(message)
        return self.tamper(message.metadata.dst_node_id - self.first, reply) if self.tamper else reply
