"""The picture of numbers: what is predicted over what is true."""

from pages import texts

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report.numbers_plot import added, numbers_plot


def _record():
    record = RunRecord(run_id="7", algorithm="pate", classes=["1", "2"])
    for i, name in enumerate(("p0", "p1")):
        pairs = [[1.0, 2.0, 3], [2.0, 2.0 + i, 1]]
        alone = {"common": Metrics(n=4, rmse=1.0, mae=0.5, r2=0.1, pairs=pairs)}
        after = {"common": Metrics(n=4, rmse=0.5, mae=0.2, r2=0.9, pairs=[[1.0, 1.0, 4]])}
        record.parties.append(PartyRecord(name=name, solo=alone, federated=after))
    return record


def test_pairs_of_several_parties_add_up():
    measured = [party.solo["common"] for party in _record().parties]
    assert added([*measured, None]) == {(1.0, 2.0): 6, (2.0, 2.0): 1, (2.0, 3.0): 1}


def test_parties_alone_and_with_the_federation_stand_beside_each_other():
    plot = numbers_plot(_record())
    assert {"true number", "predicted number", "alone (SOLO)", "with the federation"} <= set(texts(plot.svg))
    assert "A larger mark holds more rows" in plot.caption


def test_where_models_answer_with_classes_nothing_is_drawn_or_said():
    plot = numbers_plot(RunRecord(run_id="7", algorithm="fedct", parties=[PartyRecord(name="a")]))
    assert (plot.title, plot.svg, plot.caption) == ("", "", "")
