from __future__ import annotations

import dataclasses
import gzip
import struct
import sys
import types

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from fedkd_flwr.data.datasets import NAMES, load_pool
from fedkd_flwr.errors import Code, ConfigError, DataError


def _check_pool(pool, private, public, test, features):
    assert pool.X.shape == (private, features)
    assert pool.public.X.shape == (public, features)
    assert pool.X_test.shape == (test, features)
    for X, y in ((pool.X, pool.y), (pool.public.X, pool.public.y), (pool.X_test, pool.y_test)):
        assert X.dtype == np.float32
        assert X.flags.c_contiguous
        assert np.isfinite(X).all()
        assert y.dtype == np.int16
        assert y.shape == (len(X),)
        assert set(np.unique(y)) <= set(range(pool.public.num_classes))
    assert len(np.unique(pool.rows)) == private


def _forest_accuracy(pool):
    forest = RandomForestClassifier(30, random_state=0).fit(pool.X, pool.y)
    return forest.score(pool.X_test, pool.y_test)


@pytest.mark.parametrize(
    ("name", "rows", "features", "accuracy"),
    [
        ("digits", 1797, 64, 0.93),
        ("breast-cancer", 569, 30, 0.9),
        ("wine", 178, 13, 0.9),
        ("synthetic(rows=2000, classes=4)", 2000, 20, 0.8),
    ],
)
def test_embedded_sets_split_in_half_and_quarters_and_can_be_learnt(name, rows, features, accuracy):
    pool = load_pool(name, seed=0)
    quarter = round(rows / 4)
    _check_pool(pool, rows - 2 * quarter, quarter, quarter, features)
    assert _forest_accuracy(pool) > accuracy


@pytest.mark.parametrize(("features", "classes"), [(2, 2), (2, 3), (50, 10), (5, 20)])
def test_synthetic_data_is_neither_trivial_nor_hopeless_at_any_size(features, classes):
    pool = load_pool(f"synthetic(rows=2000, features={features}, classes={classes})", seed=3)
    assert 0.7 < _forest_accuracy(pool) < 0.99


def test_copied_test_rows_are_those_that_stand_among_the_private_ones_with_the_same_label_and_text(tmp_path):
    rng = np.random.default_rng(0)
    once = pd.DataFrame({"a": rng.normal(size=80), "b": rng.choice(["x", "y"], 80), "y": rng.integers(0, 2, 80)})
    once["text"] = [f"word{i % 7} and word{i % 5} are here, with number{i}" for i in range(80)]

    def copied(table, **keywords):
        table.to_csv(tmp_path / "table.csv", index=False)
        return load_pool("table", seed=1, table=str(tmp_path / "table.csv"), label="y", **keywords)

    assert copied(once).num_copied_test_rows() == 0
    twice = pd.concat([once, once])
    pool = copied(twice)
    private = set(map(tuple, np.c_[pool.X, pool.y]))
    assert pool.num_copied_test_rows() == sum(tuple(row) in private for row in np.c_[pool.X_test, pool.y_test])
    assert 10 < pool.num_copied_test_rows() < 40
    relabelled = pd.concat([once, once.assign(y=1 - once.y)])
    assert copied(relabelled).num_copied_test_rows() == 0
    assert copied(pd.concat([once, once.assign(a=once.a + 1)])).num_copied_test_rows() == 0
    reordered = once.assign(text=[" ".join(reversed(text.split())) for text in once.text])
    assert copied(pd.concat([once, reordered])).num_copied_test_rows() == 0


