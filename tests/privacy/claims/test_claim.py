"""Claims say what they cover, against whom and on what basis, and the report reads them so."""

import math

import numpy as np
import pytest
from counted import tables
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fedkd_flwr.algorithms.column_weights import products
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.claims.claim import (
    EVERYONE,
    NOT_COVERED,
    NOT_COVERED_AT_SERVER,
    SERVER,
    PrivacyClaim,
    clipped_sum_at_server,
    label_privacy,
    noisy_max_at_party,
    noisy_max_at_server,
    noisy_sums,
    subsampling,
)
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import TwoClassEvent
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.privacy.noise.plan import NoisyVotes
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.noise.sums import LENGTH, ClippedSum, NoisyCounts, NoisyProducts
from fedkd_flwr.privacy.noise.votes import ConfidentGaussianMax, GaussianMax, LaplaceMax
from fedkd_flwr.report.claims import claim_meaning

LAPLACE = LaplaceMax(gamma=0.04)
CLEAR = np.tile([240, 5, 5], (81, 1))


def _proven(one, other, runs):
    """Return the epsilon that frequencies in so many runs on two neighbouring inputs prove, with 99.9 % confidence."""
    low, high = (stats.binomtest(hits, runs).proportion_ci(0.999) for hits in (one, other))
    return math.log((low.low - DELTA) / high.high)


def _claim(**changes):
    fields = {
        "unit": "record",
        "adversary": SERVER,
        "epsilon": 1.0,
        "delta": 1e-5,
        "neighbouring_relation": "replace one record",
        "publishable": True,
        "basis": "proven",
        "mechanism": "noise",
    }
    return PrivacyClaim(**(fields | changes))


def _asked(mechanism, num_queries=81, release="labels"):
    return NoisyVotes(mechanism=mechanism, num_queries=num_queries, release=release)


def _at_server(mechanism, num_queries=81, release="labels", delta=1e-5, **others):
    return noisy_max_at_server(_asked(mechanism, num_queries, release), delta=delta, **others)


def test_the_winner_of_two_classes_is_claimed_by_its_own_event_for_record_and_party():
    winner = LaplaceMax(gamma=0.04, winner_of_two=True)
    (claim,) = _at_server(winner)
    assert claim.epsilon == Accountant().compose(TwoClassEvent(25.0), 81).epsilon(1e-5)
    assert claim.epsilon < 0.7 * _at_server(LAPLACE)[0].epsilon
    assert "noisy max of two classes" in claim.mechanism
    record, party = noisy_max_at_party(_asked(winner, 10), delta=1e-5, teachers=25, partitions=2)
    for found, votes in ((record, 1), (party, 25)):
        assert found.epsilon == Accountant().compose(TwoClassEvent(25.0 / votes), 20).epsilon(1e-5)


def test_noise_at_a_party_protects_a_record_and_t_times_less_the_whole_party():
    record, party = noisy_max_at_party(_asked(LAPLACE, 10), delta=0.0, teachers=25, partitions=2)
    # 2 gamma per query and partition; 2 s t gamma for the party
    assert record.epsilon == pytest.approx(2 * 0.04 * 10 * 2)
    assert party.epsilon == pytest.approx(25 * record.epsilon)
    with pytest.raises(ConfigError, match="votes must be 1 for noise at the party, got 5"):
        noisy_max_at_party(_asked(LaplaceMax(gamma=0.04, votes=5), 10), delta=0.0, teachers=25)


def test_a_claim_without_a_bound_says_so_in_its_basis_too():
    for claim in (_claim(epsilon=math.inf), _claim(delta=1.0)):
        assert (claim.epsilon, claim.basis) == (math.inf, "none: no finite bound")
        assert (claim.as_dict()["epsilon"], claim.as_dict()["delta"]) == (None, None)


@pytest.mark.parametrize(("delta", "units"), [(1e-5, 0), (0.009, 0), (0.01, 100), (0.2, 5)])
def test_a_delta_that_exposes_one_of_few_warns_also_where_nobody_says_how_many_there_are(delta, units):
    claims = noisy_max_at_party(_asked(GaussianMax(sigma=20.0)), delta=delta, teachers=25)
    assert [bool(claim.notes) for claim in claims] == [bool(units)] * 2
    for claim, noun in zip(claims, ("records", "parties"), strict=True) if units else ():
        said = f"Warning: delta {delta:.3g} is at least 1 in {units} {noun}: where there are as many or more"
        assert claim.notes[0].startswith(said)


