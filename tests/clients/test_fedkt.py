"""FedKT at a party: teachers, students, and what it says of too few rows or classes."""

from federation import model, party, public_set, rows
from visits import KT

from fedkd_flwr.clients import FedKTClient
from fedkd_flwr.wire.label_codec import decode_labels


def test_fewer_rows_than_teachers_makes_fewer_subsets_and_says_so(caplog):
    _, _, metrics = FedKTClient(party("a", *rows(3, seed=5))).fit([], KT)
    assert "fewer-subsets" in metrics["notes"]
    assert "rows must be >= teachers-per-student (5), got 3" in caplog.text


def test_a_party_with_one_class_labels_everything_so_and_says_so(caplog):
    X, y = rows(20, seed=5, classes=(2,))
    arrays, _, metrics = FedKTClient(party("a", X, y)).fit([], KT)
    labels = decode_labels(arrays[0], public=party("a", X, y).spec, server_round=1)
    assert (labels == 2).all()
    assert metrics["notes"] == "one-class"
    assert "private rows should hold >= 2 classes, got only 'blue'" in caplog.text


def test_teachers_and_students_may_be_other_models_than_the_party_s():
    made = []

    def spy(kind):
        def make(*, seed):
            made.append(kind)
            return model(seed=seed)

        return make

    member = party("a", *rows(30, seed=1), public=public_set())
    FedKTClient(member, teacher=spy("teacher"), student=spy("student")).fit([], KT)
    assert made.count("teacher") == 10
    assert made.count("student") == 2
