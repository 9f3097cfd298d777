import dataclasses
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import fedkd_flwr
from fedkd_flwr.errors import Code
from fedkd_flwr.report import words, write_page
from fedkd_flwr.run_record import PartyRecord, RunRecord

VOID = {"meta", "br", "hr", "link", "img", "input"}
REFERENCES = {"src", "href", "xlink:href", "action", "data", "srcset", "poster", "formaction", "background"}


class Page(HTMLParser):
    """The tags, ids and visible text of a page; a tag left open or closed twice is an error."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.references, self.handlers, self.open, self.words = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(value)
            if key in REFERENCES:
                self.references.append(value)
            if key.startswith("on") or "javascript:" in (value or ""):
                self.handlers.append((key, value))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


def written(record, tmp_path, **options):
    path = write_page(record, tmp_path / "report.html", **options)
    return path.read_text(encoding="utf-8")


def check_safe_and_alone(text):
    page = Page(text)
    assert not {"script", "img", "iframe", "link", "object", "embed", "form", "base"} & set(page.tags)
    assert page.handlers == []
    assert all(r.startswith("#") for r in page.references)
    assert len(page.ids) == len(set(page.ids))
    assert "@import" not in text
    assert "url(" not in text.replace("url(#", "")
    return page


@pytest.mark.parametrize(("parties", "rounds"), [(1, 1), (5, 10), (10, 5), (100, 1), (100, 10)])
def test_a_page_needs_nothing_else(make_record, tmp_path, parties, rounds):
    page = check_safe_and_alone(written(make_record(parties, rounds), tmp_path))
    assert page.tags.count("svg") == (3 if rounds > 1 else 2)


def test_every_text_and_key_of_a_hostile_record_is_escaped(hostile_record, tmp_path, hostile):
    text = written(hostile_record, tmp_path)
    page = check_safe_and_alone(text)
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert page.text.count("<script>alert(1)</script>") > 10  # shown, as text


def test_a_hostile_status_is_escaped(hostile_record, tmp_path, hostile):
    hostile_record.status = hostile
    check_safe_and_alone(written(hostile_record, tmp_path))


def test_the_first_heading_is_the_finding(make_record, tmp_path):
    record = make_record(2, 2)
    record.parties = [
        PartyRecord(name=n, solo={"common": a}, federated={"common": b})
        for n, a, b in (("a", 0.6, 0.9), ("b", 0.64, 0.92))
    ]
    text = written(record, tmp_path)
    assert "<h1>With the federation 2 parties reach 0.91 on average; alone 0.62</h1>" in text


def test_it_says_its_language_title_and_width(make_record, tmp_path):
    text = written(make_record(3, 2), tmp_path)
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "<title>fedct, run 7300123456789012345: With the federation" in text
    assert "default-src &#x27;none&#x27;" in text


def test_a_failed_run_has_a_page_with_the_reason_on_top(failed_record, tmp_path):
    page = check_safe_and_alone(written(failed_record, tmp_path))
    top = page.text[: page.text.index("Plots")]
    assert "This run failed after 1 round" in top
    assert "min-parties must be reached in round 1" in top
    assert "Look whether the node is running" in page.text
    assert "no explanation for the code 'a-code-of-tomorrow'" in page.text


def test_a_run_that_failed_before_any_round_has_a_page(tmp_path):
    record = RunRecord(run_id="7", algorithm="fedkt", status="failed", reason="no node answered in 120 s")
    page = check_safe_and_alone(written(record, tmp_path))
    assert "no node answered in 120 s" in page.text


def test_without_matplotlib_it_has_tables_and_says_how_to_get_plots(make_record, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = check_safe_and_alone(written(make_record(5, 3), tmp_path))
    assert "svg" not in page.tags
    assert page.tags.count("table") >= 5
    assert 'pip install "fedkd-flwr[report]"' in page.text


def test_every_party_has_its_row(make_record, tmp_path):
    record = make_record(100, 2)
    page = Page(written(record, tmp_path))
    assert all(p.name in page.text for p in record.parties)


def test_without_claims_it_says_what_was_shared_and_may_be_revealed(make_record, tmp_path):
    page = Page(written(make_record(3, 2), tmp_path))
    assert "No privacy guarantee: labels are shared as they are (no noise)." in page.text
    assert "labels for 10,000 public rows" in page.text
    assert "membership inference" in page.text
    assert "parties reported how accurate their models are" in page.text


def test_metrics_that_were_not_shared_are_not_said_to_be(make_record, tmp_path):
    record = make_record(3, 2)
    for party in record.parties:
        party.solo, party.federated = {}, {}
    for r in record.rounds:
        r.accuracy = {}
    assert "how accurate their models are" not in written(record, tmp_path)


def test_an_algorithm_it_does_not_know_is_not_said_to_share_labels_only(make_record, tmp_path):
    page = Page(written(make_record(3, 2, algorithm="fedavg"), tmp_path))
    assert "did not leave the parties" not in page.text
    assert "carries no noise" in page.text


def test_claims_are_shown_in_full_and_in_words(make_record, tmp_path, claims):
    record = make_record(3, 2)
    record.claims = claims
    page = Page(written(record, tmp_path))
    assert "by a factor of at most 2.72, except with a probability of 1 in 100,000." in page.text
    assert "its basis is “estimated”" in page.text
    assert "do not pass them on" in page.text
    assert "No privacy guarantee" not in page.text


def test_the_publishable_page_holds_none_of_the_operators_numbers(make_record, tmp_path, claims):
    record = make_record(3, 2, algorithm="fedkt")
    record.claims = claims
    for r in record.rounds:
        r.labelled_share = 0.111  # so that no withheld number happens to look like it
    record.notes = ["party-000 has 3 rows"]
    for party in record.parties:
        party.notes = ["one class only"]
    text = written(record, tmp_path, publishable=True)
    private = [*(v for p in record.parties for v in [*p.solo.values(), *p.federated.values()])]
    private += [v for r in record.rounds for v in (r.agreement, r.consensus_accuracy, *r.accuracy.values())]
    private += [record.centralised, record.server_accuracy]
    page = Page(text)
    assert not [v for v in private if f"{v:.3f}" in page.text]
    for word in ("4.73", "3 rows", "one class only", "/home/ann", "2.1 s", "23.4"):
        assert word not in text
        assert word in written(record, tmp_path) or word == "2.1 s"
    assert "This is the publishable form" in page.text


def test_a_publishable_failure_gives_no_reason_that_tells_of_rows(failed_record, tmp_path):
    text = written(failed_record, tmp_path, publishable=True)
    assert "class-outside-schema" not in text
    assert "min-parties must" not in text
    assert "withheld" in text


def test_the_configuration_is_toml_that_reads_back(make_record, tmp_path):
    import tomllib

    record = make_record(3, 2)
    record.config["odd key"] = 'a "quoted"\nvalue 🌲 ü'
    page = written(record, tmp_path)
    import html

    block = html.unescape(page.split("<pre><code>")[1].split("</code>")[0])
    assert tomllib.loads(block) == record.config


def test_every_code_has_a_sentence_with_a_way_out():
    assert {str(code) for code in Code} <= words.REASONS.keys()
    assert all(len(sentence.split(". ")) >= 2 for sentence in words.REASONS.values() if "operator" not in sentence)


def test_every_code_the_package_gives_has_a_sentence():
    sources = Path(fedkd_flwr.__file__).parent.rglob("*.py")
    pattern = re.compile(r"""(?:reason=|code=|_reject\(\s*|return )"([a-z]+(?:-[a-z]+)+)"(?=[,)\n])""")
    given = {code for path in sources if path.parent.name != "report" for code in pattern.findall(path.read_text())}
    assert {"no-reply", "wrong-length", "duplicate-name"} <= given  # else the pattern finds nothing, and proves it
    assert given <= words.REASONS.keys()


def test_a_page_that_is_there_is_replaced_whole_and_no_file_is_left(make_record, tmp_path):
    target = tmp_path / "new" / "report.html"
    write_page(make_record(3, 2), target)
    write_page(make_record(4, 2), target)
    assert "4 parties reach" in target.read_text(encoding="utf-8")
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_writing_a_page_leaves_the_record_as_it_was(make_record, tmp_path):
    record = make_record(3, 2)
    before = dataclasses.asdict(record)
    write_page(record, tmp_path / "a.html", publishable=True)
    assert record.as_dict() == before
