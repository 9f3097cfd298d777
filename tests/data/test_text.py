from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tiny_text
from schemas import column, schema_of
from sklearn.feature_extraction.text import TfidfVectorizer

from fedkd_flwr.data.look import infer_schema, look
from fedkd_flwr.data.public import Preprocessor, fingerprint, make_public_set
from fedkd_flwr.data.rules import Rules
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import load_party_table, load_public
from fedkd_flwr.data.text import TermWeights, TextRows, text_values
from fedkd_flwr.errors import ConfigError, DataError

NOTES = schema_of(column("title", kind="text"), column("age"), column("body", kind="text", max_terms=2))
TABLE = pd.DataFrame({"title": ["One night", None], "age": [1, 3], "body": ["no no sleep\r\nat all", "sleep well"]})
TABLE["label"] = ["no", "yes"]
READER = SimpleNamespace(takes_text=True)


def test_words_and_weights_come_from_the_public_texts_alone():
    public = make_public_set(TABLE, NOTES)
    secret = TABLE.assign(title=["patient zero", "patient zero night"])
    assert public.preprocessor.feature_names == ("title:night", "title:one", "age", "body:all", "body:sleep")
    rows = public.features(secret)
    assert rows[:, :2].tolist() == [[0, 0], [1, 0]]
    assert rows.dtype == np.float32
    assert public.preprocessor.feature_names == make_public_set(TABLE, NOTES).preprocessor.feature_names


def test_the_weights_are_scikit_learn_s():
    frame = tiny_text.table(40)
    ours = TermWeights().fit(frame["review"].to_numpy(object), max_terms=2000, name="review")
    theirs = TfidfVectorizer().fit(frame["review"])
    assert list(ours.terms) == theirs.get_feature_names_out().tolist()
    other = tiny_text.table(10, seed=1)["review"]
    np.testing.assert_allclose(ours.transform(other.to_numpy(object)), theirs.transform(other).toarray(), rtol=1e-6)


def test_most_frequent_words_are_kept_and_ties_go_by_the_alphabet_whatever_the_order_of_rows():
    values = np.array(["pear apple fig", "fig plum", "plum kiwi"], dtype=object)  # fig and plum twice, three words once
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        assert TermWeights().fit(values[order], max_terms=3, name="x").terms == ("apple", "fig", "plum")
    # counted in rows, so that one long text does not decide
    loud = np.array(["ho ho ho ho", "fig plum", "fig plum"], dtype=object)
    assert TermWeights().fit(loud, max_terms=2, name="x").terms == ("fig", "plum")


def test_values_are_one_text_from_every_file_and_none_where_missing():
    values = [" so good\r\nagain ", None, float("nan"), "NA", "", 7, 7.0, "007"]
    assert text_values(pd.Series(values, dtype=object)).tolist() == ["so good\nagain", "", "", "", "", "7", "7", "007"]
    assert text_values([]).tolist() == []


def test_a_model_that_reads_gets_text_columns_in_order_and_nothing_else():
    public = make_public_set(TABLE, NOTES, y=np.array([0, 1], dtype=np.int16))
    read = public.as_read_by(READER)
    assert read.X.tolist() == [["One night\nno no sleep\nat all"], ["sleep well"]]  # an empty title leaves no line
    assert (read.num_rows, read.num_features, read.fingerprint) == (2, 1, public.fingerprint)
    assert read.features(TABLE[["body", "title"]].iloc[1:]).tolist() == [["sleep well"]]
    assert read.y is public.y
    assert public.as_read_by(object()) is public  # a model of numbers


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_csv_and_parquet_give_one_fingerprint_one_text_and_one_set_of_features(tmp_path, suffix):
    frame = TABLE.assign(title=['Said "never", then left', None])
    path = tmp_path / f"public.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    NOTES.write(tmp_path / "schema.toml")
    public, direct = load_public(path), make_public_set(frame, NOTES)
    assert public.fingerprint == direct.fingerprint
    assert public.X.tolist() == direct.X.tolist()
    reader = public.as_read_by(READER)
    X, y = load_party_table(path, public.schema, reader.preprocessor)
    assert X.tolist() == reader.X.tolist() == [['Said "never", then left\nno no sleep\nat all'], ["sleep well"]]
    assert y.tolist() == [0, 1]
    assert load_party_table(path, public.schema, public.preprocessor)[0].tolist() == direct.X.tolist()


def test_a_missing_text_is_all_zeros_and_so_is_one_of_unknown_words_and_public_texts_need_one():
    rows = Preprocessor().fit(TABLE, NOTES).transform(TABLE.assign(title=[None, "NA"], body=["?", "zebra"]))
    assert rows[:, [0, 1, 3, 4]].tolist() == [[0, 0, 0, 0]] * 2
    with pytest.raises(DataError, match="public texts in column 'title' must hold words, got 'none'"):
        make_public_set(TABLE.assign(title=["?", "!"]), NOTES)


def test_a_reader_takes_arrays_too_and_names_the_text_columns_it_lacks(people, schema):
    matrix = TABLE[["title", "age", "body"]].to_numpy(dtype=object)
    assert TextRows(NOTES).transform(matrix).tolist() == TextRows(NOTES).transform(TABLE).tolist()
    with pytest.raises(DataError, match="include the schema's text columns, got a table without body"):
        TextRows(NOTES).transform(TABLE[["title"]])
    with pytest.raises(ConfigError, match=r"schema must have a column of kind 'text' .* only age \(numeric\), job"):
        make_public_set(people, schema).as_read_by(READER)


def test_a_cap_is_a_count_that_the_file_and_the_fingerprint_keep():
    assert Schema.from_toml(NOTES.to_toml()) == NOTES
    assert "max-terms = 2\n" in NOTES.to_toml()
    wider = Schema(columns=(*NOTES.columns[:2], column("body", kind="text", max_terms=3)), classes=NOTES.classes)
    other = TABLE.assign(title=["Two nights", None])
    assert len({fingerprint(TABLE, NOTES), fingerprint(TABLE, wider), fingerprint(other, NOTES)}) == 3
    for cap in (0, True, 2.5):
        with pytest.raises(DataError, match="max-terms of column 'x' must be a whole number >= 1"):
            column("x", kind="text", max_terms=cap)


def test_prose_is_text_short_or_repeated_words_are_categories_and_names_are_left_out_unless_called_text():
    frame = pd.DataFrame({"review": [f"this is a long review number{i} of some film" for i in range(30)]})
    same = {"ward": "ward 1", "said": "he said it was all the same to him"}
    frame = frame.assign(**same, name=[f"person {i}" for i in range(30)])
    columns = infer_schema(frame, classes=["no", "yes"]).columns
    kinds = [("review", "text"), ("ward", "categorical"), ("said", "categorical")]
    assert [(one.name, one.kind) for one in columns] == kinds
    found = look(frame, label="label", rules=Rules(text=("name",)), needs_label=False)
    assert [one.kind for one in found.columns if one.name == "name"] == ["text"]
