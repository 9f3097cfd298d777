"""Change one byte in each file of a party's state and of a server's run, and count the changes that are believed.

    python benchmarks/changed_bytes.py --changes 1540 --out benchmarks/results/changed-bytes.json

A change is *refused* if reading ends with one of our errors, or an egress log is said not to hold; *harmless* if every
value that is read is what it was; else it is *believed*. Every second place is one that is not zero, because most bytes
of an SQLite file are unused. ``killed`` is the ledger of a process that was killed while it wrote a charge, with the
rollback journal that SQLite then leaves: right is what was there before, and *later* counts the changes by which the
charge that was being written counts, though its reply never left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedkd_flwr.errors import FedkdError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.ledger.rows import array_rows
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.record.run_record import Rejection, RoundRecord, RunRecord
from fedkd_flwr.stores.book import ledger_in
from fedkd_flwr.stores.checkpoints import Lineage, Participations
from fedkd_flwr.stores.egress_log import EgressLog, output_of, read_log
from fedkd_flwr.stores.files import node_secret
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import PartyState, Saved, StoredReply, runs_gone_on_from
from fedkd_flwr.stores.record_file import RecordFile
from fedkd_flwr.stores.subset import SubsetStore
from fedkd_flwr.strategies.resuming import load_checkpoint, save_checkpoint

RUNS, ROUNDS = ("7", "8"), (1, 2, 3)
X = np.arange(400.0).reshape(100, 4)
LEFT_OUT = Rejection(party="c", node_id="9", code="busy")
DRAW = Subsampling(num_rows=100, subset_rows=20, replacement=False)


def store_in(root: Path) -> LedgerStore:
    """Return the party's store."""
    return LedgerStore(root, party="a", data_digest="0" * 64, rows=array_rows(X, np.zeros(100)))


def reply_to(server_round: int) -> StoredReply:
    """Return a reply of 200 labels."""
    labels = np.random.default_rng(server_round).integers(0, 10, (1, 200), dtype=np.int16)
    return StoredReply(arrays={"labels": labels}, metrics={"party": "a", "payload": "labels"})


def charge(root: Path, run_id: str, server_round: int) -> None:
    """Charge for one reply, and log it."""
    store, log = store_in(root), EgressLog(root, party="a")
    events, budget = [(PureEvent(0.1), 200)], Budget(epsilon=1e6)
    store.ask(events, budget, run_id=run_id, rounds=9)
    words = {"algorithm": "fedct", "mechanism": "randomised response", "unit": "record", "adversary": "server"}
    reply = store.charge(
        run_id=run_id,
        server_round=server_round,
        events=events,
        reply=reply_to(server_round),
        budget=budget,
        neighbouring_relation="replace one record",
        **words,
    )
    claim = {"unit": "record", "mechanism": words["mechanism"]}
    log.append({"run": run_id, "round": server_round, "claim": claim, "left": True, "output": output_of(reply)})


def write(root: Path) -> None:
    """Write everything that a party and a server keep."""
    SubsetStore(store_in(root)).rows(DRAW)
    for run_id in RUNS:
        for server_round in ROUNDS:
            charge(root, run_id, server_round)
    node_secret(root)
    arrays = reply_to(1).arrays | {"scores": np.random.default_rng(0).random((30, 4))}
    PartyState(root, run_id="7", party="a").save(Saved(server_round=3, arrays=arrays, model=b"model", meta={"k": 0.1}))
    PartyState(root, run_id="8", party="a").note_continued("7")
    folder = root / "server" / "runs" / "7"
    rounds = [
        RoundRecord(server_round=n, asked=3, answered=["a", "b"], rejected=[LEFT_OUT], seconds=n / 3)
        for n in range(1, 12)
    ]
    record = RunRecord(run_id="7", algorithm="fedct", rounds=rounds, config={"seed": 1, "name": "monday"}, seconds=12.5)
    RecordFile(folder / "record.json").write(record)
    counts = Participations(by_party={"a": 12, "b": 7}, unnamed=3, several=frozenset("b"))
    counts.save(folder / "checkpoint")
    Lineage.new("6").then("7").save(folder / "checkpoint")
    save_checkpoint(folder / "checkpoint", arrays, {"round": 3, "asked": counts.as_dict(), "record": record.to_json()})