def test_seeded_noise_claims_nothing():
    noise = ClippedSum(clip=1.0, noise_multiplier=4.0)
    proven, claims = (
        (
            *_at_server(LaplaceMax(gamma=0.1), counts=CLEAR, seeded=seeded),
            clipped_sum_at_server(noise, rounds=1, delta=1e-5, seeded=seeded),
        )
        for seeded in (False, True)
    )
    assert (len(proven), {claim.basis for claim in proven}, len(claims)) == (3, {"proven"}, 2)
    for claim in claims:
        assert (claim.basis, claim.epsilon, claim.as_dict()["epsilon"]) == ("none: seeded", math.inf, None)
        assert claim_meaning(claim.as_dict()).startswith("No guarantee")
        assert claim.publishable  # not even the operator's number is left


# ---------------------------------------------------------------- word for word

AT_PARTY = {
    "adversary": "server",
    "publishable": True,
    "basis": "proven",
    "protects from": "the server and everyone after it; the party adds the noise itself",
    "not covered": NOT_COVERED,
}


def _warning(delta, of, one):
    return (
        f"Warning: delta {delta} is at least 1 in {of} a mechanism that simply exposes one {one} entirely would "
        "satisfy this delta."
    )


def test_the_claim_of_noise_at_the_server_word_for_word():
    noise = GaussianMax(sigma=400.0, votes=2)
    (claim,) = _at_server(noise, 1200, delta=0.02, num_parties=50)
    assert claim.as_dict() == {
        "unit": "party",
        "adversary": "everyone who sees the result",
        "epsilon": Accountant().compose(noise.dp_event(), 1200).epsilon(0.02),
        "delta": 0.02,
        "neighbouring relation": "replace one party",
        "publishable": True,
        "basis": "proven",
        "mechanism": "noisy max, Gaussian noise of standard deviation 400 votes, 2 votes may move; 1,200 queries, "
        "labels released",
        "protects from": "everyone but the server, which sees the votes as they were cast and is trusted to add the "
        "noise",
        "notes": _warning(0.02, "50, the number of parties:", "party"),
        "not covered": NOT_COVERED_AT_SERVER,
    }


def test_the_claims_of_noise_at_a_party_word_for_word():
    noise = ConfidentGaussianMax(threshold=4.0, sigma_threshold=90.0, sigma=30.0)
    record, party = noisy_max_at_party(_asked(noise, 600), delta=0.01, teachers=5, partitions=2, num_parties=50)
    words = (
        "confident noisy max, threshold 4 votes, Gaussian noise of standard deviation 90 (threshold) and 30 (answer) "
        "votes, {} may move; 1,200 queries, labels released"
    )
    assert record.as_dict() == AT_PARTY | {
        "unit": "record",
        "epsilon": Accountant().compose(noise.dp_event(), 1200).epsilon(0.01),
        "delta": 0.01,
        "neighbouring relation": "replace one record, number of records public",
        "mechanism": words.format("1 vote"),
        "notes": _warning(0.01, "100 records: where there are as many or more,", "record"),
    }
    assert party.as_dict() == AT_PARTY | {
        "unit": "party",
        "epsilon": party.epsilon,
        "delta": 0.01,
        "neighbouring relation": "any change of the party's data",
        "mechanism": words.format("5 votes"),
    }
    (_, party) = noisy_max_at_party(_asked(noise, 6), delta=0.02, teachers=5, num_parties=50)
    assert party.notes == (_warning(0.02, "50, the number of parties:", "party"),)


def test_the_claim_of_privatised_labels_word_for_word():
    response = RandomizedResponse(epsilon=1e-3, num_classes=10)
    claim = label_privacy(response, num_labels=5000, delta=0.5, rounds=1000, num_parties=2)
    assert claim.as_dict() == AT_PARTY | {
        "unit": "party",
        "epsilon": claim.epsilon,
        "delta": 0.5,
        "neighbouring relation": "any change of the party's data",
        "mechanism": f"{response.words}; 5,000 labels a round, 1,000 rounds",
        "notes": _warning(0.5, "2, the number of parties:", "party"),
    }
    assert claim.epsilon == Accountant().compose(response.dp_event(), 5_000_000).epsilon(0.5)


def test_the_claim_of_a_subset_word_for_word():
    drawn = Subsampling(num_rows=1000, subset_rows=300, replacement=True)
    once = "Holds if the subset is drawn once and kept for ever, and nothing is computed from the other rows. "
    assert subsampling(drawn).as_dict() == AT_PARTY | {
        "unit": "record",
        "epsilon": drawn.epsilon,
        "delta": drawn.delta,
        "neighbouring relation": "add or remove one record",
        "mechanism": "random subset of 300 of 1000 rows, with replacement (NFDP)",
        "protects from": "the server and everyone after it; the party draws the subset itself",
        "notes": once + _warning(0.259, "1,000, the number of records:", "record"),
    }


