import math

import pytest
from sample_claims import AT_SERVER, LABELS, PARTY, RECORD, SUBSET

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import WITHHELD, RoundRecord, RunRecord
from fedkd_flwr.report import claims
from fedkd_flwr.report.status import run_status

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
    failing = claims.claim_meaning({**claim, "delta": 0.04})
    assert "at most 76.0 % of cases" in failing
    assert "with a probability of 1 in 25 it may reveal the answer outright" in failing


def test_publishable_claims_come_first_and_one_record_before_a_party():
    private = {**AT_SERVER, "publishable": False, "epsilon": 0.01}
    assert claims.ordered([private, PARTY, RECORD]) == [RECORD, PARTY, private]


def test_several_claims_are_explained():
    text = " ".join(claims.explanations([RECORD, PARTY]))
    assert "differ in what they protect" in text
    assert "several rows" in text
    assert claims.explanations([AT_SERVER]) == []
    private = {**AT_SERVER, "publishable": False}
    assert "computed from the votes without noise" in claims.explanations([AT_SERVER, private])[0]


def test_who_must_be_trusted_depends_on_where_the_noise_is():
    assert "must be trusted" in claims.trust([AT_SERVER])[0]
    assert claims.trust([RECORD, PARTY]) == [
        "Each party adds the noise itself, before anything leaves it. The server needs no trust for these claims."
    ]
    assert "needs no trust" not in claims.trust([{**LABELS, "basis": "none: seeded"}])[0]


def test_a_random_subset_is_not_called_noise():
    told = [*claims.trust([SUBSET]), *map(str, claims.claim_cells(SUBSET).values())]
    assert told[0].startswith("Each party draws the subset itself, before anything leaves it.")
    assert not any("noise" in text for text in told)
    assert "adds the noise itself" in claims.trust([RECORD, SUBSET])[0]


@pytest.mark.parametrize(
    ("basis", "words"),
    [
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


@pytest.mark.parametrize(
    ("claim", "figure"),
    [
        ({**LABELS, "epsilon": WITHHELD}, "withheld"),
        ({**LABELS, "epsilon": math.inf, "basis": "none: no finite bound"}, "no guarantee"),
    ],
)
def test_a_headline_without_a_number_says_why(claim, figure):
    assert claims.headline(RunRecord(run_id="7", algorithm="fedct", claims=[claim]))[0] == figure


def test_class_counts_and_ratios_are_named_where_parties_sent_them_beside_labels():
    record = RunRecord(run_id="7", algorithm="fedct", sends="labels", rounds=[RoundRecord(server_round=1)])
    record.config["consensus"] = "majority"
    assert claims.no_claim(record) == "labels are shared as they are (no noise)"
    said = " ".join(claims.unprotected(record))
    assert "density" not in said
    assert "membership inference" in said
    assert "how accurate their models are" not in said
    record.config["consensus"] = "auto"
    record.party("a").public_fit, record.party("b").public_fit = None, 0.5
    assert claims.no_claim(record).startswith("labels, class counts and density ratios are shared")
    record.party("a").solo["own"] = Metrics(n=3, accuracy=0.5)
    assert "parties reported how accurate their models are" in claims.unprotected(record)[0]
    assert "1 of 2 parties also sent how many rows of each class they hold" in claims.unprotected(record)[0]
    published = record.publishable()
    assert "class counts and density ratios, of who allows it" in claims.no_claim(published)
    assert "parties whose allow-vote-rules names density-ratio also sent" in claims.unprotected(published)[0]


def test_probabilities_are_named_where_parties_sent_them_in_place_of_labels():
    record = RunRecord(run_id="7", algorithm="fedct", sends="labels", rounds=[RoundRecord(server_round=1)])
    record.config |= {"consensus": "auto", "send": "probabilities"}
    record.party("a").class_counts = [2, 3]
    record.party("b")
    record.consensus_rule = "probabilities"
    assert claims.no_claim(record).startswith("labels, class counts and probabilities are shared")
    text = claims.unprotected(record)[0]
    assert "1 of 2 parties also sent how many rows of each class they hold, and how likely their models find" in text
    record.party("a").public_fit = 0.5  # who allows density ratios sends them too
    assert claims.no_claim(record).startswith("labels, class counts, density ratios and probabilities are shared")
    told = "how much each public row looks like their rows of each class, and how likely their models find"
    assert told in claims.unprotected(record)[0]
    record.consensus_rule = "majority"
    assert "class counts, density ratios and probabilities, of who allows it" in claims.no_claim(record)


def test_before_a_round_ended_class_counts_too_are_said_to_have_left_only_perhaps():
    record = RunRecord(run_id="7", algorithm="fedct", sends="labels", config={"consensus": "auto"})
    record.rounds = [RoundRecord(server_round=1, asked=3, ended=False)]
    text = claims.unprotected(record)[0]
    assert "may have sent the server labels" in text
    assert "parties whose allow-vote-rules names density-ratio may also have sent how many rows" in text


@pytest.mark.parametrize(
    ("setting", "told"), [("11", "run 11"), ("/out/runs/11/checkpoint", "run 11"), ("checkpoint", "an earlier run")]
)
def test_a_run_that_continues_another_and_asked_nobody_does_not_say_that_nothing_was_released(setting, told):
    record = RunRecord(run_id="12", algorithm="fedct", status="failed", config={"resume-from": setting})
    (text,) = claims.unprotected(record)
    assert f"It was started to continue {told}: what the parties were asked for there may have left them" in text
    assert f"what the page of {told} says and claims about it stays as it is" in text
    assert "nothing was released" not in text
    assert "nothing to claim" not in text
    assert claims.headline(record) == ("–", f"nothing new was released; see {told}, which this run continues")
    assert f"it was to continue {told}" in run_status(record).sentence
