import numpy as np
import pytest
from schemas import column

from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import Code, DataError

A = column("a")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schema(columns=(A,), classes=("yes",)), r"classes must name 2 to 32767 classes, got C = 1 \(yes\)"),
        (lambda: Schema(columns=(A,), classes=("1", "1.0")), "classes must have distinct names, got 1 more than once"),
        (lambda: Schema(columns=(A, A), classes=("0", "1")), "columns must have distinct names"),
        (lambda: Schema(columns=(A,), classes=("0", "1"), class_shares=(0.5, 0.6)), "class-shares must be one a class"),
        (lambda: Column(name="a", kind="date"), "kind of column 'a' must be one of numeric, categorical, text"),
    ],
)
def test_what_is_no_schema_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_toml_keeps_quotes_control_characters_order_and_shape(tmp_path):
    schema = Schema(
        columns=(column('b "quoted"\\', "ä\x7f\n", "😀"), column("a")),
        classes=("z", "a"),
        label="y",
        id_column="id",
        class_shares=(0.25, 0.75),
    )
    images = Schema(columns=(), classes=("0", "1"), shape=(1, 2, 2))
    for one in (schema, images):
        one.write(tmp_path / "schema.toml")
        assert Schema.read(tmp_path / "schema.toml") == one
    assert images.column_names == ("pixel-0", "pixel-1", "pixel-2", "pixel-3")


def test_labels_match_classes_as_text_in_any_type_and_others_are_named_with_the_way_out(schema):
    digits = Schema(columns=(), classes=("0", "1"), shape=(1,))
    for values in ([1, 0], [1.0, 0.0], ["1", " 0"], np.array(["1.0", "0"])):
        labels = digits.encode_labels(values)
        assert (labels.dtype, labels.tolist()) == (np.int16, [1, 0])
    with pytest.raises(DataError, match="'False', 'True' as value"):
        digits.encode_labels([True, False])
    with pytest.raises(DataError, match=r"'income' .*<=50K, >50K.*'<=50k' as value.*schema\.toml") as caught:
        schema.encode_labels(["<=50k", ">50K"])
    assert caught.value.code is Code.CLASS_OUTSIDE_SCHEMA
    with pytest.raises(DataError, match=r"'income' must hold a label in every row, got 1 of 2 .*row 2") as caught:
        schema.encode_labels([">50K", "?"])
    assert caught.value.code is Code.WRONG_DATA


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes = [", "must be TOML"),
        ("version = 2\nclasses = ['a', 'b']", "version .* must be 1, got 2"),
        ("version = 1\nclases = ['a', 'b']", "keys .* got 'clases'"),
        *(
            (f'version = 1\nclasses = ["a", "b"]\n{line}\n', message)
            for line, message in (
                ("columns = [{kind = 'numeric'}]", r"columns\.0\.name in"),
                ('shape = "abc"', "shape in .* be a valid tuple, got 'abc'"),
                ("shape = [inf]", r"shape\.0 in .* be a finite number"),
                ("shape = [-1, -1]", "shape must be that of at most"),
                ("shape = [100000, 100000]", "shape must be that of at most"),
                ('columns = [{name = "x", kind = "categorical", categories = "abc"}]', "be a valid tuple, got 'abc'"),
                ('columns = [{name = "x", kind = "numeric", units = "kg"}]', r"keys in .* got 'columns\.0\.units'"),
                ("columns = 5", "have classes, and name and kind per column"),
                ("target = 5", "have classes"),
                (f"x = {'[' * 2000}{']' * 2000}", "must be TOML"),
            )
        ),
    ],
)
def test_a_damaged_schema_or_a_value_of_another_type_is_refused_in_our_words(tmp_path, text, message):
    with pytest.raises(DataError, match=r"no file .*fedkd server schema PUBLIC_FILE") as caught:
        Schema.read(tmp_path / "schema.toml")
    assert caught.value.code is Code.MISSING_FILE
    (tmp_path / "schema.toml").write_text(text)
    with pytest.raises(DataError, match=message):
        Schema.read(tmp_path / "schema.toml")
