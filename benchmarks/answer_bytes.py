"""What an answer with density ratios takes in each round of a real run, as a multiple of labels alone.

    python benchmarks/answer_bytes.py fedct-digits-iid-auto fedct-digits-half-auto fedct-digits-skew-density-ratio

Runs of ``simulations/`` go through the real ServerApp and ClientApp in one process. For each round in which ratios were
sent it prints the mean over the parties, and the largest, of: bytes of the answer over those of one with labels alone,
packed to ceil(log2 C) bits, headers of both included.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from flwr.common.config import flatten_dict
from simulate import ROOT, run_here

from fedkd_flwr.wire import ratio_codec
from fedkd_flwr.wire.label_codec import ANSWER_HEADER, bits_per_label


def multiples(name: str, seed: int, rounds: int, root: str) -> dict[int, list[float]]:
    """Return, for each round, the multiple of each party."""
    found: dict[int, list[float]] = defaultdict(list)
    encode = ratio_codec.encode_ratios

    def measured(*args: Any, **words: Any) -> Any:
        body = encode(*args, **words)
        public = words["public"]
        plain = ANSWER_HEADER + public.num_public * bits_per_label(public.num_classes) / 8
        found[words["server_round"]].append(len(body) / plain)
        return body

    users = [m for m in list(sys.modules.values()) if getattr(m, "encode_ratios", None) is encode]
    settings = flatten_dict(tomllib.loads((ROOT / "simulations" / f"{name}.toml").read_text()))
    settings |= {"seed": seed, "num-rounds": rounds, "data-root": root}
    patches = [mock.patch.object(module, "encode_ratios", measured) for module in users]
    with tempfile.TemporaryDirectory() as folder:
        for patch in patches:
            patch.start()
        try:
            run_here(settings, Path(folder))
        finally:
            mock.patch.stopall()
    return found


def main() -> None:
    """Print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+", help="files of simulations/, without .toml")
    parser.add_argument("--seeds", type=int, nargs="+", default=[71, 72])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--data-root", default="")
    options = parser.parse_args()
    import fedkd_flwr.clients.fedct  # noqa: F401 - whoever packs ratios is loaded before it is measured

    for name in options.names:
        for seed in options.seeds:
            for server_round, values in sorted(multiples(name, seed, options.rounds, options.data_root).items()):
                print(f"{name} {seed}  round {server_round}: mean {np.mean(values):.2f}, largest {max(values):.2f}")


if __name__ == "__main__":
    main()
