import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.look import Rules
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import load_public, load_usable_rows, read_table
from fedkd_flwr.data.write_schema import infer_schema, look_at_file
from fedkd_flwr.errors import DataError


def test_inference_tells_numbers_from_categories_and_leaves_out_label_and_id(people):
    table = people.assign(id=["a", "b", "c"], rank=["1", "?", "2.5"], flag=[True, False, True])
    schema = infer_schema(table, classes=("<=50K", ">50K"), label="income", id_column="id")
    assert {c.name: c.kind for c in schema.columns} == {
        "age": "numeric",
        "job": "categorical",
        "rank": "numeric",
        "flag": "categorical",
    }
    assert schema.columns[1].categories == ("cook", "smith")


def test_inference_without_classes_or_label_column_is_refused(people):
    with pytest.raises(DataError, match=r"classes must be named, .*no label column 'target'.*--classes"):
        infer_schema(people, label="target")


def test_the_next_command_repeats_what_was_given(tmp_path):
    path = tmp_path / "my file.csv"
    path.write_text("id;x;y\n" + "".join(f"{i};{i % 3};{i % 2}\n" for i in range(30)))
    found, schema = look_at_file(
        path, label="y", rules=Rules(date_order="day-first"), options={"output": "s.toml", "no": ""}
    )
    assert (
        found.command == f"fedkd server schema '{path}' --label y --output s.toml --date-order day-first --id-column id"
    )
    assert schema.id_column == "id"


def test_a_silo_reads_its_raw_file_as_the_public_one_was_read(tmp_path):
    public = ["dose;day;y", *(f"{i},5;{i + 1:02d}.03.2021;{'no' if i % 2 else 'yes'}" for i in range(28))]
    (tmp_path / "public.csv").write_text("\n".join([*public, "<0,5;29.03.2021;no"]))
    _, schema = look_at_file(tmp_path / "public.csv", label="y")
    schema.write(tmp_path / "schema.toml")
    assert Schema.read(tmp_path / "schema.toml") == schema
    read = load_public(tmp_path / "public.csv")
    (tmp_path / "own.csv").write_text("y;dose;day\nno;0,5;1.3.2021\nyes;<0,5;01.03.2021\nno;0.5;01.03.2021\nno;-;\n")
    own = load_usable_rows(tmp_path / "own.csv", read)
    assert own.y.tolist() == [0, 1, -1, 0]  # a decimal point is no number here, and costs its own row only
    assert (own.X[0] == read.X[0]).all()
    assert (own.X[1] == read.X[0]).all()
    frame = pd.DataFrame({"dose": [*(i + 0.5 for i in range(28)), 0.5], "day": pd.date_range("2021-03-01", periods=29)})
    frame["y"] = [*("no" if i % 2 else "yes" for i in range(28)), "no"]
    frame.to_parquet(tmp_path / "public.parquet")
    assert load_public(tmp_path / "public.parquet").fingerprint == read.fingerprint


def _images(path, shape=(40, 3, 8, 6), dtype=np.uint8, **arrays):
    X = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)
    np.savez(path, X=X, y=np.arange(len(X)) % 2, **arrays)
    return X


@pytest.mark.parametrize(("shape", "written"), [((40, 8, 6), (1, 8, 6)), ((40, 3, 8, 6), (3, 8, 6))])
def test_images_keep_their_shape_in_the_schema_and_in_a_simulation(tmp_path, shape, written):
    """Each pixel became a column of numbers, and nets for images were refused."""
    X = _images(tmp_path / "im.npz", shape)
    found, schema = look_at_file(tmp_path / "im.npz", label="kind")
    assert (schema.shape, schema.columns, schema.classes) == (written, (), ("0", "1"))
    assert found.notes[0].read_as == f"images, {' x '.join(map(str, written))} (channels, height, width)"
    schema.write(tmp_path / "schema.toml")
    public = load_public(tmp_path / "im.npz")
    assert public.shape == written
    np.testing.assert_array_equal(np.round(public.X * 255), X.reshape(40, -1))
    pool = load_pool("table", seed=1, table=str(tmp_path / "im.npz"), label="kind")
    assert pool.public.shape == written
    assert [note.read_as for note in pool.columns] == [found.notes[0].read_as, "label, 2 classes"]


def test_an_npz_file_of_other_arrays_than_pixels_is_a_table(tmp_path):
    _images(tmp_path / "floats.npz", dtype=np.float32)
    assert read_table(tmp_path / "floats.npz").attrs["shape"] is None
    _images(tmp_path / "matrix.npz", (40, 6))
    assert read_table(tmp_path / "matrix.npz").attrs["shape"] is None
    assert look_at_file(tmp_path / "matrix.npz", label="y")[1].shape is None


def test_images_with_channels_last_and_rules_for_columns_are_refused(tmp_path):
    _images(tmp_path / "im.npz")
    _images(tmp_path / "last.npz", (40, 8, 6, 3))
    with pytest.raises(DataError, match=r"channels, height, width\), got \(40, 8, 6, 3\).*X.transpose\(0, 3, 1, 2\)"):
        look_at_file(tmp_path / "last.npz", label="y")
    images = look_at_file(tmp_path / "im.npz", label="y")[1]
    with pytest.raises(DataError, match=r"channels, height, width\), got \(40, 8, 6, 3\)"):
        read_table(tmp_path / "last.npz", images)  # as many pixels, in another order: a silo's model learnt from these
    with pytest.raises(DataError, match="drop must be given for a table, not for images, got 'pixel-0'"):
        look_at_file(tmp_path / "im.npz", label="y", rules=Rules(drop=("pixel-0",)))
