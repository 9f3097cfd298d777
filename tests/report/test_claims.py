import math

import pytest

from fedkd_flwr.privacy.claims.claim import (
    label_privacy,
    noisy_max_at_party,
    noisy_max_at_server,
    subsampling,
)
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.votes import GaussianMax
from fedkd_flwr.report import claims
from fedkd_flwr.run_record import WITHHELD, RoundRecord, RunRecord

GAUSSIAN = GaussianMax(sigma=40.0)
(AT_SERVER,) = (c.as_dict() for c in noisy_max_at_server(GAUSSIAN, num_queries=20, delta=1e-5))
RECORD, PARTY = (c.as_dict() for c in noisy_max_at_party(GAUSSIAN, num_queries=20, delta=1e-5, teachers=5))
LABELS = label_privacy(RandomizedResponse(epsilon=0.01, num_classes=3), num_labels=60, delta=1e-5).as_dict()
NOTHING = {**LABELS, "epsilon": None, "delta": None, "basis": "none: no noise", "mechanism": "none"}
SUBSET = subsampling(Subsampling(num_rows=1000, subset_rows=300, replacement=True)).as_dict()


@pytest.mark.parametrize("claim", [AT_SERVER, RECORD, PARTY, LABELS, SUBSET, NOTHING])
def test_every_heading_of_every_claim_is_filled(claim):
    cells = claims.claim_cells(claim)
    assert all(cells[heading] not in ("", "–", "None") for heading in claims.CLAIM_FIELDS)
    assert set(cells) <= {*claims.CLAIM_FIELDS, "notes"}


@pytest.mark.parametrize("value", [0.1, 1.0, 8.0, 24.3214, 7.99999305, 1e-5, 123456.7, 1e-300, 99.995, 2.0000001])
def test_a_printed_bound_is_never_below_the_bound(value):
    printed = float(claims.bound_text(value))
    assert value <= printed <= value * 1.002


def test_a_bound_that_would_be_rounded_down_shows_why_that_matters():
    assert float(f"{24.3214:.4g}") < 24.3214 < float(claims.bound_text(24.3214))


def test_the_odds_and_the_guess_are_those_of_epsilon_and_delta():
    claim = {**AT_SERVER, "epsilon": math.log(3.0), "delta": 0.0}
    assert "by a factor of at most 3.00. " in claims.claim_meaning(claim)
    assert "at most 75.0 % of cases" in claims.claim_meaning(claim)
    # (3 + 0.04) / 4
    assert "at most 76.0 % of cases" in claims.claim_meaning({**claim, "delta": 0.04})
    assert "with which it may tell outright" in claims.claim_meaning({**claim, "delta": 0.04})


def test_a_guess_is_bounded_by_the_best_attack_on_the_worst_mechanism():
    # tells all with probability delta, else randomised response of exp(epsilon) to 1: that meets the bound
    epsilon, delta = 1.0, 0.01
    right = delta + (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    assert right == pytest.approx((math.exp(epsilon) + delta) / (math.exp(epsilon) + 1), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "words"), [(710.0, "more than a million"), (8.0, "hardly at all"), (0.1, "1.11")])
def test_small_and_huge_epsilons_are_said_plainly(epsilon, words):
    assert words in claims.claim_meaning({**RECORD, "epsilon": epsilon})


def test_publishable_claims_come_first_and_one_record_before_a_party():
    private = {**AT_SERVER, "publishable": False, "epsilon": 0.01}
    assert claims.ordered([private, PARTY, RECORD]) == [RECORD, PARTY, private]


def test_several_claims_are_explained():
    text = " ".join(claims.explanations([RECORD, PARTY]))
    assert "two sizes of what is hidden" in text
    assert "several rows" in text
    assert claims.explanations([AT_SERVER]) == []
    assert "by looking at the votes" in claims.explanations([AT_SERVER, {**AT_SERVER, "publishable": False}])[0]


def test_who_must_be_trusted_depends_on_where_the_noise_is():
    assert "must be trusted" in claims.trust([AT_SERVER])[0]
    assert claims.trust([RECORD, PARTY]) == [
        "Each party adds the noise itself, before anything leaves it. The server needs no trust for these claims."
    ]
    assert "needs no trust" not in claims.trust([{**LABELS, "basis": "assumed sensitivity"}])[0]


@pytest.mark.parametrize(
    ("basis", "words"),
    [
        ("assumed sensitivity", "NOT PROVEN: the epsilon of this run assumes"),
        ("estimated sensitivity", "NOT PROVEN: the epsilon of this run rests on an estimated"),
        ("none: seeded", "NO GUARANTEE: the noise of this run came from a seed"),
        ("none: no finite bound", "NO GUARANTEE: the basis"),
        ("a basis of tomorrow", "NO GUARANTEE: the basis"),
    ],
)
def test_whatever_is_not_proven_is_a_warning(basis, words):
    assert claims.unproven([{**LABELS, "basis": basis}])[0].startswith(words)
    assert claims.unproven([LABELS, RECORD]) == []


def test_the_headline_names_unit_adversary_delta_relation_and_basis_beside_epsilon():
    figure, words = claims.headline(RunRecord(run_id="7", algorithm="fedkt", claims=[PARTY, RECORD]))
    assert figure == f"epsilon {claims.bound_text(RECORD['epsilon'])}"
    assert words == "one record against the server, delta 1e-05 (replace one record, number of records public; proven)"


def test_the_headline_does_not_take_a_number_for_the_operator_only_where_there_is_another():
    private = {**AT_SERVER, "publishable": False, "epsilon": 0.01}
    assert "0.01" not in claims.headline(RunRecord(run_id="7", algorithm="fedkt", claims=[private, AT_SERVER]))[0]


@pytest.mark.parametrize(
    ("claim", "figure"),
    [({**LABELS, "epsilon": WITHHELD}, "withheld"), (NOTHING, "no guarantee")],
)
def test_a_headline_without_a_number_says_why(claim, figure):
    assert claims.headline(RunRecord(run_id="7", algorithm="fedct", claims=[claim]))[0] == figure


def test_noise_without_a_claim_has_no_effect_to_report():
    record = RunRecord(run_id="7", algorithm="fedct", rounds=[RoundRecord(server_round=1, kept_share=0.5)])
    assert claims.noise_effect(record) == []
    record.claims = [LABELS]
    assert "Noise replaced 50 % of the labels" in claims.noise_effect(record)[0]
    record.claims = [{**LABELS, "mechanism": "bit flips (XOR) on one-hot labels"}]
    assert "Noise replaced 50 % of the bits" in claims.noise_effect(record)[0]


def test_what_noise_changed_inside_a_party_is_not_guessed():
    record = RunRecord(run_id="7", algorithm="fedkt", rounds=[RoundRecord(server_round=1)], claims=[RECORD])
    assert claims.noise_effect(record) == ["How many answers the noise changed is known to the parties alone."]
