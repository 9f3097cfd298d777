"""Sentences about a key that nobody knows or reads say which one was meant."""

import pytest

from fedkd_flwr.algorithms import cards
from fedkd_flwr.settings.unread import not_read, unknown, unread_by


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("seed2", "Did you mean seed?"),
        ("quorum", "Did you mean fedct.quorum?"),  # in its section
        ("fedkt.quorum", "Did you mean fedct.quorum?"),
        ("data-path", "It is a party's own setting: give it in the node config."),
        ("zzz", "Known keys: fedct.quorum, model, seed."),
    ],
)
def test_an_unknown_key_is_met_with_the_one_that_was_meant(key, hint):
    said = unknown("run config key", key, {key: 1}, ["seed", "model", "fedct.quorum"])
    assert said == f"run config key {key} must be a known key, got 1. {hint}"


def test_a_key_that_is_given_already_is_not_the_one_that_was_meant():
    assert unknown("key", "seeds", {"seeds": 1, "seed": 2}, ["seed", "feed"]).endswith("Did you mean feed?")


@pytest.mark.parametrize(
    ("own", "instead"), [(["score-noise"], "; fedmd has score-noise"), ([], ", or use fedkt or pate")]
)
def test_a_setting_that_the_algorithm_does_not_read_is_met_with_its_own_or_with_those_that_do(own, instead):
    said = unread_by("noise", "laplace", "fedmd", ["fedkt", "pate"], own)
    assert said == f"noise must not be set for fedmd, got 'laplace'. It would be ignored: drop it{instead}."


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("fedct.quorum", 0.9, ""),  # its default is no mistake
        (
            "fedct.quorum",
            0.5,
            "fedct.quorum must not be set for pate, got 0.5. It would be ignored: drop it, or use fedct.",
        ),
        ("paper.stop-when-converged", 1, "paper.stop-when-converged must not be set for pate, got 1."),  # 1 is not true
    ],
)
def test_a_setting_of_other_algorithms_is_refused_unless_it_has_its_default(key, value, said):
    found = "".join(not_read(key, value, cards()["pate"]))
    assert found.startswith(said) if said else not found


def test_an_own_setting_whose_name_ends_alike_is_named():
    (found,) = not_read("epsilon", 2.0, cards()["privatekt"])
    assert found.endswith("drop it; privatekt has privatekt.round-epsilon.")
