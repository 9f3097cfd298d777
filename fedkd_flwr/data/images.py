"""Image files: readers for MNIST's IDX format and CIFAR's binary format, and torchvision for all others.

The two readers need NumPy only, so parties without torch can hold images too.
"""

from __future__ import annotations

import gzip
import lzma
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import DataError, explain, import_extra

__all__ = ["load_torchvision", "read_bytes", "read_cifar", "read_idx"]

_TORCHVISION = {
    "mnist": "MNIST",
    "fashion-mnist": "FashionMNIST",
    "emnist-letters": "EMNIST",
    "cifar10": "CIFAR10",
    "cifar100": "CIFAR100",
    "svhn": "SVHN",
}


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return a file's bytes, decompressed if they are gzip or xz."""
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            return gzip.decompress(data)
        if data[:6] == b"\xfd7zXZ\x00":
            return lzma.decompress(data)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise DataError(explain(f"file {path}", "unpack", f"this: {error}", "Copy it again.")) from error
    return data


def read_idx(path: str | os.PathLike[str], *, ndim: int) -> NDArray[np.uint8]:
    """Read an IDX file of bytes (MNIST and similar sets), compressed or not.

    It has ``ndim`` axes: 3 for images, 1 for labels. Another file is a `DataError`.
    """
    data = read_bytes(path)
    magic = struct.pack(">HBB", 0, 8, ndim)  # two zeros, 8 = unsigned byte, number of axes
    header = 4 + 4 * ndim
    if data[:4] != magic or len(data) < header:
        raise DataError(explain(f"file {path}", f"be an IDX file (magic {magic.hex()})", data[:4].hex() or "no bytes"))
    shape = struct.unpack(f">{ndim}I", data[4:header])
    expected = header + math.prod(shape)
    if len(data) != expected:
        way_out = "Copy it again."
        raise DataError(explain(f"file {path}", f"have {expected} bytes for shape {shape}", len(data), way_out))
    return np.frombuffer(data, dtype=np.uint8, offset=header).reshape(shape)


def read_cifar(path: str | os.PathLike[str], *, label_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Read a CIFAR binary file, compressed or not: images (n, 3072), plane by plane, row by row, and labels (n,).

    ``label_bytes`` is 1 for CIFAR-10, and 2 (coarse, fine) for CIFAR-100, of which the last is the label.
    """
    data = read_bytes(path)
    size = label_bytes + 3072
    if not data or len(data) % size:
        raise DataError(explain(f"file {path}", f"have a multiple of {size} bytes", len(data), "Copy it again."))
    records = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
    return records[:, label_bytes:], records[:, label_bytes - 1]


def load_torchvision(
    name: str, root: str | os.PathLike[str], *, train: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read an image set from files in torchvision's layout below ``root``; nothing is downloaded.

    Images are (n, channels, height, width), and they and their labels are as torchvision returns them: EMNIST is
    transposed, and its letters start at 1.
    """
    datasets = import_extra("torchvision", "vision", what=f"the data set {name!r}").datasets
    check_choice("name", name, tuple(_TORCHVISION), error=DataError)
    part: dict[str, Any] = {"split": "train" if train else "test"} if name == "svhn" else {"train": train}
    if name == "emnist-letters":
        part["split"] = "letters"
    try:
        loaded = getattr(datasets, _TORCHVISION[name])(root=str(root), download=False, **part)
    except RuntimeError as error:  # "Dataset not found or corrupted"
        seen = f"this: {error}"
        raise DataError(explain(f"data set {name!r}", f"be in torchvision's layout below {root}", seen)) from error
    images = np.asarray(loaded.data)
    labels = np.asarray(loaded.labels if name == "svhn" else loaded.targets, dtype=np.int64)
    if images.ndim == 3:
        images = images[:, np.newaxis]
    elif images.shape[-1] == 3:  # CIFAR: channels last
        images = images.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(images, dtype=np.uint8), labels
