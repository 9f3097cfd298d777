"""FedOV's and Selective-FD's own published code beside our density ratios: the same rows, the same nets, one run.

    git clone https://github.com/Xtra-Computing/FedOV
    git clone https://github.com/shaojiawei07/Selective-FD
    python benchmarks/rivals.py --data-root /data --fedov FedOV --selective-fd Selective-FD --python /other/bin/python

Ten parties share ``--private`` training rows of MNIST or Fashion-MNIST, one class a party or by Dirichlet(0.01); 6,400
other training rows are public; the official test rows serve for testing. Each split is a file of row numbers, which all
methods read. The published code runs in ``--python``, an environment that has torch, torchvision, scikit-learn, scipy,
pandas and matplotlib; what it would download is put where it looks. Nothing of it is part of this project.

*FedOV* (Diao, Li, He, ICLR 2023) trains one open-set net a party for ``--epochs`` passes and votes once. Its figures
are the vote of all nets on public and on test rows, for which somebody holds every party's weights; the net that it
distils from that vote is left out for time. Its functions are called as its script calls them; only rows and passes
differ.

*Selective-FD* (Shao, Wu, Zhang, 2024) exchanges scores of 512 public rows in each of ``--iterations`` iterations. Its
figures are the parties' mean accuracy on test rows at the end, and the best of all its tests, which its code prints and
which nobody can choose without the labels of the test rows. Its script runs as it is, with its constants for MNIST;
density ratios are computed in less memory, and compared with its own function's on some rows.

*Ours* are FedKT, one shot, with FedOV's net, and FedCT, three rounds, with Selective-FD's net. ``seconds`` are
wall-clock seconds of each method's processes, on whatever else the machine did.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib
import json
import os
import re
import runpy
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SETS = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}
PARTIES, PUBLIC, BATCH = 10, 6400, 32  # FedOV's code keeps public and test rows apart by whole batches of 32
SPLITS = {"one class a party": None, "Dirichlet 0.01": 0.01}
Numbers = dict[str, float]


def labels_of(folder: Path) -> NDArray[np.uint8]:
    """Read the labels of the training rows."""
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        return np.frombuffer(file.read()[8:], dtype=np.uint8)


def split_rows(y: NDArray[np.uint8], alpha: float | None, seed: int, private: int) -> dict[str, NDArray[np.int64]]:
    """Return row numbers as a partition file names them: one class a party, or each class by Dirichlet shares."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    rows = {"public_0": np.sort(order[:PUBLIC]), "test_0": np.arange(10000)}
    others = order[PUBLIC : PUBLIC + private]
    while True:
        parts: list[list[NDArray[np.int64]]] = [[] for _ in range(PARTIES)]
        for label in range(10):
            of_class = others[y[others] == label]
            shares = np.eye(PARTIES)[label] if alpha is None else rng.dirichlet(np.full(PARTIES, alpha))
            cuts = np.round(np.cumsum(shares)[:-1] * len(of_class)).astype(int)
            for party, some in zip(parts, np.split(of_class, cuts), strict=True):
                party.append(some)
        held = [np.concatenate(party) for party in parts]
        if min(map(len, held)) >= 2 * BATCH:
            return rows | {f"party_0_{number:02d}": np.sort(one) for number, one in enumerate(held)}


