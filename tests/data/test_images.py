import gzip
import lzma
import os
import shutil
import struct
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr.data.images import load_torchvision, read_cifar, read_idx
from fedkd_flwr.errors import DataError, MissingExtraError

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def idx(array, *, dtype=8):
    return struct.pack(">HBB", 0, dtype, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_idx_is_read_plain_and_packed(tmp_path, pack):
    (tmp_path / "images").write_bytes(pack(idx(IMAGES)))
    assert np.array_equal(read_idx(tmp_path / "images", ndim=3), IMAGES)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (idx(IMAGES)[:-1], r"have 40 bytes for shape \(2, 3, 4\), got 39"),
        (idx(IMAGES) + b"x", "have 40 bytes"),
        (idx(IMAGES, dtype=13), "be an IDX file"),
        (idx(IMAGES[0]), "be an IDX file"),
        (b"", "be an IDX file"),
        (gzip.compress(idx(IMAGES))[:-9], "must unpack"),
    ],
    ids=["short", "long", "floats", "labels", "empty", "cut gzip"],
)
def test_damaged_idx_is_refused(tmp_path, data, message):
    (tmp_path / "images").write_bytes(data)
    with pytest.raises(DataError, match=message):
        read_idx(tmp_path / "images", ndim=3)


@pytest.mark.parametrize("label_bytes", [1, 2])
def test_cifar_records_split_into_fine_label_and_planes(tmp_path, label_bytes):
    records = np.zeros((2, label_bytes + 3072), dtype=np.uint8)
    records[:, label_bytes - 1] = [4, 7]
    records[1, -1] = 9
    (tmp_path / "batch.bin").write_bytes(records.tobytes())
    images, labels = read_cifar(tmp_path / "batch.bin", label_bytes=label_bytes)
    assert labels.tolist() == [4, 7]
    assert images.shape == (2, 3072)
    assert images[1, -1] == 9


def test_cut_cifar_file_is_refused(tmp_path):
    (tmp_path / "batch.bin").write_bytes(bytes(3000))
    with pytest.raises(DataError, match="multiple of 3073 bytes, got 3000"):
        read_cifar(tmp_path / "batch.bin", label_bytes=1)


def test_without_torchvision_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingExtraError, match=r"fedkd-flwr\[vision\]"):
        load_torchvision("svhn", tmp_path, train=True)


@pytest.fixture
def torchvision(monkeypatch):
    """A stand-in with torchvision's signatures and layouts: the real one is not installed where tests run."""

    class MNIST:
        def __init__(self, root, train, download):
            assert download is False
            self.data = np.full((1, 28, 28), train, dtype=np.uint8)
            self.targets = [3]

    class CIFAR10:
        def __init__(self, root, train, download):
            self.data = np.zeros((1, 32, 32, 3), dtype=np.uint8)
            self.data[0, 0, 1, 2] = 9
            self.targets = [4]

    class SVHN:
        def __init__(self, root, split, download):
            if split == "test":
                raise RuntimeError("Dataset not found or corrupted.")
            self.data = np.ones((1, 3, 32, 32), dtype=np.uint8)
            self.labels = np.array([5])

    module = types.ModuleType("torchvision")
    module.datasets = types.SimpleNamespace(MNIST=MNIST, CIFAR10=CIFAR10, SVHN=SVHN)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", module)


def test_torchvision_sets_come_channels_first(torchvision, tmp_path):
    images, labels = load_torchvision("cifar10", tmp_path, train=True)
    assert images.shape == (1, 3, 32, 32)
    assert images[0, 2, 0, 1] == 9
    assert labels.tolist() == [4]
    assert load_torchvision("mnist", tmp_path, train=True)[0].shape == (1, 1, 28, 28)
    assert load_torchvision("svhn", tmp_path, train=True)[1].tolist() == [5]
    with pytest.raises(DataError, match=r"torchvision's layout below .*not found"):
        load_torchvision("svhn", tmp_path, train=False)
    with pytest.raises(DataError, match="name must be one of mnist"):
        load_torchvision("imagenet", tmp_path, train=True)


# The real torchvision, where it is installed, else a loud skip: it weighs gigabytes.
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
