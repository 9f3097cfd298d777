"""What a run's final model learns from the true labels of the public rows, as a yardstick for FedKT's and PATE's votes.

    python benchmarks/true_labels.py fedkt-mnist --data-root /data --set num-public=1000 num-private=50000 num-test=5000

No party and no vote is in it. It is no bound: where classes overlap, true labels are noisy, and wrong ones may teach as
much. ``--pooled xgboost`` gives the final model the labels of one such model that learnt all private rows, and counts
how many of them are right. ``--set`` takes further settings as TOML; ``--out`` adds the result to a JSON file.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from pathlib import Path

from simulate import ROOT, configuration

from fedkd_flwr.app.models import final_model, model_factory
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.rows import simulated_pool


def main() -> None:
    """Fit the final model once a seed, and print the accuracies on the common test rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", help="a file of simulations/, without .toml")
    parser.add_argument("--data-root", default="")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seeds", nargs="+", type=int, default=[71, 72, 73, 74, 75])
    parser.add_argument("--pooled", default="", metavar="MODEL")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    settings = configuration(ROOT / "simulations" / f"{given.run}.toml", given.data_root, "", given.set)
    found, right = [], []
    for seed in given.seeds:
        config = parse_run_config({**settings, "seed": seed})
        pool = simulated_pool(config)
        labels = pool.public.truth
        if given.pooled:
            teacher = model_factory(given.pooled, "", pool.public)(seed=seed).fit(pool.X, pool.y)
            labels = teacher.predict(pool.public.X)
        right.append(float((labels == pool.public.truth).mean()))
        model = final_model(config, pool.public)(seed=seed).fit(pool.public.X, labels)
        found.append(model.metrics(pool.X_test, pool.y_test).accuracy)
        print(f"{given.run}, seed {seed}: {found[-1]:.4f}", flush=True)
    mean, deviation = statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else None
    spread = "" if deviation is None else f" (deviation {deviation:.4f})"
    share = statistics.fmean(right)
    print(f"{pool.public.num_rows:,} labels, {share:.4f} right: {mean:.4f}{spread}, {len(found)} seeds")
    if given.out is not None:
        arguments = shlex.join(sys.argv[1:]).replace(given.data_root or "\0", "/path/to/data")
        made = json.loads(given.out.read_text()) if given.out.is_file() else {}
        made[f"python benchmarks/true_labels.py {arguments}"] = {
            "rows": pool.public.num_rows,
            "labels right": share,
            "by seed": dict(zip(map(str, given.seeds), found, strict=True)),
            "mean": mean,
            "deviation": deviation,
        }
        given.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