def test_same_seed_same_split_other_seed_other_split():
    one, again, other = (load_pool("digits", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.rows, again.rows)
    assert one.public.fingerprint == again.public.fingerprint
    assert not np.array_equal(one.rows, other.rows)


def test_private_public_and_test_rows_are_disjoint():
    pool = load_pool("digits", seed=0)
    rows = np.concatenate([pool.X, pool.public.X, pool.X_test])
    assert len(np.unique(rows, axis=0)) == len(rows)  # no two digits images are the same


def test_published_breast_cancer_sizes_are_reachable():
    _check_pool(load_pool("breast-cancer", seed=0, num_test=114, num_public=370, num_private=85), 85, 370, 114, 30)


def test_explicit_rows_are_taken_as_given():
    rows = {"public": np.array([5, 3]), "test": np.array([0])}
    pool = load_pool("wine", seed=0, rows=rows)
    assert pool.rows.tolist() == [row for row in range(178) if row not in (0, 3, 5)]
    assert load_pool("wine", seed=0, rows={**rows, "private": np.array([9])}).rows.tolist() == [9]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"public": [1], "test": [1]}, "name each row of the train file once"),
        ({"public": [178], "test": [1]}, r"rows\['public'\] must be row numbers below 178 of 'wine', got 178 to 178"),
        ({"public": [], "test": [1]}, r"rows\['public'\] .* got 'none'"),
        ({"test": [1]}, "must have 'public', 'test'"),
    ],
)
def test_bad_explicit_rows_are_refused(rows, message):
    with pytest.raises(DataError, match=message):
        load_pool("wine", seed=0, rows={key: np.array(value, dtype=int) for key, value in rows.items()})


def test_asking_for_more_rows_than_there_are_gives_the_numbers():
    with pytest.raises(DataError, match=r"at most the 178 rows of 'wine', got 290 \(200 public, 44 test, 46 private\)"):
        load_pool("wine", seed=0, num_public=200, num_private=46)


def test_leaving_no_private_rows_is_refused():
    with pytest.raises(
        DataError, match=r"leave at least one of each part, got 134 public, 44 test, 0 private\. Give more rows, or"
    ) as caught:
        load_pool("wine", seed=0, num_public=134)
    assert caught.value.code is Code.NO_ROWS


def test_negative_size_is_refused():
    with pytest.raises(ConfigError, match="num-test must be a whole number >= 0, got -1"):
        load_pool("wine", seed=0, num_test=-1)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"dataset must be one of digits, .*fashion-mnist.*, got 'iris'"):
        load_pool("iris", seed=0)


def test_public_rows_from_a_test_file_that_does_not_exist_are_refused():
    with pytest.raises(
        ConfigError, match=r"paper\.public-from must be 'train', or 'test' for a set with an official test file"
    ):
        load_pool("wine", seed=0, public_from="test")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("synthetic", "table")])
def test_missing_data_root_names_the_key_and_the_file(name, tmp_path):
    if name in ("digits", "breast-cancer", "wine"):
        assert len(load_pool(name, seed=0).X)
        return
    with pytest.raises(
        DataError, match=r"data-root must be a folder with .+/.+ for the data set .*Give data-root=/path/to/data"
    ) as caught:
        load_pool(name, seed=0, data_root=tmp_path)
    assert caught.value.code is Code.MISSING_FILE
    with pytest.raises(DataError, match="data-root"):
        load_pool(name, seed=0)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ("features=2, classes=5", "features of synthetic must place 5 classes apart, got 2"),
        ("classes=1", "classes of synthetic must be a whole number >= 2"),
        ("columns=4", "parameter of synthetic must be rows, features or classes of synthetic, got 'columns'"),
        ("rows=10, classes=4", "rows of synthetic must be >= 16 for 4 classes, got 10"),
    ],
)
def test_impossible_synthetic_sizes_are_refused(sizes, message):
    with pytest.raises((ConfigError, DataError), match=message):
        load_pool(f"synthetic({sizes})", seed=0)


@pytest.fixture
def user_file(tmp_path):
    rng = np.random.default_rng(0)
    job = rng.choice(["cook", "smith", "poet"], 80)
    frame = pd.DataFrame({"job": job, "age": rng.integers(20, 60, 80), "rich": np.where(job == "smith", "yes", "no")})
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_a_users_labelled_file_becomes_a_federation(user_file):
    pool = load_pool("table", seed=0, table=str(user_file), label="rich")
    _check_pool(pool, 40, 20, 20, 4)
    assert pool.public.schema.classes == ("no", "yes")
    assert _forest_accuracy(pool) == 1.0


