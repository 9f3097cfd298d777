"""Labels that are grades or numbers: what is asked, how they are read, and what a schema and a source keep."""

import numpy as np
import pandas as pd
import pytest
from schemas import column, schema_of

from fedkd_flwr.data.look import look, look_at_file
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.rules import Rules
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.sources import read_user_table
from fedkd_flwr.data.tables import load_public, load_usable_rows
from fedkd_flwr.errors import DataError
from fedkd_flwr.labels.target import Target, bins_at

AGES = pd.DataFrame({"bmi": np.linspace(18, 40, 60), "age": np.linspace(20, 79, 60).astype(int)})
NUMBER = Rules(target="number(edges=[0, 40, 60, 100], unit='years')")


def _age_note(found):
    return next(one for one in found.notes if one.name == "age")


def test_many_numbers_are_asked_about_with_a_command_for_each_answer_and_texts_are_classes_however_many():
    with pytest.raises(DataError, match="label column 'age' must be said what it is") as refused:
        look(AGES, label="age")
    answers = [line.rpartition("--target ")[2] for line in str(refused.value).splitlines()[1:]]
    assert answers == ["number", "grades", "classes"]
    assert len(look(AGES, label="age", rules=Rules(target="classes")).classes) == 60
    assert len(look(AGES.assign(age=AGES.age // 10), label="age").classes) == 6
    texts = AGES.assign(age=[f"ward {i % 30}" for i in range(60)])
    assert len(look(texts, label="age").classes) == 30


@pytest.mark.parametrize("spell", [lambda text: text.replace(".", ","), lambda text: f"{text} EUR"])
def test_a_label_of_decimal_commas_or_units_is_asked_about_and_read_as_other_columns_are(spell, tmp_path):
    prices = np.linspace(10.5, 40.25, 60).round(2)
    table = pd.DataFrame({"bmi": np.linspace(18, 40, 60), "price": [spell(f"{price:.2f}") for price in prices]})
    with pytest.raises(DataError, match="must be said what it is, got 60 different numbers"):
        look(table, label="price")
    table.to_csv(tmp_path / "prices.csv", index=False)
    source = read_user_table(str(tmp_path / "prices.csv"), "price", rules=Rules(target="number"))
    assert source.numbers.tolist() == prices.tolist()


def test_bounds_make_bins_named_by_them_rows_outside_are_counted_and_quantiles_are_said_to_be_of_the_table():
    found = look(AGES, label="age", rules=NUMBER)
    assert found.classes == ("0 to 40", "40 to 60", "60 to 100")
    assert found.target == bins_at([0, 40, 60, 100], unit="years")
    note = _age_note(look(AGES, label="age", rules=Rules(target="number")))
    assert note.read_as == "label, a number in 10 bins"
    assert "quantiles of the whole table" in note.note
    found = look(AGES, label="age", rules=Rules(target="number(edges=[30, 40, 60, 70])"))
    assert "outside all belong to the nearest" in _age_note(found).note
    assert found.target.encode(np.array([1.0, 99.0])).tolist() == [0, 2]


def test_grades_keep_their_order_and_stand_for_their_numbers_or_places_and_a_number_is_no_text():
    found = look(AGES.assign(age=AGES.age % 3 + 3), label="age", rules=Rules(target="grades"))
    assert (found.classes, found.target.values) == (("3", "4", "5"), (3.0, 4.0, 5.0))
    words = AGES.assign(age=np.array(["mild", "severe", "moderate"])[AGES.age % 3])
    order = Rules(target="grades(order=['mild', 'moderate', 'severe'])")
    assert look(words, label="age", rules=order).target.values == (1.0, 2.0, 3.0)
    with pytest.raises(DataError, match="grades without an order must be numbers"):
        look(words, label="age", rules=Rules(target="grades"))
    with pytest.raises(DataError, match=r"only the grades of its order.*'severe'"):
        look(words, label="age", rules=Rules(target="grades(order=['mild', 'moderate'])"))
    with pytest.raises(DataError, match="column 'age' must hold numbers"):
        look(AGES.assign(age="old"), label="age", rules=Rules(target="number"))


def test_a_schema_with_a_target_survives_its_file_and_bounds_alone_are_enough():
    target = bins_at([0, 40, 60, 100], unit="years")
    schema = schema_of(column("bmi"), classes=("40", "60", "100"), label="age", target=target)
    assert Schema.from_toml(schema.to_toml()) == schema
    short = '[target]\nedges = [0, 40, 60, 100]\n[[columns]]\nname = "bmi"\nkind = "numeric"\n'
    found = Schema.from_toml(f'version = 1\nlabel = "age"\n{short}')
    assert found.classes == ("0 to 40", "40 to 60", "60 to 100")
    assert found.encode_labels(["39.9", 40, "60"]).tolist() == [0, 1, 2]
    assert found.known_labels(["39.9", "", "old"]).tolist() == [True, False, False]
    with pytest.raises(DataError, match="hold a label in every row"):
        found.encode_labels(["39", ""])


def _file(path, table):
    table.to_csv(path, index=False)
    return path


def test_a_schema_is_written_from_bounds_where_public_rows_have_no_label(tmp_path):
    path = _file(tmp_path / "public.csv", AGES[["bmi"]])
    assert look_at_file(path, label="age", rules=NUMBER)[1].target.edges == (0.0, 40.0, 60.0, 100.0)


def test_a_silo_keeps_the_numbers_of_usable_rows(tmp_path):
    look_at_file(_file(tmp_path / "public.csv", AGES), label="age", rules=NUMBER)[1].write(tmp_path / "schema.toml")
    public = load_public(tmp_path / "public.csv")
    held = load_usable_rows(_file(tmp_path / "own.csv", AGES), public)
    assert held.numbers[0].tolist() == AGES.age.tolist()
    one_bad = AGES.astype({"age": object}).replace({"age": {20: "x"}})
    broken = load_usable_rows(_file(tmp_path / "own.csv", one_bad), public)
    assert broken.fault is not None
    assert broken.y[0] == -1
    assert broken.numbers[0][1:].tolist() == AGES.age[1:].tolist()


def test_a_source_holds_the_numbers_beside_their_bins(tmp_path):
    source = read_user_table(str(_file(tmp_path / "a.csv", AGES)), "age", rules=NUMBER)
    assert source.numbers.tolist() == AGES.age.tolist()
    assert source.y.tolist() == source.target.encode(source.numbers).tolist()
    public = make_public_set(source.table, source.schema_of(source.table))
    assert public.schema.target == Target(values=(20.0, 50.0, 80.0), edges=(0.0, 40.0, 60.0, 100.0), unit="years")
