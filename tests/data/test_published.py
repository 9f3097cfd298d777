"""The published data sets: their files, the pairs of FedMD, and the real ones' sizes where FEDKD_DATA is set."""

import gzip
import lzma
import struct
import sys
import types

import numpy as np
import pytest
from data.conftest import check_pool, forest_accuracy

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.published import PAIRED, PUBLISHED, read_cifar, read_idx, read_published
from fedkd_flwr.errors import Code, ConfigError, DataError, MissingExtraError


@pytest.fixture
def tiny_mnist(tmp_path):
    folder = tmp_path / "MNIST" / "raw"  # torchvision's layout, one file unpacked
    folder.mkdir(parents=True)
    for part, n in (("train", 40), ("t10k", 20)):
        images = np.zeros((n, 28, 28), dtype=np.uint8)
        images[:, 0, 0] = np.arange(n)
        labels = (np.arange(n) % 10).astype(np.uint8)
        data = struct.pack(">HBBIII", 0, 8, 3, n, 28, 28) + images.tobytes()
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(data))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, n) + labels.tobytes())
    return tmp_path


def test_public_rows_come_from_train_or_half_the_official_test_file(tiny_mnist):
    from_train = load_pool("mnist", seed=0, data_root=tiny_mnist)
    check_pool(from_train, 30, 10, 20, 784)
    from_test = load_pool("mnist(public_from='test')", seed=0, data_root=tiny_mnist, num_private=35)
    check_pool(from_test, 35, 10, 10, 784)
    together = np.concatenate([from_test.public.X, from_test.X_test])
    assert sorted(np.rint(together[:, 0] * 255)) == list(range(20))
    assert np.rint(from_test.X[:, 0] * 255).astype(int).tolist() == from_test.rows.tolist()
    assert from_train.public.shape == (1, 28, 28)


def test_hospitals_of_heart_are_parties_and_what_one_never_measured_is_missing(tmp_path):
    names = "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak,slope,ca,thal,target\n"
    (tmp_path / "heart").mkdir()
    files = (("cleveland", "csv"), ("hungarian", "data"), ("switzerland", "csv"), ("va", "data"))
    for i, (hospital, ending) in enumerate(files):
        row = "{age},1,{cp},{n},{chol},0,1,{n},0,1.5,?,?,,{target}"
        chol = 0 if hospital == "switzerland" else 200
        numbers = [{"age": 60 + i, "cp": 1 + n % 4, "n": 110 + n, "chol": chol and chol + n} for n in range(20)]
        rows = [row.format(target=n % 5, **values) for n, values in enumerate(numbers)]
        text = (names if ending == "csv" else "") + "\n".join(rows)  # UCI's own files have no line of names
        (tmp_path / "heart" / f"processed.{hospital}.{ending}").write_text(text)
    pool = load_pool("heart", seed=1, data_root=tmp_path, own_parties=True)
    assert pool.party_names == ("cleveland", "hungarian", "switzerland", "va")
    features = dict(zip(pool.public.preprocessor.feature_names, pool.X.T, strict=True))
    assert len(np.unique(features["age"])) == 4
    for party in range(4):
        of_party = pool.party_of == party
        assert len(np.unique(features["age"][of_party])) == 1
        assert (len(np.unique(features["chol"][of_party])) == 1) is (party == 2)  # the public median
    assert not features["thal=3"].any()
    assert pool.public.schema.classes == ("healthy", "ill")
    assert 0.6 < pool.y.mean() < 1.0  # 1 to 4 of 0 to 4 is ill
    assert load_pool("heart", seed=1, data_root=tmp_path).party_names == ()


def _idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    with gzip.open(path, "wb") as file:
        file.write(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def root(tmp_path):
    """Sixty digits and, per file, 80 letters: the letter in the first pixel, EMNIST's own labels from 1."""
    rng = np.random.default_rng(0)
    for part, count in (("train", 60), ("t10k", 20)):
        images, labels = rng.integers(0, 255, (count, 28, 28)), np.arange(count) % 10
        images[:, 0, 0] = labels
        _idx(tmp_path / f"mnist/{part}-images-idx3-ubyte.gz", images)
        _idx(tmp_path / f"mnist/{part}-labels-idx1-ubyte.gz", labels)
    for part in ("train", "test"):
        images, labels = rng.integers(0, 255, (80, 28, 28)), np.arange(80) % 26 + 1
        images[:, 0, 0], images[:, 0, 1], images[:, 1, 0] = labels, 7, 9
        _idx(tmp_path / f"emnist-letters/emnist-letters-{part}-images-idx3-ubyte.gz", images)
        _idx(tmp_path / f"emnist-letters/emnist-letters-{part}-labels-idx1-ubyte.gz", labels)
    return tmp_path


def test_private_rows_are_six_letters_and_public_rows_digits_with_labels_of_their_own(root):
    pool = load_pool("mnist-emnist", seed=1, data_root=root)
    assert pool.public.schema.classes == tuple("abcdef")
    assert len(pool.y) == len(pool.y_test) == 20
    # the first pixel is the letter, counted from 1; upright, its neighbours have changed places
    assert np.array_equal(np.rint(pool.X[:, 0] * 255), pool.y + 1)
    assert (np.rint(pool.X[:, 1] * 255) == 9).all()
    assert pool.public.num_rows == 60
    assert pool.public.y is None
    assert np.array_equal(np.rint(pool.public.X[:, 0] * 255), pool.public.labels.y)
    assert (pool.public.labels.num_classes, pool.public.labels.of_schema) == (10, False)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"name": "mnist-emnist(public_from='test')"}, ConfigError, "public_from must be"),
        ({"num_public": 61}, DataError, "be at most the 60 public rows"),
        ({"rows": {"public": np.array([60]), "test": np.array([0])}}, DataError, "row numbers below 60"),
    ],
)
def test_impossible_pairs_are_refused(root, settings, error, message):
    with pytest.raises(error, match=message):
        load_pool(**{"name": "mnist-emnist", "seed": 1, "data_root": root, **settings})