def small_cnn(input_shape: tuple[int, int, int], num_classes: int) -> Any:
    """Return the net of Selective-FD's demonstration: two convolutions of 10 and 20 channels, 50 units, dropout."""
    from torch import nn

    return nn.Sequential(
        *(nn.Conv2d(input_shape[0], 10, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(320, 50), nn.ReLU(), nn.Dropout(), nn.Linear(50, num_classes)),
    )


# ---- run in this environment -----------------------------------------------------------------------------------------


def ours(method: str, given: dict[str, Any]) -> Numbers:
    """Run FedKT or FedCT by density ratios, or by majority, as the command does."""
    from fedkd_flwr.record.run_record import RunRecord

    algorithm, rule = method.split()[1:]
    net = {"fedkt": "cnn-fedkt", "fedct": "rivals:small_cnn"}[algorithm]
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "algorithm": algorithm, "dataset": given["dataset"], "data-root": given["data_root"],
            "num-parties": PARTIES, "partitioner": "file", "paper.partition-path": given["split"],
            "party-test-fraction": 0.0, "model": f"{net}(lr=0.001, batch_size=64)", "centralised": "false",
            "seed": given["seed"], "output-dir": folder,
        }  # fmt: skip
        if algorithm == "fedkt":
            model = f"{net}(lr=0.001, batch_size=64, epochs={given['epochs']})"
            settings |= {"consensus": rule, "model": model, "paper.party-models": "false"}
        else:
            settings |= {"consensus": rule, "num-rounds": 3, "steps-per-round": given["steps"]}
        words = [f"{key}={value}" for key, value in settings.items()]
        command = [sys.executable, "-m", "fedkd_flwr.cli", "simulate", *words]
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
        if made.returncode:
            sys.exit(f"{shlex.join(command)}\n{made.stderr}")
        (path,) = Path(folder).glob("runs/*/record.json")
        record = RunRecord.load(path)
    found = {"public rows": record.rounds[-1].consensus_accuracy or 0.0}
    if record.server_accuracy is not None:
        found["test rows"] = record.server_accuracy
    else:
        found["test rows"] = record.mean_accuracies()["federated-common"]
    return found | {"MB from each party": sum(one.bytes_up for one in record.rounds) / PARTIES / 1e6}


def theirs(method: str, given: dict[str, Any], python: Path) -> Numbers:
    """Run the published code in its own environment."""
    command = [str(python), __file__, "--inside", json.dumps(given | {"method": method})]
    environment = os.environ | {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}  # files that its own code has just written
    made = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if made.returncode:
        sys.exit(f"{shlex.join(command)}\n{made.stderr[-3000:]}")
    found: Numbers = json.loads(made.stdout.splitlines()[-1])
    return found


# ---- run in the environment of the published code --------------------------------------------------------------------


def lay_out(source: Path, target: Path) -> None:
    """Put the files of a data set where torchvision looks for them."""
    target.mkdir(parents=True)
    for path in source.glob("*-ubyte.gz"):
        (target / path.stem).write_bytes(gzip.decompress(path.read_bytes()))


def import_torchvision() -> None:
    """Import torchvision beside a torch without CUDA: its compiled operators, which nobody calls here, need names."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

    torchvision.names_of_operators = library  # which are gone when nobody holds it


def fedov(given: dict[str, Any], folder: Path) -> Numbers:
    """Train FedOV's nets and vote."""
    import torch

    sys.path.insert(0, given["fedov"])
    importlib.import_module("model")  # first: it and experiments import each other
    experiments = importlib.reload(importlib.import_module("experiments"))  # which saw model half imported
    utils = importlib.import_module("utils")

    dataset = {"mnist": "mnist", "fashion-mnist": "fmnist"}[given["dataset"]]
    lay_out(Path(given["data_root"]) / given["dataset"], folder / SETS[given["dataset"]] / "raw")
    rows = np.load(given["split"])
    args = argparse.Namespace(
        dataset=dataset, datadir=str(folder), model="simple-cnn", batch_size=64, epochs=given["epochs"], lr=0.001,
        reg=1e-5, optimizer="adam", noise=0, noise_type="level", n_parties=PARTIES, net_config=None, dropout_p=0.0,
    )  # fmt: skip
    experiments.args = args  # a global name there
    torch.manual_seed(given["seed"])
    np.random.seed(given["seed"])  # noqa: NPY002  # which that code draws from
    experiments.random.seed(given["seed"])
    nets, *_ = experiments.init_nets(None, 0.0, PARTIES, args)
    held = {party: rows[f"party_0_{party:02d}"] for party in range(PARTIES)}
    _, test, train_rows, test_rows = utils.get_dataloader(dataset, str(folder), 64, BATCH)
    thresholds = experiments.local_train_net_vote(nets, np.arange(PARTIES), args, held, test_dl=test, device="cpu")
    public = torch.utils.data.Subset(train_rows, rows["public_0"].tolist())
    joined = torch.utils.data.ConcatDataset([public, test_rows])
    both = torch.utils.data.DataLoader(joined, batch_size=BATCH, shuffle=False)
    _, _, scores = utils.compute_accuracy_vote_soft(
        list(nets.values()), thresholds, both, PARTIES, normalize=False, device="cpu"
    )
    truth = np.concatenate([train_rows.target.numpy()[rows["public_0"]], test_rows.target.numpy()])
    right = scores.argmax(axis=1) == truth
    return {
        "public rows": float(right[:PUBLIC].mean()),
        "test rows, vote of all nets": float(right[PUBLIC:].mean()),
        "MB from each party": sum(w.numel() * 4 for w in nets[0].state_dict().values()) / 1e6,
    }


