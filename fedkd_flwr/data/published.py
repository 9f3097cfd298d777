"""Named data sets below a data root, read from the files that their owners publish.

The folders are those of the owners' archives (``adult/``, ``mnist/``, ...) or torchvision's (``MNIST/raw``, ...).
"""

from __future__ import annotations

import gzip
import io
import lzma
import math
import os
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import column_texts
from fedkd_flwr.data.public import PublicLabels
from fedkd_flwr.data.reading import PLAIN, Reading
from fedkd_flwr.data.schema import Column, Schema, labels_of
from fedkd_flwr.data.sources import Source
from fedkd_flwr.errors import Code, DataError, explain, import_extra

__all__ = ["PAIRED", "PUBLISHED", "read_cifar", "read_idx", "read_paired", "read_published"]

_ADULT = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)
_MUSHROOM = (
    "class cap-shape cap-surface cap-color bruises odor gill-attachment gill-spacing gill-size gill-color stalk-shape "
    "stalk-root stalk-surface-above-ring stalk-surface-below-ring stalk-color-above-ring stalk-color-below-ring "
    "veil-type veil-color ring-number ring-type spore-print-color population habitat"
)
_HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_HEART = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal"
_HEART_CODES = {"cp": "1 2 3 4", "restecg": "0 1 2", "slope": "1 2 3", "thal": "3 6 7"}
_NEVER_0 = ("trestbps", "chol")  # blood pressure and cholesterol
_FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
_CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
# FedMD's six private classes
_CIFAR100 = {0: "apple", 2: "baby", 20: "chair", 63: "porcupine", 71: "sea", 82: "sunflower"}
_DIGITS = [str(digit) for digit in range(10)]
_TORCHVISION = {  # its class, and what lies in the folder that it downloads to
    "cifar10": ("CIFAR10", "cifar-10-batches-py"),
    "cifar100": ("CIFAR100", "cifar-100-python"),
    "svhn": ("SVHN", "train_32x32.mat"),
}


def read_published(name: str, data_root: str | os.PathLike[str]) -> Source:
    """Read one of the sets of `PUBLISHED` below ``data_root``; what torchvision downloaded there is read by it."""
    files = _Files(name, data_root)
    kind, marker = _TORCHVISION.get(name, ("", ""))
    folders = () if files.root is None or not kind else (files.root, files.root / name)
    found = next((folder for folder in folders if (folder / marker).exists()), None)
    return PUBLISHED[name](files) if found is None else _by_torchvision(name, kind, found)


def read_paired(name: str, data_root: str | os.PathLike[str]) -> Source:
    """Read a set of `PAIRED`: private rows of one data set, public rows of another with their own labels."""
    public_name, private_name, chosen = PAIRED[name]
    public, private = read_published(public_name, data_root), read_published(private_name, data_root)
    private = _only(private, chosen) if chosen else private
    labels = PublicLabels(y=public.y, num_classes=len(public.classes))
    return replace(private, public_table=public.table, public_labels=labels)


class _Files:
    """Finds a set's files below the data root, compressed or not, in the owner's folder or in torchvision's."""

    def __init__(self, name: str, root: str | os.PathLike[str]) -> None:
        self.name = name
        self.root = Path(root).expanduser() if root else None

    def need(self, *paths: str) -> Path:
        """Return the first file that exists, tried without a suffix, with .gz and with .xz; `DataError` without one."""
        suffixes = ("", ".gz", ".xz") if self.root is not None else ()
        for file in (Path(self.root or "", f"{path}{suffix}") for path in paths for suffix in suffixes):
            if file.is_file():
                return file
        raise self.missing(paths[0])

    def missing(self, path: str) -> DataError:
        """Return the error that says which file is missing and which key to set."""
        rule = f"be a folder with {path} (or {path}.gz) for the data set {self.name!r}"
        way_out = "Give data-root=/path/to/data to fedkd simulate, --data-root /path/to/data to the benchmarks, "
        way_out += "or data-root in the run config of flwr run."
        seen = "" if self.root is None else str(self.root)
        return DataError(explain("data-root", rule, seen, way_out), code=Code.MISSING_FILE)

    def text(self, *paths: str) -> str:
        """Return a file's text."""
        return _read_bytes(self.need(*paths)).decode("utf-8")


def _read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return a file's bytes, unpacked if they are gzip or xz."""
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
    """Read an IDX file of bytes (MNIST and similar sets), packed or not: ``ndim`` axes, 3 for images, 1 for labels."""
    data = _read_bytes(path)
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
    """Read a CIFAR binary file: images (n, 3072), plane by plane, row by row, and labels (n,).

    ``label_bytes`` is 1 for CIFAR-10, and 2 (coarse, fine) for CIFAR-100, of which the last is the label.
    """
    data = _read_bytes(path)
    size = label_bytes + 3072
    if not data or len(data) % size:
        raise DataError(explain(f"file {path}", f"have a multiple of {size} bytes", len(data), "Copy it again."))
    records = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
    return records[:, label_bytes:], records[:, label_bytes - 1]


