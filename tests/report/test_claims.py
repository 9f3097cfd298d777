import math

import pytest
from sample_claims import AT_SERVER, LABELS, PARTY, RECORD, SUBSET

from fedkd_flwr.report import claims

NOTHING = {**LABELS, "epsilon": None, "delta": None, "basis": "none: no noise", "mechanism": "none"}


@pytest.mark.parametrize("claim", [AT_SERVER, RECORD, PARTY, LABELS, SUBSET, NOTHING])
def test_every_heading_of_every_claim_is_filled(claim):
    cells = claims.claim_cells(claim)
    assert not {"", "–", "None"} & {*cells.values()}
    assert len(cells.keys() - {"notes", "not covered"}) == 9


@pytest.mark.parametrize("value", [0.1, 1.0, 8.0, 24.3214, 7.99999305, 1e-5, 123456.7, 1e-300, 99.995, 2.0000001])
def test_a_printed_bound_is_never_below_the_bound(value):
    printed = float(claims.bound_text(value))
    assert value <= printed <= value * 1.002


def test_the_odds_and_the_guess_are_those_of_epsilon_and_delta():
    claim = {**AT_SERVER, "epsilon": math.log(3.0), "delta": 0.0}
    assert "by a factor of at most 3.00. " in claims.claim_meaning(claim)
    assert "at most 75.0 % of cases" in claims.claim_meaning(claim)
    # (3 + 0.04) / 4
    assert "at most 76.0 % of cases" in claims.claim_meaning({**claim, "delta": 0.04})
    assert "with a probability of 1 in 25 it may reveal the answer outright" in claims.claim_meaning(
        {**claim, "delta": 0.04}
    )


def test_publishable_claims_come_first_and_one_record_before_a_party():
    private = {**AT_SERVER, "publishable": False, "epsilon": 0.01}
    assert claims.ordered([private, PARTY, RECORD]) == [RECORD, PARTY, private]
