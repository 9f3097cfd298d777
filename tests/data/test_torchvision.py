"""The loaders of the ``vision`` extra on real files, wherever torchvision is installed; elsewhere a loud skip.

torchvision has no CPU build on every index and weighs gigabytes with CUDA, so continuous integration goes without it.
Only the IDX sets can be checked: for the others torchvision insists on checksums of whole downloads.
"""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr.data.images import load_torchvision, read_idx

LAYOUT = {
    "mnist": ("mnist", "MNIST", ""),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST", ""),
    "emnist-letters": ("emnist-letters", "EMNIST", "emnist-letters-"),
}


@pytest.mark.parametrize("name", LAYOUT)
def test_torchvision_reads_the_same_images_as_our_own_reader(tmp_path, name):
    pytest.importorskip("torchvision", reason="the vision extra is not installed")
    if not (root := os.environ.get("FEDKD_DATA")):
        pytest.skip("FEDKD_DATA is unset: no real images")
    folder, layout, prefix = LAYOUT[name]
    raw = tmp_path / layout / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "test" if prefix else "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            source = Path(root) / folder / f"{prefix}{part}-{kind}-ubyte.gz"
            with gzip.open(source) as packed, (raw / source.stem).open("wb") as file:
                shutil.copyfileobj(packed, file)
    images, labels = load_torchvision(name, tmp_path, train=False)
    part = "test" if prefix else "t10k"
    own = Path(root) / folder
    assert (images[:, 0] == read_idx(own / f"{prefix}{part}-images-idx3-ubyte.gz", ndim=3)).all()
    assert np.array_equal(labels, read_idx(own / f"{prefix}{part}-labels-idx1-ubyte.gz", ndim=1))