def test_a_users_schema_is_used(user_file):
    first = load_pool("table", seed=0, table=str(user_file), label="rich").public.schema
    schema = dataclasses.replace(first, columns=first.columns[::-1], classes=("yes", "no"))
    schema.write(user_file.parent / "schema.toml")
    pool = load_pool("table", seed=0, table=str(user_file), schema_path=str(user_file.parent / "schema.toml"))
    _check_pool(pool, 40, 20, 20, 4)
    assert pool.public.schema == schema


def test_categories_come_from_the_public_rows_only(user_file):
    frame = pd.read_csv(user_file)
    frame.loc[0, "job"] = "astronaut"
    frame.to_csv(user_file, index=False)
    rows = {"public": np.arange(40, 60), "test": np.arange(60, 80)}
    pool = load_pool("table", seed=0, table=str(user_file), label="rich", rows=rows)
    assert "astronaut" not in pool.public.schema.columns[0].categories
    assert pool.X[0, :3].tolist() == [0, 0, 0]


@pytest.fixture
def public_file(user_file):
    folder = user_file.parent / "public"
    folder.mkdir()
    pd.read_csv(user_file).iloc[:10].to_csv(folder / "public.csv", index=False)
    return folder / "public.csv"


def test_a_file_of_public_rows_leaves_all_others_to_the_parties_and_is_read_as_the_table_is(user_file, public_file):
    pool = load_pool("table", seed=0, table=str(user_file), label="rich", public_rows=str(public_file))
    _check_pool(pool, 60, 10, 20, 4)
    kept = load_pool(
        "table", seed=0, table=str(user_file), label="rich", public_rows=str(public_file), hold_out_public=True
    )
    own = load_pool("table", seed=0, table=str(user_file), label="rich")
    assert np.array_equal(kept.rows, own.rows)
    assert kept.public.num_rows == 10
    rows = {"public": np.arange(40, 60), "test": np.arange(60, 80)}
    split = load_pool("table", seed=0, table=str(user_file), label="rich", public_rows=str(public_file), rows=rows)
    assert (len(split.rows), split.public.num_rows) == (40, 10)


def test_classes_keep_their_names_where_the_public_file_s_schema_has_them_in_another_order(user_file, public_file):
    own = load_pool("table", seed=0, table=str(user_file), label="rich")
    schema = dataclasses.replace(own.public.schema, classes=("perhaps", "yes", "no"))
    schema.write(public_file.parent / "schema.toml")
    pool = load_pool("table", seed=0, table=str(user_file), label="rich", public_rows=str(public_file))
    assert pool.public.schema == schema
    truth = pd.read_csv(user_file).rich
    assert [schema.classes[label] for label in pool.y] == truth[pool.rows].tolist()
    assert {schema.classes[label] for label in pool.y_test} == {"no", "yes"}
    assert sorted(schema.classes[label] for label in pool.public.y) == sorted(truth[:10])
    dataclasses.replace(schema, classes=("perhaps", "yes")).write(public_file.parent / "schema.toml")
    with pytest.raises(DataError, match=r"schema .* must name each class of the data, no, yes, got no no"):
        load_pool("table", seed=0, table=str(user_file), label="rich", public_rows=str(public_file))


def test_public_rows_of_a_named_set_need_a_schema(public_file):
    with pytest.raises(DataError, match=r"public-rows must be a file with schema\.toml beside it"):
        load_pool("wine", seed=0, public_rows=str(public_file))


def test_a_wrong_label_column_of_a_users_file_lists_the_columns(user_file):
    with pytest.raises(DataError, match=r"label must be a column of .* got 'wealthy'\. Its columns are job, age, rich"):
        load_pool("table", seed=0, table=str(user_file), label="wealthy")


