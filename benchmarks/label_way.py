"""The files of the package that one label of FedCT passes, and how often it is packed.

    python benchmarks/label_way.py

Two parties run two rounds in this process; each keeps state, ledger and egress log, as a silo does. A file counts where
labels, or bytes with them, are among a function's arguments or in what it returns: at the party from the model's answer
to the reply, at the server from the replies through the consensus to the next instruction.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from flwr.app import Context, RecordDict

from fedkd_flwr.app import client_app, server_app
from fedkd_flwr.simulation.grid import InProcessGrid

PACKAGE = f"{Path(server_app.__file__).parents[1]}/"
CONFIG = {"dataset": "synthetic(rows=400)", "num-parties": 2, "num-rounds": 2, "model": "decision-tree", "seed": 1}
CONFIG |= {"consensus": "majority", "partitioner": "iid", "centralised": False, "paper.stop-when-converged": False}
AT = {  # where a side begins or ends
    ("clients/exchange.py", "public_answers", "call"): "party",
    ("app/client_app.py", "train", "return"): "",
    ("simulation/grid.py", "push_messages", "return"): "server",
    ("simulation/grid.py", "push_messages", "call"): "",
}


class Way:
    """What a profile of a run sees of labels, given as bytes."""

    def __init__(self, known: set[bytes]) -> None:
        self.known, self.made, self.at = known, set[bytes](), ""
        self.files: dict[str, dict[str, int]] = {"party": {}, "server": {}}  # file -> packings in it

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        """Look at one call or return."""
        code, file = frame.f_code, frame.f_code.co_filename.removeprefix(PACKAGE)
        if event not in ("call", "return") or file == code.co_filename:
            return
        self.at = AT.get((file, code.co_name, event), self.at)
        given = [frame.f_locals.get(one) for one in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
        packs = event == "return" and code.co_name in ("encode_labels", "packed")
        if packs and "labels" in frame.f_locals:
            self.made |= {np.asarray(frame.f_locals["labels"], np.int16).tobytes(), np.asarray(value).tobytes()}
        if self.at and any(map(self._holds, given if event == "call" else [value])):
            self.files[self.at][file] = self.files[self.at].get(file, 0) + packs

    def _holds(self, value: Any, depth: int = 4) -> bool:
        if isinstance(value, np.ndarray):
            return value.dtype != object and value.tobytes() in self.known
        if isinstance(value, bytes):
            return any(one in value for one in self.known)
        if depth == 0 or value is None or callable(value):
            return False
        parts = [*value.values()] if isinstance(value, dict) else [*value] if isinstance(value, list | tuple) else []
        return any(self._holds(part, depth - 1) for part in [*parts, *getattr(value, "__dict__", {}).values()])


way = Way(set())
for _ in range(2):  # the first run tells what to look for
    way = Way(way.made)
    with tempfile.TemporaryDirectory() as folder:
        nodes = [{"partition-id": i, "num-partitions": 2, "state-dir": f"{folder}/{i}"} for i in range(2)]
        config = {**CONFIG, "output-dir": folder}
        sys.setprofile(way)
        server_app.federate(
            InProcessGrid(client_app.app, nodes, config), Context(1, 0, {}, RecordDict(), config), page=False
        )
        sys.setprofile(None)
for side, files in way.files.items():
    times = {"party": 4, "server": 2}[side]
    print(f"{side}: {len(files)} files, {sum(files.values()) / times:g} packings a round: {', '.join(files)}")
