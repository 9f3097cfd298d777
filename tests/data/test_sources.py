"""A user's own table as the source of a simulation: its schema, its public rows, and what is refused."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.sources import read_user_table
from fedkd_flwr.errors import DataError


@pytest.fixture
def user_file(tmp_path):
    rng = np.random.default_rng(0)
    job = rng.choice(["cook", "smith", "poet"], 80)
    frame = pd.DataFrame({"job": job, "age": rng.integers(20, 60, 80), "rich": np.where(job == "smith", "yes", "no")})
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def _pool(table, **more):
    paths = {key: str(value) if key in ("public_rows", "schema_path") else value for key, value in more.items()}
    return load_pool("table", seed=0, table=str(table), **{"label": "rich", **paths})


def test_a_users_schema_is_used(user_file):
    first = _pool(user_file).public.schema
    schema = dataclasses.replace(first, columns=first.columns[::-1], classes=("yes", "no"))
    schema.write(user_file.parent / "schema.toml")
    pool = _pool(user_file, schema_path=user_file.parent / "schema.toml")
    assert pool.public.schema == schema


def test_categories_come_from_the_public_rows_only(user_file):
    frame = pd.read_csv(user_file)
    frame.loc[0, "job"] = "astronaut"
    frame.to_csv(user_file, index=False)
    rows = {"public": np.arange(40, 60), "test": np.arange(60, 80)}
    pool = _pool(user_file, rows=rows)
    assert "astronaut" not in pool.public.schema.columns[0].categories
    assert pool.X[0, :3].tolist() == [0, 0, 0]


@pytest.fixture
def public_file(user_file):
    folder = user_file.parent / "public"
    folder.mkdir()
    pd.read_csv(user_file).iloc[:10].to_csv(folder / "public.csv", index=False)
    return folder / "public.csv"


def test_a_file_of_public_rows_leaves_all_others_to_the_parties_and_is_read_as_the_table_is(user_file, public_file):
    pool = _pool(user_file, public_rows=public_file)
    assert (len(pool.X), len(pool.public.X), len(pool.X_test)) == (60, 10, 20)
    kept = _pool(user_file, public_rows=public_file, hold_out_public=True)
    own = _pool(user_file)
    assert np.array_equal(kept.rows, own.rows)
    assert kept.public.num_rows == 10
    rows = {"public": np.arange(40, 60), "test": np.arange(60, 80)}
    split = _pool(user_file, public_rows=public_file, rows=rows)
    assert (len(split.rows), split.public.num_rows) == (40, 10)


def test_public_rows_that_lack_a_column_are_refused_by_its_name(user_file, tmp_path):
    table = pd.read_csv(user_file).iloc[:10]
    table.drop(columns=table.columns[1]).to_csv(tmp_path / "fewer.csv", index=False)
    with pytest.raises(DataError, match=f"must have each column .*none of the name {table.columns[1]}"):
        _pool(user_file, public_rows=tmp_path / "fewer.csv")


def test_classes_keep_their_names_where_the_public_file_s_schema_has_them_in_another_order(user_file, public_file):
    own = _pool(user_file)
    schema = dataclasses.replace(own.public.schema, classes=("perhaps", "yes", "no"))
    schema.write(public_file.parent / "schema.toml")
    pool = _pool(user_file, public_rows=public_file)
    assert pool.public.schema == schema
    truth = pd.read_csv(user_file).rich
    assert [schema.classes[label] for label in pool.y] == truth[pool.rows].tolist()
    assert {schema.classes[label] for label in pool.y_test} == {"no", "yes"}
    assert sorted(schema.classes[label] for label in pool.public.y) == sorted(truth[:10])
    dataclasses.replace(schema, classes=("perhaps", "yes")).write(public_file.parent / "schema.toml")
    with pytest.raises(DataError, match=r"schema .* must name each class of the data, no, yes, got no no"):
        _pool(user_file, public_rows=public_file)


def test_a_user_s_file_without_labels_of_two_classes_or_a_schema_is_refused(user_file, public_file):
    with pytest.raises(DataError, match=r"public-rows must be a file with schema\.toml beside it"):
        load_pool("wine", seed=0, public_rows=str(public_file))
    with pytest.raises(DataError, match=r"label must be a column of .* got 'wealthy'\. Its columns are job, age, rich"):
        _pool(user_file, label="wealthy")
    pd.read_csv(user_file).assign(rich="no").to_csv(user_file, index=False)
    with pytest.raises(DataError, match="must hold at least two classes, got C = 1"):
        _pool(user_file)


def test_a_row_without_a_label_leaves_the_others_with_their_party(tmp_path):
    rows = pd.DataFrame({"x": range(12), "ward": ["a", "b", "b"] * 4, "y": ["no", "yes", ""] * 4})
    rows.to_csv(tmp_path / "t.csv", index=False)
    source = read_user_table(str(tmp_path / "t.csv"), "y", partition_column="ward")
    assert (source.parties.tolist(), source.rows_left_out) == (["a", "b"] * 4, 4)
    assert "left out: it says whose row it is" in [note.read_as for note in source.looked.notes]


def test_a_column_that_one_party_names_otherwise_is_asked_about(tmp_path):
    for party, age in (("north", "age"), ("south", "Age"), ("west", "age")):
        rows = pd.DataFrame({age: range(20, 60), "y": ["no", "yes"] * 20})
        rows.to_csv(tmp_path / f"{party}.csv", index=False)
    notes = [one.note for one in read_user_table(tables=str(tmp_path), label="y").looked.notes if not one.name]
    assert notes[-1] == "Is 'Age' what others call 'age'? Then give it one name everywhere."