def test_a_users_file_of_one_class_is_refused(user_file):
    frame = pd.read_csv(user_file).assign(rich="no")
    frame.to_csv(user_file, index=False)
    with pytest.raises(DataError, match="must hold at least two classes, got C = 1"):
        load_pool("table", seed=0, table=str(user_file), label="rich")


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
    _check_pool(from_train, 30, 10, 20, 784)
    from_test = load_pool("mnist", seed=0, data_root=tiny_mnist, public_from="test", num_private=35)
    _check_pool(from_test, 35, 10, 10, 784)
    together = np.concatenate([from_test.public.X, from_test.X_test])
    assert sorted(np.rint(together[:, 0] * 255)) == list(range(20))
    assert np.rint(from_test.X[:, 0] * 255).astype(int).tolist() == from_test.rows.tolist()
    assert from_train.public.shape == (1, 28, 28)


def test_labels_that_do_not_match_the_images_in_number_are_refused(tiny_mnist):
    file = tiny_mnist / "MNIST" / "raw" / "t10k-labels-idx1-ubyte"
    file.write_bytes(struct.pack(">HBBI", 0, 8, 1, 19) + bytes(19))
    with pytest.raises(DataError, match="labels of 'mnist' must number 20, as the images, got 19"):
        load_pool("mnist", seed=0, data_root=tiny_mnist)


def test_svhn_goes_through_torchvisions_loader(tmp_path, monkeypatch):
    def svhn(root, split, download):
        assert root == str(tmp_path / "svhn")
        n = 40 if split == "train" else 8
        return types.SimpleNamespace(data=np.zeros((n, 3, 32, 32), dtype=np.uint8), labels=np.arange(n) % 10)

    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn" / "train_32x32.mat").touch()
    module = types.ModuleType("torchvision")
    module.datasets = types.SimpleNamespace(SVHN=svhn)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", module)
    pool = load_pool("svhn", seed=0, data_root=tmp_path)
    _check_pool(pool, 30, 10, 8, 3072)
    assert pool.public.shape == (3, 32, 32)


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
    ],
)
def test_published_tables_have_the_published_sizes_and_first_look_accuracy(data_root, name, sizes, shapes, accuracy):
    pool = load_pool(name, seed=0, data_root=data_root, **sizes)
    _check_pool(pool, *shapes, pool.X.shape[1])
    assert _forest_accuracy(pool) > accuracy


@pytest.mark.parametrize(
    ("name", "sizes", "shapes"),
    [
        ("mnist", {"public_from": "test", "num_public": 5000, "num_private": 50000}, (50000, 5000, 5000)),
        ("fashion-mnist", {"num_public": 50000, "num_private": 10000}, (10000, 50000, 10000)),
        ("emnist-letters", {"num_private": 5000, "num_public": 1000}, (5000, 1000, 20800)),
        ("cifar100", {}, (2250, 750, 600)),
    ],
)
def test_published_images_have_the_published_sizes(data_root, name, sizes, shapes):
    pool = load_pool(name, seed=0, data_root=data_root, **sizes)
    _check_pool(pool, *shapes, 3072 if name == "cifar100" else 784)
    assert pool.X.min() == 0
    assert pool.X.max() == 1


def test_a9a_stays_binary(data_root):
    assert set(np.unique(load_pool("a9a", seed=0, data_root=data_root).X)) == {0.0, 1.0}


def test_emnist_letters_stand_upright(data_root):
    pool = load_pool("emnist-letters", seed=0, data_root=data_root, num_private=20000, num_public=10)
    letter_l = pool.X[pool.y == ord("l") - ord("a")].mean(axis=0).reshape(28, 28)
    # a lower-case l, upright, is tall and narrow: ink varies more across than down
    assert letter_l.sum(axis=0).std() > letter_l.sum(axis=1).std()


def test_wine_type_has_quality_as_a_feature_and_no_duplicates(data_root):
    pool = load_pool("wine-type", seed=0, data_root=data_root)
    _check_pool(pool, 2660, 1330, 1330, 12)  # 5,320 rows in all
    assert "quality" in pool.public.schema.column_names


def test_adult_has_both_files_and_every_label(data_root):
    pool = load_pool("adult", seed=0, data_root=data_root)
    labels = np.concatenate([pool.y, pool.public.y, pool.y_test])
    assert np.bincount(labels).tolist() == [37155, 11687]
    assert sum(column.kind == "numeric" for column in pool.public.schema.columns) == 6
