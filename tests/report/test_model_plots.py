"""The pictures by class: confusion, and numbers predicted."""

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report.model_plots import confusion_plot, pooled


def _confusion(classes):
    """Half of each class is right, half is taken for the next class."""
    return [[2 * (j in (i, (i + 1) % classes)) for j in range(classes)] for i in range(classes)]


def _record(classes=3, parties=2):
    record = RunRecord(run_id="7", algorithm="fedct", classes=["flu", "cold", "$\\frac{$"][:classes])
    for i in range(parties):
        alone = Metrics(
            n=4 * classes,
            recall=[0.5] * classes,
            support=[4] * classes,
            confusion=_confusion(classes),
        )
        after = Metrics(n=4 * classes, recall=[0.25] + [0.75] * (classes - 1), support=[4] * classes)
        party = PartyRecord(name=f"p{i}", solo={"common": alone}, federated={"common": after})
        party.solo["common"] = alone
        record.parties.append(party)
    for party in record.parties:  # the reports tell which rows lead by accuracy
        for measured in (party.solo, party.federated):
            measured["common"] = Metrics(**{**measured["common"].as_dict(), "accuracy": 0.5})
    return record


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
