"""How fast a server counts votes and adds up density ratios, against the speed of memory, in one run.

    python benchmarks/aggregation.py --out benchmarks/results/aggregation.json

*Votes*: label arrays of 100,000 rows and 10 classes are counted one party after the other, and the counts are compared
with those of an indexed addition. The time of a party is set against copying as many bytes as the count must touch at
least: for each class the labels read, and one byte a row read and written where votes gather. Parties repeat (the
counter cannot know), so that 10,000 of them need no memory here. *Peak* is what the counter allocates, by tracemalloc,
which must not grow with the parties.

*Density ratios*: codes of as many rows, of parties with three classes each, through decoding, adding and the vote with
trust. That vote keeps what each party said, because trust looks at it several times: *bytes a party* says how much.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedkd_flwr.labels import VoteCounter
from fedkd_flwr.labels.density import DensityVote, most_probable
from fedkd_flwr.labels.ratios import RATIO_BITS, ratios_of

SHOWN = 50


def seconds(work: Callable[[], Any], repeat: int = 3) -> float:
    """Return the least of several times."""
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def copied_per_second() -> float:
    """Return the bytes that a copy reads and writes in a second, of arrays far larger than any cache."""
    source = np.ones(2**25, dtype=np.float64)
    target = np.empty_like(source)
    return 2 * source.nbytes / seconds(lambda: np.copyto(target, source))


def votes(rows: int, classes: int, parties: int, bandwidth: float) -> dict[str, Any]:
    """Count votes; refuse to report a wrong count."""
    labels = np.random.default_rng(0).integers(-1, classes, (SHOWN, rows)).astype(np.int16)
    expected = np.zeros((rows, classes), dtype=np.int32)

    def indexed() -> None:
        for given in labels:
            cast = given >= 0
            expected[np.flatnonzero(cast), given[cast]] += 1

    one_by_one = seconds(indexed, repeat=1) / SHOWN

    def count(number: int) -> VoteCounter:
        counter = VoteCounter(num_public=rows, num_classes=classes)
        for k in range(number):
            counter.add(labels[k % SHOWN])
        return counter

    if (count(SHOWN).votes != expected).any():
        sys.exit("votes: the counts are wrong")
    took = seconds(lambda: count(SHOWN).votes) / SHOWN
    began = time.perf_counter()
    all_votes = count(parties).votes
    whole = time.perf_counter() - began
    if (all_votes.sum(axis=1) > parties).any():
        sys.exit("votes: more votes than parties")
    peaks = {}
    for number in (10, 1000):
        tracemalloc.start()
        _ = count(number).votes
        peaks[number] = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    touched = classes * rows * (2 + 2)
    return {
        "ms a party": took * 1e3,
        "times as fast as an indexed addition": one_by_one / took,
        f"s for {parties} parties": whole,
        "share of memory bandwidth": touched / took / bandwidth,
        "peak MB, 10 parties": peaks[10],
        "peak MB, 1000 parties": peaks[1000],
    }


def density(rows: int, classes: int, parties: int) -> dict[str, Any]:
    """Add up density ratios of parties with three classes each."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rows)
    bits = RATIO_BITS
    made = []
    for k in range(parties):
        held = (k + np.arange(3)) % classes
        codes = np.zeros((rows, classes), dtype=np.uint8)
        known = np.flatnonzero(np.isin(y, held))
        codes[known, y[known]] = rng.integers(3, 2**bits, len(known))
        counts = np.bincount(held, minlength=classes) * 30
        made.append((codes, counts))
    tracemalloc.start()
    vote = DensityVote(num_public=rows, num_classes=classes)
    began = time.perf_counter()
    for codes, counts in made:
        vote.add(ratios_of(codes), counts)
    added = time.perf_counter()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    labels = most_probable(vote.probabilities())
    voted = time.perf_counter()
    if (labels != y).any():
        sys.exit("density ratios: the consensus is wrong")
    return {
        "parties": parties,
        "ms a party, added": (added - began) / parties * 1e3,
        "ms a party, trust and vote": (voted - added) / parties * 1e3,
        "bytes a party": kept / parties,
        "bytes of its labels": rows * 2,
    }


def main() -> None:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--parties", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    bandwidth = copied_per_second()
    found = {
        "copied GB/s": bandwidth / 1e9,
        "votes": votes(options.rows, options.classes, options.parties, bandwidth),
        "density ratios": density(options.rows, options.classes, min(options.parties, 100)),
    }
    print(json.dumps(found, indent=1))
    if options.out:
        command = shlex.join(["python", "benchmarks/aggregation.py", *sys.argv[1:]])
        options.out.write_text(json.dumps({"command": command, **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
