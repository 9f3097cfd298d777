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


def idx(array, *, dtype=8):
    return struct.pack(">HBB", 0, dtype, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def root(tmp_path):
    """Forty digits, whose first pixel is their number, in torchvision's layout; 80 letters a file; and both CIFARs.

    The first pixel of a letter is EMNIST's own label, from 1.
    """
    digits, letters = tmp_path / "MNIST" / "raw", tmp_path / "emnist-letters"
    digits.mkdir(parents=True)
    letters.mkdir()
    for part, count in (("train", 40), ("t10k", 20)):
        images, labels = np.zeros((count, 28, 28), np.uint8), np.arange(count, dtype=np.uint8) % 10
        images[:, 0, 0] = np.arange(count)
        (digits / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (digits / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    for part in ("train", "test"):
        images, labels = np.zeros((80, 28, 28), np.uint8), np.arange(80, dtype=np.uint8) % 26 + 1
        images[:, 0, 0], images[:, 0, 1], images[:, 1, 0] = labels, 7, 9
        (letters / f"emnist-letters-{part}-images-idx3-ubyte").write_bytes(idx(images))
        (letters / f"emnist-letters-{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    for name, label_bytes, files in (("cifar10", 1, "data_batch_1 test_batch"), ("cifar100", 2, "train test")):
        records = np.zeros((100, label_bytes + 3072), np.uint8)
        records[:, label_bytes - 1] = np.arange(100) % 10 if label_bytes == 1 else np.arange(100)
        (tmp_path / name).mkdir()
        for file in files.split():
            (tmp_path / name / f"{file}.bin").write_bytes(records.tobytes())
    return tmp_path


def test_public_rows_come_from_train_or_half_the_official_test_file(root):
    from_train = load_pool("mnist", seed=0, data_root=root)
    check_pool(from_train, 30, 10, 20, 784)
    from_test = load_pool("mnist(public_from='test')", seed=0, data_root=root, num_private=35)
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


def test_private_rows_are_six_letters_and_public_rows_digits_with_labels_of_their_own(root):
    pool = load_pool("mnist-emnist", seed=1, data_root=root)
    assert pool.public.schema.classes == tuple("abcdef")
    assert len(pool.y) == len(pool.y_test) == 20
    # the first pixel is the letter, counted from 1; upright, its neighbours have changed places
    assert np.array_equal(np.rint(pool.X[:, 0] * 255), pool.y + 1)
    assert (np.rint(pool.X[:, 1] * 255) == 9).all()
    assert pool.public.num_rows == 40
    assert pool.public.y is None
    assert np.array_equal(np.rint(pool.public.X[:, 0] * 255) % 10, pool.public.labels.y)
    assert (pool.public.labels.num_classes, pool.public.labels.of_schema) == (10, False)
    photos = load_pool("cifar10-cifar100", seed=1, data_root=root)
    assert photos.public.schema.classes == ("apple", "baby", "chair", "porcupine", "sea", "sunflower")
    assert (sorted(photos.y), photos.public.num_rows) == (list(range(6)), 100)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"name": "mnist-emnist(public_from='test')"}, ConfigError, "public_from must be"),
        ({"num_public": 41}, DataError, "be at most the 40 public rows"),
        ({"rows": {"public": np.array([40]), "test": np.array([0])}}, DataError, "row numbers below 40"),
    ],
)
def test_impossible_pairs_are_refused(root, settings, error, message):
    with pytest.raises(error, match=message):
        load_pool(**{"name": "mnist-emnist", "seed": 1, "data_root": root, **settings})


@pytest.mark.parametrize("name", [*PUBLISHED, *PAIRED])
def test_missing_data_root_names_the_key_and_the_file(name, tmp_path):
    message = r"data-root must be a folder with .+/.+ for the data set .*Give data-root=/path/to/data"
    for root in (tmp_path, ""):
        with pytest.raises(DataError, match=message) as caught:
            load_pool(name, seed=0, data_root=root)
        assert caught.value.code is Code.MISSING_FILE


# counts and accuracies: README of the data folder and the papers' sizes; trees on the private part only
@pytest.mark.parametrize(
    ("name", "sizes", "shapes", "accuracy"),
    [
        ("adult", {"num_test": 7769, "num_public": 10000, "num_private": 31073}, (31073, 10000, 7769), 0.845),
        ("a9a", {}, (24421, 4070, 4070), 0.82),
        ("cod-rna", {}, (44651, 7442, 7442), 0.94),
        ("mushroom", {"num_test": 1625, "num_public": 4000, "num_private": 2499}, (2499, 4000, 1625), 0.99),
        ("heart", {}, (460, 230, 230), 0.75),
        ("wine-type", {"num_test": 1059, "num_public": 4100, "num_private": 136}, (136, 4100, 1059), 0.95),
    ],
)
def test_published_tables_have_the_published_sizes_and_first_look_accuracy(data_root, name, sizes, shapes, accuracy):
    pool = load_pool(name, seed=0, data_root=data_root, **sizes)
    check_pool(pool, *shapes, pool.X.shape[1])
    assert forest_accuracy(pool) > accuracy
    if name == "adult":
        assert np.bincount(np.concatenate([pool.y, pool.public.y, pool.y_test])).tolist() == [37155, 11687]
        assert sum(column.kind == "numeric" for column in pool.public.schema.columns) == 6
    if name == "a9a":
        assert set(np.unique(pool.X)) == {0.0, 1.0}
        assert 0.10 < pool.X.mean() < 0.13  # 14 of 123 columns at most
    if name == "wine-type":
        assert "quality" in pool.public.schema.column_names
        assert len(load_pool(name, seed=0, data_root=data_root).X) == 2660  # half of 5,320 different rows


@pytest.mark.parametrize(
    ("name", "train", "test", "classes"),
    [
        ("mnist", 60000, 10000, 10),
        ("fashion-mnist", 60000, 10000, 10),
        ("emnist-letters", 124800, 20800, 26),
        ("cifar100", 3000, 600, 6),
    ],
)
def test_published_images_have_the_published_sizes(data_root, name, train, test, classes):
    source = read_published(name, data_root)
    assert (len(source.table), len(source.test_table), len(source.classes)) == (train, test, classes)
    counts = np.bincount(source.y)
    assert counts.tolist() == [train // classes] * classes or (name == "mnist" and counts.min() > 5000)
    assert (source.table.min(), source.table.max()) == (0, 255)
    if name == "emnist-letters":  # a lower-case l, upright, is tall and narrow: ink varies more across than down
        letter_l = source.table[source.y == ord("l") - ord("a")].mean(axis=0).reshape(28, 28)
        assert letter_l.sum(axis=0).std() > letter_l.sum(axis=1).std()


IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


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
