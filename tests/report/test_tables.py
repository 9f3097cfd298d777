import html
import re
import tomllib

import numpy as np
import pytest
from pages import Page, written

from fedkd_flwr.metrics import Metrics, measure
from fedkd_flwr.report import tables
from fedkd_flwr.report.model_warnings import model_warnings
from fedkd_flwr.report.page import write_page

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_claims_for_the_operator_only_stand_apart_from_those_that_may_be_passed_on(make_record, tmp_path, claims):
    record = make_record(3, 2)
    record.claims = list(reversed(claims))
    text = Page(written(record, tmp_path)).text
    public, private = text.index("May be passed on"), text.rindex("For the operator only")
    assert public < text.index("epsilon 1 ", public) < private < text.index("4.73", private)
    record.claims = [dict(claims[0])]
    assert "For the operator only" not in written(record, tmp_path)


def test_the_publishable_page_of_a_run_without_noise_tells_of_no_more_than_the_first_round(make_record, tmp_path):
    def page(rounds):
        record = make_record(4, rounds)
        record.config["num-rounds"] = 10
        return written(record, tmp_path, publishable=True)

    assert page(3) == page(7)
    assert "10 were configured" in page(3)
    assert "labels sent" not in page(3)


def test_the_configuration_is_toml_that_reads_back(make_record, tmp_path):
    record = make_record(3, 2)
    expected = record.config | {"odd key": 'a "quoted"\nvalue 🌲 ü'}
    record.config["fedct.quorum"] = 0.8  # Flower reads the dotted key as the key of a table
    record.config["odd key"] = 'a "quoted"\nvalue 🌲 ü'
    page = written(record, tmp_path)
    block = html.unescape(page.split("<pre><code>")[1].split("</code>")[0])
    assert tomllib.loads(block) == {**expected, "fedct": {"quorum": 0.8}}


def test_of_a_round_that_is_not_over_it_is_not_said_that_nothing_was_sent(make_record, tmp_path):
    record = make_record(3, 2)
    record.rounds[-1].ended, record.rounds[-1].bytes_up, record.rounds[-1].answered = False, 0, []
    record.status = "running"
    last = re.sub(r"<td[^>]*>", "<td>", written(record, tmp_path)).split("not known of 3</td>")[1].split("</tr>")[0]
    assert "<td>–</td><td>15.1 KB</td>" in last  # up and down


def test_the_table_of_parties_has_the_figure_of_the_printed_one_so_that_useless_models_show_no_gain(
    make_record, tmp_path
):
    record, useless = make_record(2, 2), {"balanced_accuracy": 0.5, "support": [32, 468], "recall": [0.0, 1.0]}
    for party in record.parties:
        for kind, accuracy in ((party.solo, 0.064), (party.federated, 0.936)):
            kind["common"] = Metrics(n=500, accuracy=accuracy, baseline=0.936, **useless)
            kind["own"] = Metrics(n=40, accuracy=accuracy, balanced_accuracy=0.5, support=[20, 20])
    text = written(record, tmp_path)
    table = Page(text[text.index('<h2 id="each-party">') :].split("</section>")[0]).text
    assert "balanced accuracy alone, 500 common rows" in table
    assert "own test rows accuracy alone, own rows" in table
    assert table.count("party-000 decision-tree 0.500 0.500 +0.000 40 0.064 0.936 +0.872") == 1
    assert "balanced accuracy, shown where a class is rare, the mean recall of the classes" in table
    assert "The accuracy of always answering the commonest class is 0.936 on common test rows." in table
    assert "accuracy of the server's model" not in text


def test_the_better_model_is_named_where_own_rows_tell_it(make_record):
    record = make_record(3, 1)
    for party, after in zip(record.parties, (0.1, 0.9, 0.99), strict=True):
        party.solo["own"], party.federated["own"] = Metrics(n=100, accuracy=0.9), Metrics(n=100, accuracy=after)
    shown = tables.parties(record)
    assert [row[shown.header.index("better model")] for row in shown.rows] == ["stay alone", "", "federated"]


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
    assert "alone (SOLO), common 2,000 1.000 1.000 0.980 1.000 1.000 1.000 0.000 0.000 0.000" in shown
    assert "with the federation, common 2,000 0.500 0.980 0.980 0.495 – – – – –" in shown
    assert "with the federation, own 14 – 0.500 – – – – – – –" in shown
    assert "legit 1,960 1.000 1.000 1.000 1.000 0.980 0.990 1.000 0.980 0.990" in shown
    assert "fraud 40 1.000 1.000 1.000 0.000 0.000 0.000 0.000 0.000 0.000" in shown
    assert "Models without probabilities have no AUC" in shown


def test_useless_models_are_called_so_before_any_figure_and_what_is_held_back_is_a_dash(record, tmp_path):
    shown, public = text(record, tmp_path), text(record, tmp_path, publishable=True)
    assert len(model_warnings(record)) == 2
    for sentence in model_warnings(record):
        assert shown.index(sentence) < shown.index("balanced accuracy, common rows")
    assert not [word for word in ("useless", "Metrics", "1,960") if word in public]
    held = record.server["common"].shared(["recall"], min_support=50)
    record.server, record.centralised = {}, {}
    for party in record.parties:
        party.solo, party.federated = {"common": held}, {}
    assert "legit – – – – fraud – – – –" in text(record, tmp_path)
    for party in record.parties:
        party.solo = {}
    for status, said in (("running", "record yet."), ("completed", "in the record.")):
        record.status = status
        assert said in text(record, tmp_path)


def test_a_simulation_weighs_one_model_of_each_kind_and_its_size_stands_for_the_others(make_record):
    record = make_record(4, 2)
    for party, (model, weight) in zip(
        record.parties, [("knn", 5_120), ("mlp", None), ("knn", None), ("knn", 512)], strict=True
    ):
        party.model, party.model_bytes = model, weight
    shown = tables.parties(record)
    column = shown.header.index("size of such a model")
    assert [row[column] for row in shown.rows] == ["5.1 KB", "–", "512 B", "512 B"]
