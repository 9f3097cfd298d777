"""An in-process Flower grid: whole rounds through the real ClientApp and door, without Ray, in under a second."""

from pathlib import Path

from flwr.app import Context, RecordDict

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.simulation import grid as package
from fedkd_flwr.simulation.grid import Handler

__all__ = ["Handler", "InProcessGrid", "run_apps"]


def run_apps(folder, nodes, settings, *, page=False, tamper=None):
    """Run ServerApp and ClientApp with nodes of these configs, or with so many simulated parties; return the record."""
    from fedkd_flwr.app.client_app import app as client_app  # most tests with a grid need no apps
    from fedkd_flwr.app.server_app import federate

    if isinstance(nodes, int):
        nodes = [{"partition-id": i, "num-partitions": nodes} for i in range(nodes)]
    waits = {"node-deadline-s": 1.0, "nodes-stable-s": 0.01}
    config = {"num-parties": len(nodes), "output-dir": str(folder), **waits, **settings}
    grid = InProcessGrid(client_app, nodes, config, tamper=tamper)
    federate(grid, Context(1, 1, {}, RecordDict(), config), page=page)
    return RunRecord.load(Path(folder or "~/.fedkd").expanduser() / "runs" / "1" / "record.json")


class InProcessGrid(package.InProcessGrid):
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
