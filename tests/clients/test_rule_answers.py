"""What a party says beside labels leaves only where the run's vote rule asks for it and its owner allows it."""

import pytest
from federation import party, rows
from visits import RESPONSE, asked_more

EVERYWHERE, PARTY = frozenset({"fedct", "fedkt", "pate"}), {"privacy": "party"}


def member(*rules, **changes):
    return party("a", *rows(20, seed=1), allow=EVERYWHERE | {*rules}, **changes)


@pytest.mark.parametrize(
    ("rule", "name", "payload"),
    [
        ("density-ratio", "fedct", "ratios"),
        ("density-ratio", "fedkt", "ratios,labels"),
        ("density-ratio", "pate", "ratios"),
        *(("probabilities", name, "probs,class-counts") for name in ("fedct", "fedkt", "pate")),
    ],
)
def test_it_leaves_only_where_it_is_asked_for_and_allowed(rule, name, payload, caplog):
    assert asked_more(rule, name, member(rule))[:2] == (payload, "")
    assert asked_more("", name, member(rule))[0] == "labels"
    other = {"density-ratio": "probabilities", "probabilities": "density-ratio"}[rule]
    assert asked_more(rule, name, member(other))[0] == "labels"
    assert f"allow-vote-rules does not name {rule}: labels alone leave" in caplog.text


def test_probabilities_of_an_owner_who_allows_ratios_too_come_with_them():
    both = member("probabilities", "density-ratio")
    assert asked_more("probabilities", "fedct", both)[0] == "probs,ratios,class-counts"


def test_by_default_no_party_sends_more_than_labels():
    assert asked_more("density-ratio", "fedct", party("a", *rows(20, seed=1)))[0] == "labels"


@pytest.mark.parametrize("rule", ["density-ratio", "probabilities"])
@pytest.mark.parametrize(
    "noise",
    [{"privacy": "server"}, PARTY, RESPONSE, PARTY | RESPONSE, RESPONSE | {"label-mechanism": "xor"}],
)
def test_a_server_that_asks_for_more_beside_noise_is_refused(rule, noise):
    assert asked_more(rule, "fedct", member(rule), **noise) == ("", "bad-instruction", [])


def test_a_node_that_demands_privacy_sends_nothing():
    assert asked_more("density-ratio", "fedct", member("density-ratio", require_privacy=True))[1] == "privacy-required"