def selective_fd(given: dict[str, Any], folder: Path) -> Numbers:
    """Run Selective-FD's script on a file of our rows."""
    import torch

    code = folder / "code"
    shutil.copytree(given["selective_fd"], code, ignore=shutil.ignore_patterns(".git", "*.zip"))
    lay_out(Path(given["data_root"]) / given["dataset"], code / "data" / "MNIST" / "raw")  # where its script looks
    with gzip.open(Path(given["data_root"]) / given["dataset"] / "train-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read()[16:], dtype=np.uint8).reshape(-1, 1, 28, 28)
    images = ((pixels.astype(np.float32) / 255 - 0.1307) / 0.3081).astype(np.float32)  # as its own file was made
    y, rows = labels_of(Path(given["data_root"]) / given["dataset"]), np.load(given["split"])

    def pairs(numbers: NDArray[np.int64]) -> list[tuple[Any, int]]:
        return [(torch.from_numpy(images[row]), int(y[row])) for row in numbers]

    public = rows["public_0"]
    rng = np.random.default_rng(given["seed"])
    shuffled = {party: rng.permutation(rows[f"party_0_{party:02d}"]) for party in range(PARTIES)}
    torch.save(
        {
            "training_dataset_dict": {party: pairs(numbers) for party, numbers in shuffled.items()},
            "proxy_dataset_dict": {label: pairs(public[y[public] == label]) for label in range(10)},
        },
        code / "data" / "MNISTTrainDataset.pth",
    )
    os.chdir(code)
    sys.path.insert(0, str(code))
    np.random.seed(given["seed"])  # noqa: NPY002  # which that code draws from
    import KuLSIF
    from scipy.spatial.distance import cdist

    kind = KuLSIF.KuLSIF_density_ratio_estimation
    published = kind.ratio_estimator

    def in_less_memory(self: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the same ratios without an array of all differences, which takes 10 GB; check some of them."""
        near = [
            np.exp(-(cdist(rows, of) ** 2) / self.Gaussian_kernel_width**2 / 2)
            for of in (self.auxiliary_samples, self.known_samples)
        ]
        found = near[0] @ self.alpha_vector.ravel() + near[1].mean(axis=1) / self.lamda
        np.testing.assert_allclose(found[:20], published(self, rows[:20]), rtol=1e-4)
        return found

    kind.ratio_estimator = in_less_memory
    sys.argv = ["Selective-FD.py", "--epochs", str(given["iterations"]), "--seed", str(given["seed"])]
    printed = folder / "printed"
    with printed.open("w") as file, contextlib.redirect_stdout(file):
        runpy.run_path("Selective-FD.py", run_name="__main__")
    means = [float(text) / 100 for text in re.findall(r"^accuracy ([\d.]+)", printed.read_text(), re.MULTILINE)]
    scores = 512 * 10 * 4 * given["iterations"] / 1e6
    return {"test rows": means[-1], "test rows, best of all tests": max(means), "MB from each party": scores}


def inside(given: dict[str, Any]) -> None:
    """Run one method's published code; print its figures as the last line."""
    import_torchvision()
    with tempfile.TemporaryDirectory() as folder:
        found = {"FedOV": fedov, "Selective-FD": selective_fd}[given["method"]](given, Path(folder))
    print(json.dumps(found))


# ---- both ------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Parse the command line, run, and tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--fedov", type=Path, help="folder of FedOV's code; without it it is left out")
    parser.add_argument("--selective-fd", type=Path, help="the same of Selective-FD's")
    parser.add_argument("--python", type=Path, help="the Python that runs them")
    parser.add_argument("--data", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--splits", nargs="+", choices=list(SPLITS), default=list(SPLITS))
    parser.add_argument("--methods", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1001, 1002, 1003])
    parser.add_argument("--private", type=int, default=53600, help="private rows of all parties together")
    parser.add_argument("--epochs", type=int, default=20, help="of FedOV's and FedKT's nets")
    parser.add_argument("--iterations", type=int, default=500, help="of Selective-FD")
    parser.add_argument("--steps", type=int, default=500, help="minibatch steps of FedCT's nets in each round")
    parser.add_argument("--out", type=Path, help="JSON file for the results; runs that are in it are not run again")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(json.loads(options.inside))
        return
    methods = [f"ours: {one} {rule}" for one in ("fedkt", "fedct") for rule in ("majority", "density-ratio")]
    methods += ["FedOV"] * bool(options.fedov) + ["Selective-FD"] * bool(options.selective_fd)
    runs: list[dict[str, Any]] = []
    if options.out and options.out.exists():
        runs = json.loads(options.out.read_text())["runs"]
    for data in options.data:
        y = labels_of(options.data_root / data)
        for split in options.splits:
            for seed in options.seeds:
                for method in options.methods or methods:
                    key = {"data": data, "split": split, "seed": seed, "method": method}
                    if any(all(run[part] == key[part] for part in key) for run in runs):
                        continue
                    with tempfile.TemporaryDirectory() as folder:
                        path = Path(folder) / "split.npz"
                        np.savez(path, **split_rows(y, SPLITS[split], seed, options.private))
                        given = {
                            "dataset": data, "data_root": str(options.data_root.absolute()), "split": str(path),
                            "seed": seed,
                            "epochs": options.epochs, "iterations": options.iterations, "steps": options.steps,
                            "fedov": str(options.fedov and options.fedov.absolute()),
                            "selective_fd": str(options.selective_fd and options.selective_fd.absolute()),
                        }  # fmt: skip
                        start = time.perf_counter()
                        mine = method.startswith("ours")
                        found = ours(method, given) if mine else theirs(method, given, options.python)
                        found["seconds"] = time.perf_counter() - start
                    runs.append(key | {"figures": found})
                    print(json.dumps(runs[-1]), flush=True)
                    if options.out:
                        write(options.out, runs, options)


def write(path: Path, runs: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Write all runs, and means and deviations over seeds."""
    groups: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        figures = groups.setdefault(f"{run['data']}, {run['split']}, {run['method']}", {})
        for name, value in run["figures"].items():
            figures.setdefault(name, []).append(value)
    means = {
        group: {
            name: {"mean": statistics.mean(v), "sd": statistics.stdev(v) if len(v) > 1 else None, "n": len(v)}
            for name, v in figures.items()
        }
        for group, figures in groups.items()
    }
    settings = {name: getattr(options, name) for name in ("private", "epochs", "iterations", "steps")}
    path.write_text(json.dumps({"settings": settings, "means": means, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
