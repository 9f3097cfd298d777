import re
import sys

import pytest
from pages import Page, check_safe_and_alone, written

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.notes import Note
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report.page import headline


def test_every_text_and_key_of_a_hostile_record_is_escaped(hostile_record, tmp_path, hostile, monkeypatch):
    text = written(hostile_record, tmp_path)
    page = check_safe_and_alone(text)
    hostile_record.status = hostile
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    check_safe_and_alone(written(hostile_record, tmp_path))
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert page.text.count("<script>alert(1)</script>") > 10  # shown, as text


def test_of_two_classes_the_page_has_curves_and_thresholds_that_no_class_name_breaks(make_record, tmp_path, hostile):
    record = make_record(3, 1)
    for party in record.parties:
        found = Metrics(n=4, accuracy=0.75, score_counts=[[10, 1, 1], [40, 0, 2]])
        party.federated = {"common": found}
    record.num_classes, record.classes = 2, ["well", hostile]
    text = written(record, tmp_path)
    page = check_safe_and_alone(text)
    assert "<script" not in text
    assert "threshold answered positive precision recall balanced accuracy 0.10 1.000 0.750 1.000 0.500" in page.text
    assert "curves-figure_1" in page.ids
    public = written(record, tmp_path, publishable=True)
    assert "Thresholds" not in public
    assert "curves-" not in public


@pytest.mark.usefixtures("no_pictures")
def test_a_claim_that_is_not_proven_is_a_warning_on_top_and_beside_the_claims(make_record, tmp_path, claims):
    record = make_record(3, 2)
    record.claims = [{**claims[0], "basis": "none: seeded"}]
    text = written(record, tmp_path)
    assert text.count('class="bad">NO GUARANTEE') == 2
    assert "none: seeded" in text[: text.index('<h2 id="plots">')]
    record.claims = [claims[0]]
    assert "NO GUARANTEE" not in written(record, tmp_path)


def test_a_run_whose_result_is_the_servers_model_has_it_in_its_headline_beside_parties_alone(make_record):
    record = make_record(5, 3, algorithm="privatekt")
    record.server = {"common": Metrics(n=9, accuracy=0.893)}
    for party in record.parties:
        party.federated = {}
    assert headline(record).startswith("The server's model reaches 0.89; a party alone 0.")


def test_the_publishable_page_holds_none_of_the_operators_numbers(make_record, tmp_path, claims, monkeypatch):
    record = make_record(3, 2, algorithm="fedkt")
    record.claims = claims
    for r in record.rounds:
        r.labelled_share = 0.111  # so that it equals none of the withheld numbers
    record.notes = [Note("own", {"text": "party-000 has 3 rows"})]
    for party in record.parties:
        party.notes = [Note("own", {"text": "one class only"})]
    text = written(record, tmp_path, publishable=True)
    private = [*(v.accuracy for p in record.parties for v in [*p.solo.values(), *p.federated.values()])]
    private += [v for r in record.rounds for v in (r.agreement, r.consensus_accuracy, *r.accuracy.values())]
    private += [record.centralised_accuracy, record.server_accuracy]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page, own = Page(text), written(record, tmp_path)
    assert not [v for v in private if f"{v:.3f}" in page.text]
    for word in ("4.73", "3 rows", "one class only", "/home/ann", "2.1 s", "23.4"):
        assert word not in text
        assert word in own or word == "2.1 s"
    assert "This is the publishable form" in page.text


@pytest.mark.usefixtures("no_pictures")
def test_the_headline_hides_no_losses_at_home_and_a_box_names_the_losers(make_record, tmp_path):
    record = make_record(2, 2)
    record.parties = [
        PartyRecord(
            name=name,
            solo={"common": Metrics(n=2000, accuracy=0.59), "own": Metrics(n=400, accuracy=0.898)},
            federated={"common": Metrics(n=2000, accuracy=0.71), "own": Metrics(n=400, accuracy=0.784)},
        )
        for name in ("a", "b")
    ]
    text = written(record, tmp_path)
    headline = "With the federation 2 parties reach 0.71 on average; alone 0.59. "
    assert f"<h1>{headline}At home, on their own rows, all lose: accuracy 0.90 alone, 0.78 with it</h1>" in text
    page = Page(text)
    assert "a 0.898 to 0.784 (400 rows), b 0.898 to 0.784 (400 rows)" in page.text
    assert "stay alone" in page.text
    assert "Who loses" not in written(record, tmp_path, publishable=True)


@pytest.mark.usefixtures("no_pictures")
def test_running_again_needs_the_changed_settings_alone(make_record, tmp_path):
    record = make_record(2, 2)
    record.changed = ["num-rounds"]
    again = Page(written(record, tmp_path)).text.split("How to run this again")[-1].split("setting value")[0]
    assert "num-rounds = 2" in again
    assert 'algorithm = "fedct"' in again
    assert "quorum" not in again
    record.changed = None  # a record that does not know
    again = Page(written(record, tmp_path)).text.split("How to run this again")[-1]
    assert "quorum = 0.9" in again


def test_a_page_needs_nothing_else(make_record, tmp_path):
    page = check_safe_and_alone(written(make_record(30, 3), tmp_path))
    assert page.tags.count("svg") == 3  # the parties' two, and rounds


def test_contents_title_and_commands_of_a_page_without_matplotlib_and_how_to_get_it(make_record, tmp_path, no_pictures):
    record = make_record(3, 2)
    text = written(record, tmp_path)
    page = check_safe_and_alone(text)
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    for said in (
        '<meta name="viewport" content="width=device-width, initial-scale=1">', "default-src 'none'",
        "<title>fedct, run 7300123456789012345: With the federation",
        f"<code>fedkd report {record.run_id} --publishable",
    ):  # fmt: skip
        assert said in text
    links = [r for r in page.references if r.startswith("#")]
    assert links == [f"#{name}" for name in re.findall('<h2 id="([a-z-]+)">', text)]
    assert {"#privacy", "#each-party", "#how-to-run-this-again"} <= set(links)
    assert text.count("<h2") == len(links)
    assert '<a href="#privacy">Privacy</a>' in text[: text.index("<dl")]
    assert text.index("<details><summary>") < text.index('<th scope="col">setting</th>') < text.index("</details>")
    assert "svg" not in page.tags
    assert page.tags.count("table") >= 5
    assert 'pip install "fedkd-flwr[report]"' in page.text
    record.config["output-dir"] = "/my results"  # a run is found from any folder
    assert f"fedkd report {record.run_id} --output-dir &#39;/my results&#39; --publishable" in written(record, tmp_path)


def test_a_failed_run_has_a_page_with_the_reason_on_top_also_before_any_round(failed_record, tmp_path, no_pictures):
    page = check_safe_and_alone(written(failed_record, tmp_path))
    top = page.text[: page.text.index("Plots")]
    assert "This run failed after 1 round" in top
    assert "min-parties must be reached in round 1" in top
    assert "Check that the node is running" in page.text
    assert "no explanation for the code 'a-code-of-tomorrow'" in page.text
    noisy = {"algorithm": "pate", "config": {"noise": "laplace"}}
    record = RunRecord(run_id="7", status="failed", reason="no node in 120 s", **noisy)
    page = check_safe_and_alone(written(record, tmp_path))
    assert "no node in 120 s" in page.text
    assert "nothing was released" in page.text
    assert "shared as they are" not in page.text
