"""Three silos and a server that federate by file, and the same run in one process."""

from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import Context, RecordDict
from grid import InProcessGrid
from silo_files import node_of, people, write_public

from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.server_app import app as server_app
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.silo.file_server import ask, count
from fedkd_flwr.silo.file_silo import answer
from fedkd_flwr.silo.ledger import ledgers_in, read_ledger
from fedkd_flwr.silo.letters import Letter

__all__ = ["FEDCT", "L0", "L1", "L2", "NAMES", "NOISY_PATE", "PATE", "Federation", "make_key", "spoilt"]

NAMES = ("north", "south", "west")
L0 = {"algorithm": "fedkt", "model": "decision-tree", "seed": 3}
L1 = {**L0, "fedkt.level": "L1", "noise": "laplace", "paper.noise-strength": 0.1}
PATE = {"algorithm": "pate", "model": "decision-tree", "seed": 3}
NOISY_PATE = {**PATE, "noise": "laplace", "paper.noise-strength": 0.1}
FEDCT = {"algorithm": "fedct", "model": "decision-tree", "seed": 3, "num-rounds": 3, "consensus": "majority"}
L2 = {**L0, "fedkt.level": "L2", "noise": "laplace", "paper.noise-strength": 0.1}


def make_key(name, folder):
    """Make a key pair as `ssh-keygen -t ed25519` does; return the private half."""
    key, ssh = Ed25519PrivateKey.generate(), serialization.Encoding.OpenSSH
    (folder / name).touch(mode=0o600)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    (folder / name).write_bytes(key.private_bytes(*form))
    (folder / f"{name}.pub").write_bytes(key.public_key().public_bytes(ssh, serialization.PublicFormat.OpenSSH))
    return key


def spoilt(number, data, other, rng):
    """Return a file that was cut, changed in one bit, half swapped with another one, or written after itself."""
    at = rng.randrange(len(data))
    lines, others = data.split(b"\n"), other.split(b"\n")
    swapped = b"\n".join([lines[0], *others[1:]] if number % 2 else [others[0], *lines[1:]])
    changed = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    return (data[:at], changed, swapped, data + data[at:])[number % 4]


def _until_the_result(message, context):
    """Answer the rounds; taking in the result needs seconds, and nobody looks at it here."""
    if message.metadata.message_type == "evaluate":
        raise RuntimeError("not in this test")
    return client_app(message, context)


class Step(NamedTuple):
    """What a server's command has done: the file it wrote, what that says, and what a finished run left."""

    question: Path
    letter: Letter
    record: RunRecord | None
    folder: Path


def _done(run, out):
    return Step(out, run.question, run.record, run.folder)


class Federation:
    """Three silos and a server, each with its key, in one folder."""

    def __init__(self, folder):
        self.folder, self.out = folder, folder / "out"
        public = write_public(folder, people(40, seed=9))
        self.keys = {name: make_key(name, folder) for name in ("server", *NAMES)}
        self.nodes = {
            name: node_of(name, people(60, seed=i), folder / f"{name}.csv", public, folder / f"state-{name}")
            for i, name in enumerate(NAMES)
        }

    def settings(self, settings):
        return {"public-path": str(self.folder / "public.csv"), "output-dir": str(self.out), **settings}

    def ask(self, settings, out="question.fedkd"):
        keys = [self.folder / f"{name}.pub" for name in NAMES]
        return _done(ask(self.settings(settings), self.folder / "server", keys, self.folder / out), self.folder / out)

    def answer(self, name, question, out=None):
        path = self.folder / (out or f"{name}.fedkd")
        pair = self.folder / name, self.folder / "server.pub"
        answer(question, self.nodes[name], *pair, path)
        return path

    def answers(self, question):
        return [self.answer(name, question) for name in NAMES]

    def count(self, paths, **options):
        out = self.folder / "next.fedkd"
        return _done(count(paths, out, output_dir=str(self.out), **options), out)

    def whole(self, settings):
        """Run by file until there is a result."""
        step = self.ask(settings)
        while step.record is None:
            step = self.count(self.answers(step.question))
        return step

    def in_process(self, settings):
        """Run the same in one process, with other states; return the record, and the labels of the result."""
        nodes = [{**node, "state-dir": node["state-dir"] + "-0"} for node in self.nodes.values()]
        config = {**self.settings(settings), "num-parties": 3}
        grid = InProcessGrid(_until_the_result, nodes, config)
        server_app(grid, Context(1, 1, {}, RecordDict(), config))
        labels = grid.sent[-1].content["arrays"]["labels"].numpy().tolist()
        return RunRecord.load(self.out / "runs" / "1" / "record.json"), labels

    def charges(self, ending=""):
        """Return what each silo's ledger was charged, without run ids and times."""
        found = {}
        for name, node in self.nodes.items():
            state = Path(node["state-dir"] + ending)
            for folder in ledgers_in(state) if list(state.rglob("ledger.sqlite3")) else ():
                entries = read_ledger(folder).ledger.entries
                found[name] = [(e.server_round, e.algorithm, e.mechanism, e.unit, e.events) for e in entries]
        return found