def test_the_operator_s_claim_differs_from_the_publishable_one_in_its_number_and_in_saying_so():
    # one query that all of 240 voters agree on: pure epsilon 2 to publish, at delta 0
    asked = {"mechanism": LaplaceMax(gamma=1.0), "num_queries": 1, "delta": 1e-30, "num_parties": 10**31}
    public, private = _at_server(**asked, counts=[[240, 0, 0]])
    assert (public.epsilon, public.delta, public.notes) == (pytest.approx(2.0), 0.0, ())
    assert private.epsilon < 1.0
    assert (private.delta, private.publishable) == (1e-30, False)
    note, warning = private.notes
    assert note == "Computed from the private votes: for the operator only."
    assert "the number of parties" in warning
    assert private.mechanism == public.mechanism
    assert "do not pass them on" in claim_meaning(private.as_dict())
    # the publishable claim is the same without the votes
    assert _at_server(**asked) == (public,)


@pytest.mark.parametrize(
    ("mechanism", "delta", "counts"),
    [
        # a tie: the data-dependent bound is that of PATE's moments, above the tight composition
        (LAPLACE, 1e-5, np.full((81, 2), 5)),
        (LaplaceMax(gamma=1.0), 0.0, CLEAR),
        (GaussianMax(sigma=20.0), 0.0, CLEAR),
        (ConfidentGaussianMax(threshold=5.0, sigma_threshold=30.0, sigma=10.0), 1e-5, CLEAR),
    ],
)
def test_votes_that_lower_nothing_delta_zero_and_a_threshold_make_no_second_claim(mechanism, delta, counts):
    assert len(_at_server(mechanism, delta=delta, counts=counts)) == 1


def test_votes_of_another_number_of_queries_are_refused_and_where_noisy_counts_are_released():
    with pytest.raises(DataError, match="counts must have one row for each of the 3 queries, got 81"):
        _at_server(LAPLACE, 3, counts=CLEAR)
    with pytest.raises(ConfigError, match="counts must be None where noisy counts are released"):
        _at_server(LAPLACE, release="counts", counts=CLEAR)
    assert "noisy counts released" in _at_server(LAPLACE, 1, release="counts")[0].mechanism


def test_one_unit_alone_is_warned_only_of_certain_exposure():
    (claim,) = _at_server(GaussianMax(sigma=40.0), 1, delta=0.6, num_parties=1)
    assert claim.notes == ()


@pytest.mark.parametrize("value", [0, 1.0, True])
@pytest.mark.parametrize("name", ["teachers", "partitions", "num_labels", "rounds"])
def test_impossible_numbers_are_refused(name, value):
    claim, mechanism, given = noisy_max_at_party, _asked(LAPLACE, 1), {"teachers": 5}
    if name not in ("teachers", "partitions"):
        claim, mechanism, given = label_privacy, RandomizedResponse(epsilon=1.0, num_classes=2), {"num_labels": 1}
    with pytest.raises(ConfigError, match=f"{name} must be a whole number >= 1, got"):
        claim(mechanism, delta=0.0, **{**given, name: value})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"unit": "person"}, "unit must be one of record, party"),
        ({"basis": "believed"}, "basis must begin with one of"),
        ({"publishable": 1}, "publishable must be true or false"),
        ({"epsilon": -1.0}, "epsilon must be finite and >= 0, got -1.0. Infinite is possible too"),
        ({"epsilon": math.nan}, "epsilon must be finite and >= 0, got nan"),
        ({"delta": 1.5}, r"delta must be within \[0, 1\], got 1\.5"),
        ({"delta": math.nan}, r"delta must be within \[0, 1\], got nan"),
    ],
)
def test_an_impossible_claim_is_refused(changes, match):
    with pytest.raises(ConfigError, match=match):
        _claim(**changes)


def test_sums_of_updates_protect_a_party_from_everyone_but_the_server():
    mechanism = ClippedSum(clip=0.5, noise_multiplier=4.0)
    claim = clipped_sum_at_server(mechanism, rounds=6, delta=1e-5, num_parties=10)
    assert claim.epsilon == Accountant().compose(mechanism.dp_event(), 6).epsilon(1e-5)
    assert (claim.unit, claim.adversary, claim.neighbouring_relation) == ("party", EVERYONE, "replace one party")
    assert claim.as_dict()["not covered"] == NOT_COVERED_AT_SERVER
    assert (claim.publishable, claim.basis, claim.notes) == (True, "proven", ())
    assert claim.mechanism == f"{mechanism.words}; 6 rounds of the party asked most often"
    (warning,) = clipped_sum_at_server(mechanism, rounds=6, delta=0.1, num_parties=10).notes
    assert "at least 1 in 10, the number of parties" in warning
    with pytest.raises(ConfigError, match="rounds must be a whole number >= 1, got 0"):
        clipped_sum_at_server(mechanism, rounds=0, delta=1e-5)


# ------------------------------------------------------------------------------------------------ noisy sums

DELTA = 1e-5