def _comma_lines(text: str, columns: str) -> pd.DataFrame:
    # the first line of adult.test is a comment
    lines = [line.split(",") for line in text.splitlines() if line.strip() and not line.startswith("|")]
    return pd.DataFrame(np.array(lines, dtype=object), columns=columns.split()).map(str.strip)


def _adult(files: _Files) -> Source:
    texts = [files.text(f"adult/{name}") for name in ("adult.data", "adult.test")]
    table = pd.concat([_comma_lines(text, _ADULT) for text in texts], ignore_index=True)
    classes = ("<=50K", ">50K")
    y = labels_of(table.pop("income").str.rstrip("."), classes, "income")  # labels in adult.test end with a full stop
    for name in ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"):
        table[name] = table[name].astype(np.int64)
    return Source(table=table, y=y, classes=classes, label="income")


def _read_libsvm(path: Path, *, num_features: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the dense rows and labels of a LIBSVM file, whose columns count from 1."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(_read_bytes(path)), n_features=num_features, zero_based=False)
    except ValueError as error:
        raise DataError(explain(f"file {path}", "hold LIBSVM lines", f"this: {error}", "Copy it again.")) from error
    return X.toarray().astype(np.float32), y


def _a9a(files: _Files) -> Source:
    X, y = _read_libsvm(files.need("adult/a9a", "a9a/a9a"), num_features=123)
    labels, classes = labels_of(y, ("-1", "1"), "label"), ("<=50K", ">50K")
    names = [f"f{i + 1}" for i in range(X.shape[1])]
    columns = tuple(Column(name=name, kind="categorical", categories=("1",)) for name in names)  # 0/1 stays 0/1
    schema = Schema(columns=columns, classes=classes, label="income")
    return Source(table=X, y=labels, classes=classes, label="income", schema=schema, private_share=0.75)


def _cod_rna(files: _Files) -> Source:
    X, y = _read_libsvm(files.need("cod-rna/cod-rna"), num_features=8)
    return Source(table=X, y=labels_of(y, ("-1", "1"), "label"), classes=("-1", "1"), private_share=0.75)


def _mushroom(files: _Files) -> Source:
    table = _comma_lines(files.text("mushroom/agaricus-lepiota.data"), _MUSHROOM)
    y = labels_of(table.pop("class"), ("e", "p"), "class")
    return Source(table=table, y=y, classes=("edible", "poisonous"), label="class")


def _heart(files: _Files) -> Source:
    """Return the four hospitals of UCI's heart disease, each a party. What a hospital never measured is empty."""
    tables = []
    for hospital in _HOSPITALS:
        lines = files.text(f"heart/processed.{hospital}.csv", f"heart/processed.{hospital}.data").splitlines()
        rows = [line for line in lines if not line.startswith("age,")]  # UCI's own files have no line of names
        tables.append(_comma_lines("\n".join(rows), f"{_HEART} target"))
    table = pd.concat(tables, ignore_index=True)
    parties = np.array([name for name, rows in zip(_HOSPITALS, tables, strict=True) for _ in range(len(rows))], object)
    kinds = {name: text.split() for name, text in _HEART_CODES.items()}
    columns = tuple(
        Column(name=name, kind="categorical", categories=tuple(kinds[name]))
        if name in kinds
        else Column(name=name, kind="numeric", reading=Reading(missing=("0",)) if name in _NEVER_0 else PLAIN)
        for name in _HEART.split()
    )
    ill = np.array([text != "0" for text in column_texts(table.pop("target"))], dtype=np.int16)
    # 0: healthy; 1 to 4, how much arteries are narrowed: ill
    classes = ("healthy", "ill")
    schema = Schema(columns=columns, classes=classes, label="target")
    return Source(table=table, y=ill, classes=classes, label="target", schema=schema, parties=parties)


def _wine_type(files: _Files) -> Source:
    red, white = (
        pd.read_csv(files.need(f"wine-quality/winequality-{color}.csv"), sep=";") for color in ("red", "white")
    )
    table = pd.concat([red, white], ignore_index=True)
    table["type"] = ["red"] * len(red) + ["white"] * len(white)
    table = table.drop_duplicates(ignore_index=True)
    y = labels_of(table.pop("type"), ("red", "white"), "type")
    return Source(table=table, y=y, classes=("red", "white"), label="type")


def _idx_set(files: _Files, folders: tuple[str, ...], prefix: str, train: str, test: str) -> list[NDArray[np.uint8]]:
    arrays = []
    for part in (train, test):
        for kind, ndim in (("images-idx3", 3), ("labels-idx1", 1)):
            file = files.need(*(f"{folder}/{prefix}{part}-{kind}-ubyte" for folder in folders))
            arrays.append(read_idx(file, ndim=ndim))
    for images, labels in (arrays[:2], arrays[2:]):
        if len(images) != len(labels):
            raise DataError(explain(f"labels of {files.name!r}", f"number {len(images)}, as the images", len(labels)))
    return arrays


def _image_source(arrays: list[NDArray[np.uint8]], classes: Sequence[str], shape: tuple[int, ...]) -> Source:
    images, labels, test_images, test_labels = arrays
    return Source(
        table=images.reshape(len(images), -1),
        y=labels.astype(np.int16),
        classes=tuple(classes),
        shape=shape,
        test_table=test_images.reshape(len(test_images), -1),
        test_y=test_labels.astype(np.int16),
    )


def _mnist(files: _Files, folder: str = "MNIST", classes: Sequence[str] = _DIGITS) -> Source:
    arrays = _idx_set(files, (files.name, f"{folder}/raw"), "", "train", "t10k")
    return _image_source(arrays, classes, (1, 28, 28))


def _emnist_letters(files: _Files) -> Source:
    arrays = _idx_set(files, ("emnist-letters", "EMNIST/raw"), "emnist-letters-", "train", "test")
    for i in (0, 2):
        arrays[i] = arrays[i].swapaxes(1, 2)  # NIST stores the images transposed
        arrays[i + 1] = arrays[i + 1] - 1  # 1 is a
    return _image_source(arrays, [chr(ord("a") + i) for i in range(26)], (1, 28, 28))


def _cifar10(files: _Files) -> Source:
    test = files.need("cifar10/test_batch.bin", "cifar-10-batches-bin/test_batch.bin")
    parts = sorted(test.parent.glob("data_batch_*.bin*"))
    if not parts:
        raise files.missing("cifar10/data_batch_1.bin")
    read = [read_cifar(part, label_bytes=1) for part in parts]
    images, labels = (np.concatenate(arrays) for arrays in zip(*read, strict=True))
    return _image_source([images, labels, *read_cifar(test, label_bytes=1)], _CIFAR10, (3, 32, 32))


def _cifar100(files: _Files) -> Source:
    arrays: list[Any] = []
    for part in ("train", "test"):
        file = files.need(f"cifar100/{part}_6classes.bin", f"cifar100/{part}.bin", f"cifar-100-binary/{part}.bin")
        arrays += read_cifar(file, label_bytes=2)
    return _only(_image_source(arrays, _DIGITS, (3, 32, 32)), _CIFAR100)


def _by_torchvision(name: str, kind: str, folder: Path) -> Source:
    make, arrays = getattr(import_extra("torchvision", "vision", what=f"this copy of {name}").datasets, kind), []
    for part in ("train", "test"):
        words = {"split": part} if name == "svhn" else {"train": part == "train"}
        try:
            read = make(root=str(folder), download=False, **words)
        except RuntimeError as error:  # "Dataset not found or corrupted"
            raise DataError(explain(f"data set {name!r}", f"be whole in {folder}", f"this: {error}")) from error
        images = np.asarray(read.data)
        arrays.append(images if images.shape[1] == 3 else images.transpose(0, 3, 1, 2))
        arrays.append(np.asarray(read.labels if name == "svhn" else read.targets))
    made = _image_source(arrays, _CIFAR10 if name == "cifar10" else _DIGITS, (3, 32, 32))
    return _only(made, _CIFAR100) if name == "cifar100" else made


def _svhn(files: _Files) -> Source:
    raise files.missing("svhn/train_32x32.mat")


def _only(source: Source, classes: dict[int, str]) -> Source:
    """Return the rows of some classes, numbered from 0 in this order."""
    new = np.full(256, -1, dtype=np.int16)
    new[list(classes)] = range(len(classes))
    y, test_y = new[source.y], new[np.asarray(source.test_y)]
    return replace(
        source,
        table=np.asarray(source.table)[y >= 0],
        y=y[y >= 0],
        classes=tuple(classes.values()),
        test_table=np.asarray(source.test_table)[test_y >= 0],
        test_y=test_y[test_y >= 0],
    )


PAIRED: dict[str, tuple[str, str, dict[int, str]]] = {
    "mnist-emnist": ("mnist", "emnist-letters", dict(enumerate("abcdef"))),
    "cifar10-cifar100": ("cifar10", "cifar100", {}),
}
"""FedMD's pairs: public rows of the first data set, private and test rows of the second, of these classes or all."""

PUBLISHED: dict[str, Callable[[_Files], Source]] = {
    "adult": _adult,
    "a9a": _a9a,
    "cod-rna": _cod_rna,
    "mushroom": _mushroom,
    "heart": _heart,
    "wine-type": _wine_type,
    "mnist": _mnist,
    "fashion-mnist": lambda files: _mnist(files, "FashionMNIST", _FASHION),
    "emnist-letters": _emnist_letters,
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "svhn": _svhn,
}