def ledger_values(root: Path) -> Any:
    """Return all that is read of a ledger."""
    store = store_in(root)
    ledger, rows = ledger_in(store.directory)
    replies = {(run, n): store.answered(run, n) for run in RUNS for n in ROUNDS}
    with store.looked_at() as book:
        store.table(book)  # needs the key
        parts = dict(book.parts)
    bytes_of = {asked: reply and reply.to_bytes() for asked, reply in replies.items()}
    return ledger, rows.to_bytes(), bytes_of, parts, SubsetStore(store).rows(DRAW).tolist(), store.hashes().tolist()


def values(root: Path) -> Any:
    """Return all that is read of everything."""
    log = read_log(EgressLog(root, party="a").path)
    if log.problems:
        raise FedkdError(log.problems[0])
    own, folder = PartyState(root, run_id="7", party="a").load(), root / "server" / "runs" / "7"
    arrays, meta = load_checkpoint(folder / "checkpoint")
    state = own and {**asdict(own), "arrays": {name: array.tolist() for name, array in own.arrays.items()}}
    return (
        ledger_values(root),
        log.lines,
        log.notes,
        EgressLog(root, party="a")._end(),
        node_secret(root),
        state,
        runs_gone_on_from(root / "runs" / "8"),
        RunRecord.load(folder / "record.json"),
        Lineage.load(folder / "checkpoint"),
        Participations.load(folder / "checkpoint"),
        {name: array.tolist() for name, array in arrays.items()},
        meta,
    )


def changed(path: Path, changes: int, rng: random.Random, judge: Callable[[], str]) -> Counter[str]:
    """Return how often a change of one byte was what."""
    data, found = path.read_bytes(), Counter[str]()
    written = [place for place, byte in enumerate(data) if byte]
    for number in range(changes):
        place = rng.choice(written) if number % 2 else rng.randrange(len(data))
        byte = data[place] ^ rng.randrange(1, 256)
        if chr(data[place]).isdigit() and rng.random() < 0.7:  # one digit for another is the likeliest to be believed
            byte = rng.choice([one for one in b"0123456789" if one != data[place]])
        path.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
        found[judge()] += 1
    path.write_bytes(data)
    return found


def whole(root: Path, changes: int, rng: random.Random) -> dict[str, Counter[str]]:
    """Change the files of a party and of a server."""
    write(root)
    right = values(root)
    paths = [path for path in sorted(root.rglob("*")) if path.is_file() and path.stat().st_size]

    def judge() -> str:
        try:
            return "harmless" if values(root) == right else "believed"
        except (FedkdError, OSError):
            return "refused"

    each = -(-changes // len(paths))
    return {str(path.relative_to(root)): changed(path, each, rng, judge) for path in paths}


def killed(root: Path, changes: int, rng: random.Random) -> dict[str, Counter[str]]:
    """Change the ledger and the journal that a process left which was killed while it charged."""
    write(root / "whole")
    shutil.copytree(root / "whole", root / "later")
    charge(root / "later", "7", 4)
    before, later = (ledger_in(store_in(root / name).directory)[0] for name in ("whole", "later"))
    if os.fork() == 0:
        with store_in(root / "whole").held() as book:
            assert book.db is not None
            book.db.execute("PRAGMA cache_size = 1")
            book.add(later.entries[-1], reply_to(4).to_bytes(), kept=3)
            book.put("draw", bytes(100_000))
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
    folder = store_in(root / "whole").directory
    kept = {path: path.read_bytes() for path in folder.iterdir()}

    def judge(path: Path) -> str:
        broken = path.read_bytes()
        for one, data in kept.items():  # reading takes back what the journal says
            one.write_bytes(broken if one == path else data)
        try:
            found = ledger_in(folder)[0]
        except (FedkdError, OSError):
            return "refused"
        return "harmless" if found == before else "later" if found == later else "believed"

    found = {}
    for path in sorted(kept):
        path.write_bytes(kept[path])  # the last look may have removed it
        if path.suffix != ".json":
            found[f"killed: {path.name}"] = changed(path, changes, rng, lambda path=path: judge(path))
    return found


def main() -> None:
    """Print what became of the changes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=1540)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder:
        found = whole(Path(folder) / "whole", given.changes, rng)
        found |= killed(Path(folder) / "killed", given.changes // 10, rng)
    for name, counts in found.items():
        print(f"{name:44}", *(f"{what} {count}" for what, count in sorted(counts.items())), sep="  ")
    total = sum(found.values(), Counter())
    print(f"{total.total()} changes: {total['believed']} believed, {total['refused']} refused")
    if given.out:
        command = shlex.join(["python", *sys.argv])
        given.out.write_text(json.dumps({"command": command, "changes": found}, indent=1) + "\n")
    if total["believed"]:
        sys.exit("some changes are believed")


if __name__ == "__main__":
    main()
