"""The pictures by class: confusion, and numbers predicted."""

from measured import record_of
from pages import texts

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report.model_plots import added, confusion_plot, numbers_plot, pooled


def _record(classes=3, parties=2):
    """Half of each class is right, half is taken for the next class."""
    confusion = [[2 * (j in (i, (i + 1) % classes)) for j in range(classes)] for i in range(classes)]
    common = {"n": 4 * classes, "accuracy": 0.5, "support": [4] * classes}
    alone = Metrics(**common, recall=[0.5] * classes, confusion=confusion)
    after = Metrics(**common, recall=[0.25] + [0.75] * (classes - 1))
    return record_of([alone] * parties, [after] * parties, classes=["flu", "cold", "$\\frac{$"][:classes])


def test_without_the_figures_a_sentence_takes_the_place_of_the_picture():
    plot = confusion_plot(RunRecord(run_id="7", algorithm="fedct", parties=[PartyRecord(name="a")]))
    assert plot.svg == ""
    assert plot.caption.startswith("Not drawn")


def test_a_picture_is_made_of_shapes_alone_and_writes_hostile_class_names():
    for record in (_record(parties=50), _record(classes=2, parties=1)):
        svg = confusion_plot(record).svg
        assert svg
        assert "<image" not in svg  # which the page's own policy would not load


def test_confusion_matrices_add_up_and_the_worst_confusion_is_the_title():
    assert pooled([None, Metrics(n=1)]) == []
    assert pooled([Metrics(n=2, confusion=[[1, 0], None])]) == []  # held back in part
    plot = confusion_plot(_record(classes=2))
    assert plot.title == "Most confused (alone (SOLO)): 50% of cold is taken for flu, 4 of 8 rows"


def _numbers():
    pairs = ([[1.0, 2.0, 3], [2.0, 2.0 + i, 1]] for i in range(2))
    alone = [Metrics(n=4, rmse=1.0, mae=0.5, r2=0.1, pairs=one) for one in pairs]
    after = Metrics(n=4, rmse=0.5, mae=0.2, r2=0.9, pairs=[[1.0, 1.0, 4]])
    return record_of(alone, [after] * 2, algorithm="pate", classes=["1", "2"])


def test_pairs_of_several_parties_add_up_and_parties_alone_stand_beside_those_with_the_federation():
    measured = [party.solo["common"] for party in _numbers().parties]
    assert added([*measured, None]) == {(1.0, 2.0): 6, (2.0, 2.0): 1, (2.0, 3.0): 1}
    plot = numbers_plot(_numbers())
    assert {"true number", "predicted number", "alone (SOLO)", "with the federation"} <= set(texts(plot.svg))
    assert "A larger mark holds more rows" in plot.caption


def test_where_models_answer_with_classes_nothing_is_drawn_or_said():
    plot = numbers_plot(RunRecord(run_id="7", algorithm="fedct", parties=[PartyRecord(name="a")]))
    assert (plot.title, plot.svg, plot.caption) == ("", "", "")
