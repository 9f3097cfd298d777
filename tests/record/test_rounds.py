"""One round in a record and in the log."""

import hashlib
import json

from fedkd_flwr.record.publishable import WITHHELD
from fedkd_flwr.record.rounds import Rejection, RoundRecord


def _round(**changes):
    left_out = [Rejection(party="b", node_id="123", code="no-rows", failure="3 rows")]
    measured = {"agreement": 0.7, "labelled_share": 0.6, "kept_share": 0.9, "accuracy": {"a": 0.75}, "seconds": 2.0}
    return RoundRecord(
        server_round=2, asked=3, answered=["a", "c"], rejected=left_out, bytes_up=4000, bytes_down=100,
        **{**measured, **changes},
    )  # fmt: skip


def test_its_line_in_the_log_has_figures_that_were_measured_and_bytes_of_one_party():
    assert _round(agreement=None, accuracy={"a": 0.5, "c": 0.75}).line(5) == (
        "round 2/5: 2 of 3 parties answered | labelled 0.600 | accuracy 0.625 (0.500-0.750) | "
        "2.0 KB up, 0.1 KB down a party | 2.0 s"
    )
    assert "agreement 0.700" in _round().line(5)


def test_what_a_claim_covers_is_published_and_what_it_does_not_is_withheld():
    def shown(**covered):
        one = _round().publishable(**covered)
        return one.labelled_share, one.kept_share, one.bytes_down, one.bytes_up

    assert shown(covered=False, at_party=False) == (None, None, 0, 0)
    assert shown(covered=True, at_party=False) == (0.6, None, 100, 0)
    assert shown(covered=True, at_party=True) == (0.6, 0.9, 100, 4000)
    published = _round().publishable(covered=True, at_party=True)
    assert published.rejected == [Rejection(party="b", node_id="", code=WITHHELD)]
    assert (published.agreement, published.accuracy, published.seconds) == (None, {}, 0.0)


def test_its_text_is_json_without_nan_and_its_digest_is_of_the_same_values():
    text, digested = _round(agreement=float("nan")).to_json()
    assert json.loads(text)["agreement"] is None
    assert json.loads(digested) == json.loads(text)
    assert hashlib.sha256(digested).digest() != hashlib.sha256(_round().to_json()[1]).digest()
