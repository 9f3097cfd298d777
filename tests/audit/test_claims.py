"""Attacks on each level's claim, small: the bound stays below the claim, and planted mistakes push it above.

The audit itself, with more canaries and runs, is ``benchmarks/audit_claims.py``. The operating system's entropy is
replaced by a seeded stream here, so that a test that passes passes always; the claims do not know.
"""

import logging
import math
import os
import sys

import numpy as np
import pytest
import scripts

NETS = ("PrivateKT",)  # need torch


@pytest.fixture(scope="module")
def script():
    return scripts.script("benchmarks/audit_claims.py")


@pytest.fixture(autouse=True)
def _seeded_and_quiet(monkeypatch):
    rng, system = np.random.default_rng(5), os.urandom

    def urandom(size, /):
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        return rng.bytes(size) if caller.startswith(("fedkd_flwr.", "audit_claims")) else system(size)

    monkeypatch.setattr(os, "urandom", urandom)
    for name in ("flwr", "flwr.party"):
        monkeypatch.setattr(logging.getLogger(name), "disabled", True)


LEVELS = ["FedKT L1, counts", "FedKT L2", "PATE", "DP-FedCT, response", "DP-FedCT, bits", "DP-FedCT, four rounds"]
LEVELS += ["PrivateKT", "FedMD, Laplace", "DD, Gaussian", "FedMD, NFDP"]


@pytest.mark.parametrize("level", LEVELS)
def test_what_an_attacker_proves_stays_below_the_claim(script, level):
    if level in NETS:
        pytest.importorskip("torch")
    run = script.LEVELS[level](24)
    assert run.proven() <= run.epsilon
    assert np.isfinite(run.epsilon)
    assert (run.guesses != 0).any()


def test_every_level_of_the_benchmark_is_tried_here(script):
    assert list(script.LEVELS) == LEVELS


@pytest.mark.parametrize("level", ["DP-FedCT, response", "DP-FedCT, bits", "FedMD, Laplace"])
def test_half_of_the_claimed_noise_is_found(script, level):
    with script.halved_noise():
        run = script.LEVELS[level](160)
    assert run.proven() > run.epsilon


def test_two_students_counted_as_one_vote_are_found(script):
    with script.one_vote():
        run = script.fedkt_l1(80, students=2, gamma=0.4)
    assert run.proven() > run.epsilon


@pytest.mark.parametrize("level", ["FedKT L2", "PrivateKT"])
def test_a_party_that_stays_silent_where_training_fails_is_found_and_one_that_answers_is_not(script, level):
    if level in NETS:
        pytest.importorskip("torch")
    silent = script.BROKEN["silence"][1][level](24)
    assert silent.proven() > silent.epsilon
    script.Fragile.failed = 0
    answers = {"PrivateKT": lambda: script.privatekt(24, kind=script.Fragile)}
    answers["FedKT L2"] = lambda: script.fedkt_l2(24, teacher=script.Fragile, gamma=0.05)
    run = answers[level]()
    assert script.Fragile.failed >= run.coins.sum() > 0
    assert run.proven() <= run.epsilon


def test_a_subset_drawn_anew_in_every_round_is_found(script):
    with script.redrawn():
        run = script.fedmd_nfdp(40, rounds=5)
    assert run.proven() > run.epsilon


def test_repeated_runs_prove_more_than_the_truth_in_at_most_five_of_a_hundred(script):
    rng, epsilon, delta, runs = np.random.default_rng(2), 1.0, 0.1, 400
    other = 0.1
    one = delta + math.exp(epsilon) * other  # as much as the claim allows
    pairs = rng.binomial(runs, [one, other], (400, 2)).tolist()
    found = np.array([script.repeated_epsilon(a, b, runs, delta=delta) for a, b in pairs])
    assert (found > epsilon).mean() < 0.05
    assert found.max() > 0.9


def test_what_is_seen_on_one_input_alone_is_bounded_by_how_often_it_was_not_seen_on_the_other(script):
    assert 0 < script.repeated_epsilon(50, 0, 50) < math.log(50)
    assert script.repeated_epsilon(50, 50, 50) == 0
