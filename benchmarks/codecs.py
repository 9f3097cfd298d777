"""What the codecs of the wire take, against the entropy of what they carry and against zlib, in one run.

    python benchmarks/codecs.py --out benchmarks/results/codecs.json

Contents are drawn row by row from known distributions, so their *entropy* is known and no codec can take less on
average. Scores are the exception: theirs is that of each class's steps by themselves, which codes of whole rows may
undercut. *times* is the size of a payload, without its header, over the entropy. zlib compresses the same arrays as
NumPy holds them (level 9). Every payload is decoded and compared with what was encoded. Times are the least of five.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.scores import quantise
from fedkd_flwr.wire.label_codec import ANSWER_HEADER, PublicSpec, decode_labels, encode_labels
from fedkd_flwr.wire.ratio_codec import decode_ratios, encode_ratios
from fedkd_flwr.wire.score_codec import decode_rows, decode_scores, encode_rows, encode_scores

CLASSES = 10


class Case(NamedTuple):
    """One content: how to encode and decode it, what must come back, its raw arrays and its entropy in bits."""

    name: str
    encode: Callable[[], NDArray[np.uint8]]
    decode: Callable[[NDArray[np.uint8]], Any]
    same: Callable[[Any], bool]
    raw: bytes
    entropy: float
    header: int


def bits(chances: NDArray[Any]) -> float:
    """Return the entropy of one draw."""
    kept = chances[chances > 0]
    return float(-(kept * np.log2(kept)).sum())


def redrawn(rng: np.random.Generator, values: NDArray[Any], share: float) -> tuple[NDArray[Any], float]:
    """Return labels of which a share is another one, and the entropy of the change of one row in bits."""
    new = np.where(rng.random(len(values)) < share, (values + rng.integers(1, CLASSES, len(values))) % CLASSES, values)
    return new.astype(np.int16), bits(np.array([share, 1 - share])) + share * math.log2(CLASSES - 1)


def label_cases(rng: np.random.Generator, public: PublicSpec) -> Iterator[Case]:
    """Yield labels of equal and of skewed classes, and changes of a twentieth of them."""
    at: dict[str, Any] = {"public": public, "server_round": 1}
    skewed = np.array([0.91, *np.full(CLASSES - 1, 0.01)])
    for name, chances in (("equal classes", np.full(CLASSES, 0.1)), ("one class of .91", skewed)):
        labels = rng.choice(CLASSES, public.num_public, p=chances).astype(np.int16)
        yield Case(
            f"labels, {name}",
            lambda labels=labels: encode_labels(labels[None], **at),
            lambda payload: decode_labels(payload, **at),
            lambda seen, labels=labels: np.array_equal(seen[0], labels),
            labels.tobytes(),
            public.num_public * bits(chances),
            ANSWER_HEADER,
        )
    base = rng.integers(0, CLASSES, public.num_public).astype(np.int16)
    new, each = redrawn(rng, base, 0.05)
    yield Case(
        "labels, .05 changed",
        lambda: encode_labels(new[None], base=base[None], **at),
        lambda payload: decode_labels(payload, base=base[None], **at),
        lambda seen: np.array_equal(seen[0], new),
        (new - base).astype(np.int16).tobytes(),
        public.num_public * each,
        ANSWER_HEADER + 16,
    )


def ratio_cases(rng: np.random.Generator, public: PublicSpec) -> Iterator[Case]:
    """Yield density ratios with their labels: most codes of a row are 0, but seldom that of its label."""
    at: dict[str, Any] = {"public": public, "server_round": 1}
    rows = public.num_public
    sizes = np.array([0.02, 0.04, 0.08, 0.12, 0.2, 0.24, 0.3])  # of the codes 1 to 7
    known = np.array([0.1, *(0.9 * sizes)])
    other = np.array([0.9, *(0.1 * sizes[::-1])])

    def drawn() -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
        labels = rng.integers(0, CLASSES, rows).astype(np.int16)
        codes = rng.choice(8, (rows, CLASSES), p=other).astype(np.uint8)
        codes[np.arange(rows), labels] = rng.choice(8, rows, p=known)
        return codes, labels

    codes, labels = drawn()
    row = math.log2(CLASSES) + bits(known) + (CLASSES - 1) * bits(other)
    yield Case(
        "ratios and labels",
        lambda: encode_ratios(codes, labels, **at),
        lambda payload: decode_ratios(payload, **at),
        lambda seen: np.array_equal(seen.codes, codes) and np.array_equal(seen.labels, labels),
        codes.tobytes() + labels.tobytes(),
        rows * row,
        ANSWER_HEADER,
    )
    others, changed = drawn(), rng.random(rows) < 0.05
    new = np.where(changed[:, None], others[0], codes), np.where(changed, others[1], labels)
    yield Case(
        "ratios, .05 of the rows new",
        lambda: encode_ratios(*new, base=(codes, labels), **at),
        lambda payload: decode_ratios(payload, base=(codes, labels), **at),
        lambda seen: np.array_equal(seen.codes, new[0]) and np.array_equal(seen.labels, new[1]),
        (new[0] ^ codes).tobytes() + (new[1] - labels).tobytes(),
        rows * (bits(np.array([0.05, 0.95])) + 0.05 * row),
        ANSWER_HEADER + 16,
    )


def score_cases(rng: np.random.Generator, public: PublicSpec) -> Iterator[Case]:
    """Yield probabilities of a net that is sure of most rows, in steps of few bits."""
    logits = rng.normal(0.0, 3.0, (public.num_public, CLASSES))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for number in (8, 4):
        steps = quantise(probs, number)
        shares = [np.bincount(column, minlength=2**number) / len(column) for column in steps.T]
        at: dict[str, Any] = {"public": public, "server_round": 1, "kind": "probs"}
        yield Case(
            f"probabilities, {number} bits",
            lambda at=at, number=number: encode_scores(probs, bits=number, **at),
            lambda payload, at=at: decode_scores(payload, **at),
            lambda seen, steps=steps, number=number: bool(
                np.abs(seen - steps / np.maximum(steps.sum(axis=1, keepdims=True), 1)).max() < 1e-6
            ),
            steps.tobytes(),
            public.num_public * sum(bits(share) for share in shares),
            ANSWER_HEADER,
        )


def row_cases(rng: np.random.Generator, public: PublicSpec) -> Iterator[Case]:
    """Yield the numbers of the rows that a round asks about."""
    rows = public.num_public
    for count in (rows // 40, rows // 2):
        numbers = np.sort(rng.choice(rows, count, replace=False))
        ways = (math.lgamma(rows + 1) - math.lgamma(count + 1) - math.lgamma(rows - count + 1)) / math.log(2)
        yield Case(
            f"numbers of {count:,} rows",
            lambda numbers=numbers: encode_rows(numbers, num_public=rows),
            lambda payload: decode_rows(payload, num_public=rows),
            lambda seen, numbers=numbers: np.array_equal(seen, numbers),
            numbers.astype(np.int32).tobytes(),
            ways,
            0,
        )


def seconds(work: Callable[[], Any]) -> float:
    """Return the least of five times."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def measured(case: Case) -> dict[str, float]:
    """Encode, decode and compare one content; end with a message where something else comes back."""
    payload = case.encode()
    if not case.same(case.decode(payload)):
        sys.exit(f"{case.name}: something else came back")
    entropy, packed = case.entropy / 8, len(zlib.compress(case.raw, 9))
    return {
        "bytes": len(payload),
        "entropy, bytes": entropy,
        "times": (len(payload) - case.header) / entropy,
        "zlib's times": packed / entropy,
        "encode, ms": seconds(case.encode) * 1e3,
        "decode, ms": seconds(lambda: case.decode(payload)) * 1e3,
        "zlib, ms": seconds(lambda: zlib.compress(case.raw, 9)) * 1e3,
    }


def main() -> None:
    """Print a line for each content."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    public = PublicSpec(num_public=options.rows, num_classes=CLASSES, fingerprint="ab" * 32)
    found = {}
    for cases in (label_cases, ratio_cases, score_cases, row_cases):
        for case in cases(rng, public):
            found[case.name] = measured(case)
            print(f"{case.name:28}", *(f"{key} {value:,.2f}" for key, value in found[case.name].items()), sep="  ")
    if options.out:
        command = shlex.join(["python", *sys.argv])
        options.out.write_text(json.dumps({"command": command, "rows": options.rows, "found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