@settings(max_examples=20)
@given(st.floats(0.5, 60.0), st.integers(1, 40), st.integers(1, 3))
def test_the_claim_is_never_below_an_exact_computation(sigma: float, columns: int, times: int):
    claim = noisy_sums(NoisyCounts(sigma=sigma, tables=columns), times=times, delta=DELTA)
    # what one record moves, in standard deviations, is all that two Gaussians differ by
    apart = math.sqrt(2 * columns * times) / sigma
    law = stats.norm(apart**2 / 2, apart)  # of the privacy loss

    def beyond(loss: float) -> float:
        return -math.expm1(claim.epsilon - loss) * law.pdf(loss)

    spread = law.std()
    exact, error = integrate.quad(beyond, claim.epsilon, max(claim.epsilon, law.mean()) + 40 * spread, limit=400,
                                  points=[claim.epsilon + 0.1 * spread, claim.epsilon + spread])  # fmt: skip
    assert exact <= DELTA * (1 + 1e-6) + error
    assert claim.epsilon == 0 or exact > 0.99 * DELTA - error
    assert claim.basis == "proven"


def test_the_released_counts_themselves_cost_no_more_than_claimed():
    """Of one column with two values: the exact law of the rounded counts, cell by cell, composed on a grid."""
    sigma, claim = 1.5, noisy_sums(NoisyCounts(sigma=1.5, tables=1), times=1, delta=0.01)
    k = np.arange(-40, 42)
    law = stats.norm.cdf(k + 0.5, scale=sigma) - stats.norm.cdf(k - 0.5, scale=sigma)
    here, there = law[:-1], law[1:]  # a cell, and the same cell with one record more
    one, other = np.multiply.outer(here, there), np.multiply.outer(there, here)  # one cell loses it, another gains it
    delta = np.maximum(one - math.exp(claim.epsilon) * other, 0).sum()
    assert 0.0 < delta <= 0.01


def test_an_attacker_with_two_neighbouring_tables_proves_no_more_than_the_claim_and_not_much_less():
    runs, sizes, rng = 50_000, (2, 2, 2), np.random.default_rng(1)
    rows = np.array([[0, 1, 0, 0], [1, 0, 1, 1]])
    with_canary, without = (tables(np.concatenate([rows, [[one] * 4]]), sizes, 2) for one in (0, 1))
    mechanism = NoisyCounts(sigma=2.0, tables=len(sizes))
    direction = (with_canary - without).ravel()
    limit = (with_canary.ravel() + without.ravel()) @ direction / 2 + 8
    hits = []
    for exact in (with_canary, without):
        noisy = mechanism.privatize(np.tile(exact, (runs, 1)), rng=rng).reshape(runs, -1)
        hits.append(int((noisy @ direction > limit).sum()))
    claim = noisy_sums(mechanism, times=1, delta=DELTA)
    found = _proven(*hits, runs)
    assert 0.3 * claim.epsilon < found <= claim.epsilon
    # the same attacker refutes the claim of a mechanism that forgot that each column is a table of its own
    assert found > noisy_sums(NoisyCounts(sigma=4.0, tables=1), times=1, delta=DELTA).epsilon


def test_an_attacker_who_chooses_the_vectors_proves_no_more_than_the_claim_and_not_much_less():
    runs, mechanism, rng = 1_000, NoisyProducts(sigma=2.0, vectors=2), np.random.default_rng(1)
    vectors = np.array([[LENGTH, 0], [0, LENGTH], [0, 0]], dtype=np.int32)  # the two records that differ most
    with_canary, without = (products(vectors, np.array([record])) for record in ([0, 2], [2, 1]))
    direction = (with_canary - without) / LENGTH**2
    hits = []
    for exact in (with_canary, without):
        noisy = np.array([mechanism.privatize(exact, rng=rng) for _ in range(runs)]) / (2 * LENGTH**2)
        hits.append(int((noisy @ direction > 3.0).sum()))
    claim = noisy_sums(mechanism, times=1, delta=DELTA)
    found = _proven(*hits, runs)
    assert 0.1 * claim.epsilon < found <= claim.epsilon


def test_counts_products_and_several_answers_compose_and_the_weaker_of_them_counts_for_both():
    counts, strong, weak = NoisyCounts(sigma=20.0, tables=5), *(NoisyProducts(sigma=s, vectors=6) for s in (90.0, 4.0))
    event = Accountant().compose(counts.dp_event()).compose(strong.dp_event())
    assert noisy_sums(counts, strong, times=2, delta=DELTA).epsilon >= event.epsilon(DELTA)
    both = noisy_sums(counts, weak, times=2, delta=DELTA)
    assert both.epsilon == noisy_sums(weak, times=2, delta=DELTA).epsilon
    assert both.mechanism == f"{weak.words}; {counts.words}; 2 releases"
    assert (both.unit, both.adversary) == ("record", "server")