@pytest.mark.parametrize("name", [*PUBLISHED, *PAIRED])
def test_missing_data_root_names_the_key_and_the_file(name, tmp_path):
    for root in (tmp_path, ""):
        with pytest.raises(
            DataError, match=r"data-root must be a folder with .+/.+ for the data set .*Give data-root=/path/to/data"
        ) as caught:
            load_pool(name, seed=0, data_root=root)
        assert caught.value.code is Code.MISSING_FILE


# counts and accuracies: README of the data folder and the papers' sizes; forests on the private part only
@pytest.mark.parametrize(
    ("name", "sizes", "shapes", "accuracy"),
    [
        ("adult", {"num_test": 7769, "num_public": 10000, "num_private": 31073}, (31073, 10000, 7769), 0.845),
        ("a9a", {}, (24421, 4070, 4070), 0.82),
        ("cod-rna", {}, (44651, 7442, 7442), 0.94),
        ("mushroom", {"num_test": 1625, "num_public": 4000, "num_private": 2499}, (2499, 4000, 1625), 0.99),
        ("heart", {}, (460, 230, 230), 0.75),
        ("wine-type", {"num_test": 1059, "num_public": 4100, "num_private": 136}, (136, 4100, 1059), 0.95),
        ("mnist(public_from='test')", {"num_public": 5000, "num_private": 50000}, (50000, 5000, 5000), None),
        ("fashion-mnist", {"num_public": 50000, "num_private": 10000}, (10000, 50000, 10000), None),
        ("emnist-letters", {"num_private": 5000, "num_public": 1000}, (5000, 1000, 20800), None),
        ("cifar100", {}, (2250, 750, 600), None),
        ("mnist-emnist", {}, (28800, 60000, 4800), None),
        ("cifar10-cifar100", {}, (3000, 10000, 600), None),
    ],
)
def test_published_sets_have_the_published_sizes_and_first_look_accuracy(data_root, name, sizes, shapes, accuracy):
    pool = load_pool(name, seed=0, data_root=data_root, **sizes)
    if name in PAIRED:
        assert (len(pool.y), pool.public.num_rows, len(pool.y_test)) == shapes
        assert np.bincount(pool.y).tolist() == [shapes[0] // 6] * 6
        return
    images = 3072 if name == "cifar100" else 784
    check_pool(pool, *shapes, pool.X.shape[1] if accuracy else images)
    if accuracy:
        assert forest_accuracy(pool) > accuracy
    else:
        assert (pool.X.min(), pool.X.max()) == (0, 1)
    if name == "adult":
        assert np.bincount(np.concatenate([pool.y, pool.public.y, pool.y_test])).tolist() == [37155, 11687]
        assert sum(column.kind == "numeric" for column in pool.public.schema.columns) == 6
    if name == "a9a":
        assert set(np.unique(pool.X)) == {0.0, 1.0}
        assert 0.10 < pool.X.mean() < 0.13  # 14 of 123 columns at most
    if name == "wine-type":
        assert "quality" in pool.public.schema.column_names
        assert len(load_pool(name, seed=0, data_root=data_root).X) == 2660  # half of 5,320 different rows
    if name == "emnist-letters":  # a lower-case l, upright, is tall and narrow: ink varies more across than down
        letter_l = pool.X[pool.y == ord("l") - ord("a")].mean(axis=0).reshape(28, 28)
        assert letter_l.sum(axis=0).std() > letter_l.sum(axis=1).std()


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


@pytest.mark.parametrize(
    ("name", "kind", "marker"), [("cifar10", "CIFAR10", "cifar-10-batches-py"), ("svhn", "SVHN", "train_32x32.mat")]
)
def test_what_torchvision_downloaded_is_read_by_it(tmp_path, monkeypatch, name, kind, marker):
    """A stand-in with its signatures and layouts: the real one weighs gigabytes."""

    def read(root, download, train=None, split=None):
        assert (root, download) == (str(tmp_path), False)
        n = 40 if train or split == "train" else 8
        if name == "svhn":  # channels first
            return types.SimpleNamespace(data=np.full((n, 3, 32, 32), 7, np.uint8), labels=np.arange(n) % 10)
        images = np.zeros((n, 32, 32, 3), np.uint8)
        images[:, 0, 1, 2] = 9
        return types.SimpleNamespace(data=images, targets=[i % 10 for i in range(n)])

    (tmp_path / marker).touch()
    module = types.SimpleNamespace(datasets=types.SimpleNamespace(**{kind: read}))
    monkeypatch.setitem(sys.modules, "torchvision", module)
    source = read_published(name, tmp_path)
    assert source.shape == (3, 32, 32)
    assert source.y.tolist() == [i % 10 for i in range(40)]
    assert source.test_table.shape == (8, 3072)
    assert source.table[0].reshape(3, 32, 32)[2, 0, 1] == (7 if name == "svhn" else 9)


def test_without_torchvision_the_extra_is_named_and_without_files_what_is_missing(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"svhn/train_32x32\.mat"):
        read_published("svhn", tmp_path)
    (tmp_path / "train_32x32.mat").touch()
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingExtraError, match=r"fedkd-flwr\[vision\]"):
        read_published("svhn", tmp_path)
