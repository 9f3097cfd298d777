"""The page's tables of metrics."""

from __future__ import annotations

import numpy as np
import pytest
from pages import Page

from fedkd_flwr.metrics import Metrics, measure
from fedkd_flwr.report.model_warnings import model_warnings
from fedkd_flwr.report.page import write_page

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def record(make_record):
    record, y = make_record(2, 1, algorithm="fedkt"), np.repeat([0, 1], [1960, 40])
    record.classes = ["legit", "fraud"]
    right, never = measure(y, y, np.eye(2)[y], num_classes=2), measure(y, 0 * y, None, num_classes=2)
    for party in record.parties:
        party.solo, party.federated = {"common": right}, {"common": never, "own": Metrics(n=7, accuracy=0.5)}
    record.server, record.centralised = {"common": never}, {}
    return record


def text(record, folder, **options):
    return " ".join(Page(write_page(record, folder / "a.html", **options).read_text(encoding="utf-8")).text.split())


def test_the_page_has_every_figure_with_its_rows_and_those_of_each_class(record, tmp_path):
    shown = text(record, tmp_path)
    assert "alone (SOLO) common 2,000 1.000 1.000 0.980 1.000 1.000 1.000 0.000 0.000 0.000" in shown
    assert "with the federation common 2,000 0.500 0.980 0.980 0.495 – – – – –" in shown
    assert "with the federation own 14 – 0.500 – – – – – – –" in shown
    assert "legit 1,960 1.000 1.000 1.000 1.000 0.980 0.990 1.000 0.980 0.990" in shown
    assert "fraud 40 1.000 1.000 1.000 0.000 0.000 0.000 0.000 0.000 0.000" in shown
    assert "Models without probabilities have no AUC" in shown


def test_a_warnings_of_is_called_so_before_any_figure(record, tmp_path):
    shown = text(record, tmp_path)
    assert len(model_warnings(record)) == 2
    for sentence in model_warnings(record):
        assert shown.index(sentence) < shown.index("Balanced accuracy alone")


def test_a_publishable_page_has_no_metrics(record, tmp_path):
    shown = text(record, tmp_path, publishable=True)
    assert "useless" not in shown
    assert "Metrics" not in shown
    assert "1,960" not in shown


def test_classes_that_a_silo_holds_back_are_dashes(record, tmp_path):
    held = record.server["common"].shared(["recall"], min_support=50)
    for party in record.parties:
        party.solo, party.federated = {"common": held}, {}
    record.server = {}
    assert "legit – – – – fraud – – – –" in text(record, tmp_path)


@pytest.mark.parametrize(("status", "said"), [("running", "record yet."), ("completed", "in the record.")])
def test_a_page_without_metrics_says_yet_only_while_its_run_goes_on(record, tmp_path, status, said):
    record.status, record.server, record.centralised = status, {}, {}
    for party in record.parties:
        party.solo, party.federated = {}, {}
    assert said in text(record, tmp_path)


def test_an_auc_that_one_party_lacks_says_so_on_the_page(record, tmp_path):
    assert "of 1 of 2 parties" not in text(record, tmp_path)
    record.parties[0].federated["own"] = Metrics(n=7, accuracy=0.5, roc_auc=0.9)
    assert "AUC: of 1 of 2 parties, 7 rows (with the federation, own)." in text(record, tmp_path)
