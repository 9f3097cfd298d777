"""Randomised response and bit flips: right in law, unbiased, and no epsilon below what they reveal."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse, kept_share, label_mechanism
from fedkd_flwr.privacy.noise.sampling import flip_words, response_words

EPSILONS = [1e-9, 1e-3, 0.5, 3.0, 30.0]


def _event_epsilon(event: object) -> float:
    """Epsilon at delta 0 of a randomised-response event, repeated or not, by its definition."""
    if hasattr(event, "count"):
        return event.count * _event_epsilon(event.event)  # type: ignore[attr-defined]
    noise, buckets = event.noise_parameter, event.num_buckets  # type: ignore[attr-defined]
    return math.log1p((1 - noise) * buckets / noise)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("num_classes", [2, 10])
def test_keep_is_the_published_beta(epsilon: float, num_classes: int) -> None:
    beta = math.expm1(epsilon) / (math.expm1(epsilon) + num_classes)
    mechanism = RandomizedResponse(epsilon=epsilon, num_classes=num_classes)
    assert mechanism.keep == pytest.approx(beta, rel=1e-7)
    assert mechanism.pure_epsilon == pytest.approx(epsilon, rel=1e-7)
    assert kept_share(mechanism) == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) + num_classes - 1))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_flip_probability_is_the_needed_one(epsilon: float) -> None:
    mechanism = BitFlip(epsilon=epsilon, num_classes=10)
    assert mechanism.flip_probability == pytest.approx(1 / (math.exp(epsilon / 2) + 1))
    assert mechanism.pure_epsilon == pytest.approx(epsilon, rel=1e-7)
    assert kept_share(mechanism) == 1 - mechanism.flip_probability


@pytest.mark.parametrize("epsilon", [*EPSILONS, 44.0, 100.0, 700.0])
@pytest.mark.parametrize("kind", [RandomizedResponse, BitFlip])
def test_events_claim_what_the_code_does_and_no_less(epsilon: float, kind: type) -> None:
    mechanism = kind(epsilon=epsilon, num_classes=10)
    claimed = _event_epsilon(mechanism.dp_event())
    # math.log1p may round down by one unit in the last place
    assert mechanism.pure_epsilon * (1 - 1e-15) <= claimed <= mechanism.pure_epsilon * (1 + 1e-12) + 1e-14
    assert mechanism.pure_epsilon <= epsilon * (1 + 1e-15)
    # as a fraction of words, the event's noise is not above the code's
    event = mechanism.dp_event()
    if kind is RandomizedResponse:
        assert Fraction(event.noise_parameter) <= Fraction(10 * response_words(epsilon, 10)[1], 2**64)
    else:
        assert Fraction(event.event.noise_parameter) <= Fraction(2 * flip_words(epsilon), 2**64)


def test_huge_epsilon_claims_the_64_bits_it_has() -> None:
    assert RandomizedResponse(epsilon=700, num_classes=10).pure_epsilon == pytest.approx(64 * math.log(2))
    assert BitFlip(epsilon=700, num_classes=10).pure_epsilon == pytest.approx(128 * math.log(2))


def _response_pvalue(mechanism: RandomizedResponse, epsilon: float) -> float:
    labels = np.full(100_000, 2, dtype=np.int16)
    counts = np.bincount(mechanism.privatize(labels, rng=np.random.default_rng(1)), minlength=5)
    weights = np.array([1, 1, math.exp(epsilon), 1, 1])
    return float(stats.chisquare(counts, labels.size * weights / weights.sum()).pvalue)


def test_response_follows_its_law_and_no_other() -> None:
    mechanism = RandomizedResponse(epsilon=1.5, num_classes=5)
    assert _response_pvalue(mechanism, 1.5) > 0.01
    assert _response_pvalue(mechanism, 1.4) < 1e-4
    assert _response_pvalue(mechanism, 1.6) < 1e-4


def test_each_word_gives_the_class_its_block_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedkd_flwr.privacy.noise import sampling

    mechanism = RandomizedResponse(epsilon=1.0, num_classes=3)
    kept, each = sampling.response_words(1.0, 3)
    edges = [0, kept - 1, kept, kept + each - 1, kept + each, kept + 2 * each - 1, kept + 2 * each, 2**64 - 1]
    monkeypatch.setattr(sampling, "words", lambda count, rng: np.array(edges, dtype=np.uint64))
    assert mechanism.privatize(np.ones(8, dtype=np.int64)).tolist() == [1, 1, 0, 0, 1, 1, 2, 2]


def test_bits_are_flipped_independently_of_class_and_place() -> None:
    mechanism = BitFlip(epsilon=2.0, num_classes=3)
    labels = np.array([0, 2] * 50_000)
    bits = mechanism.privatize(labels, rng=np.random.default_rng(2))
    assert bits.dtype == np.uint8
    assert bits.shape == (100_000, 3)
    flipped = bits ^ np.eye(3, dtype=np.uint8)[labels]
    p = mechanism.flip_probability
    assert (np.abs(flipped.mean(axis=0) - p) < 4 * math.sqrt(p * (1 - p) / 1e5)).all()
    assert (np.abs(np.corrcoef(flipped.T) - np.eye(3)) < 4 / math.sqrt(1e5)).all()
    patterns = np.bincount(flipped @ np.array([1, 2, 4]), minlength=8)
    ones = np.array([bin(pattern).count("1") for pattern in range(8)])
    assert stats.chisquare(patterns, 1e5 * p**ones * (1 - p) ** (3 - ones)).pvalue > 0.01
    wrong = 1.1 * p
    assert stats.chisquare(patterns, 1e5 * wrong**ones * (1 - wrong) ** (3 - ones)).pvalue < 1e-6


def _variances(mechanism: RandomizedResponse | BitFlip) -> float:
    """Return the exact variance of one report's debiased entry for a class that is not its own, by `debias` itself."""
    classes = mechanism.num_classes
    p = mechanism.flip_probability if isinstance(mechanism, BitFlip) else (1 - mechanism.keep) / classes
    values = mechanism.debias(np.eye(2, classes, dtype=np.int64), 1)[:, 0]
    return float(p * (1 - p) * (values[0] - values[1]) ** 2)


@pytest.mark.parametrize("num_classes", [2, 5, 6, 10, 100])
@pytest.mark.parametrize("epsilon", [0.01, 0.9, 0.92, 2.5, 6.0])
def test_auto_takes_the_smaller_variance_and_that_is_the_published_rule(num_classes: int, epsilon: float) -> None:
    response = RandomizedResponse(epsilon=epsilon, num_classes=num_classes)
    flips = BitFlip(epsilon=epsilon, num_classes=num_classes)
    x = math.exp(epsilon / 2)
    assert [one.variance for one in (response, flips)] == pytest.approx([_variances(response), _variances(flips)])
    response_wins = _variances(response) < _variances(flips)
    assert response_wins == (num_classes - 2 < x**3 + x**2 + x)
    chosen = label_mechanism("auto", epsilon=epsilon, num_classes=num_classes)
    assert chosen == (response if response_wins else flips)


def test_named_mechanisms_are_what_they_are_called() -> None:
    assert isinstance(label_mechanism("xor", epsilon=9, num_classes=2), BitFlip)
    assert isinstance(label_mechanism("randomized-response", epsilon=1e-3, num_classes=99), RandomizedResponse)
    with pytest.raises(ConfigError, match="mechanism must be one of auto, randomized-response, xor, got 'rr'"):
        label_mechanism("rr", epsilon=1, num_classes=2)


@pytest.mark.parametrize("kind", [RandomizedResponse, BitFlip])
@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ([0, -1], r"labels must lie within 0\.\.2, got -1 at row 1 .*an abstention would be visible"),
        ([0, 3], r"labels must lie within 0\.\.2, got 3"),
        ([0.0, 1.0], "labels must hold integers, got dtype float64"),
        ([True, False], "labels must hold integers, got dtype bool"),
    ],
)
def test_labels_that_are_no_classes_are_refused(kind: type, labels: list[object], match: str) -> None:
    with pytest.raises(DataError, match=match):
        kind(epsilon=1.0, num_classes=3).privatize(np.array(labels))


def test_response_keeps_the_shape_of_labels_also_of_none_and_bit_flips_need_one_row() -> None:
    with pytest.raises(DataError, match=r"labels must have shape \(rows,\), got shape \(1, 2\)"):
        BitFlip(epsilon=1.0, num_classes=3).privatize(np.zeros((1, 2), dtype=int))
    noisy = RandomizedResponse(epsilon=0.1, num_classes=3).privatize(np.array([[0, 1, 2]]))
    assert (noisy.shape, noisy.dtype) == ((1, 3), np.int16)
    for kind, shape in ((RandomizedResponse, (0,)), (BitFlip, (0, 3))):
        assert kind(epsilon=0.1, num_classes=3).privatize(np.zeros(0, dtype=int)).shape == shape


def test_debias_inverts_the_expectation_by_hand() -> None:
    # e^eps = 3 and 2 classes: kept with 1/2, so 8 reports of class 0 are seen as 6 and 2 on average
    response = RandomizedResponse(epsilon=math.log(3), num_classes=2)
    np.testing.assert_allclose(response.debias(np.array([[6, 2]]), 8), [[8, 0]], atol=1e-12)
    # e^(eps/2) = 3: a bit is flipped with 1/4
    flips = BitFlip(epsilon=2 * math.log(3), num_classes=2)
    np.testing.assert_allclose(flips.debias(np.array([[6, 2]]), 8), [[8, 0]], atol=1e-12)


def test_a_claim_says_that_a_label_is_kept_or_drawn_anew_because_a_drawn_one_may_be_the_same() -> None:
    mechanism = RandomizedResponse(epsilon=5.0, num_classes=4)
    assert mechanism.words.endswith("a label (kept as it was: 0.9736, else drawn anew)")
    assert kept_share(mechanism) > mechanism.keep


@pytest.mark.parametrize(
    ("kind", "counts", "reports", "match"),
    [
        (RandomizedResponse, [[2, 0]], 1, r"counts must lie within 0\.\.1, got 2"),
        (BitFlip, [[2, 0]], 1, r"bit_sums must lie within 0\.\.1, got 2"),
        (BitFlip, [[1, 1, 0]], 2, "bit_sums must have 2 columns, one per class"),
        (RandomizedResponse, [[1, 2], [1, 1]], 3, "counts must sum to 3 on every row, got row 1 does not"),
    ],
)
def test_debias_refuses_what_no_reports_could_sum_to(kind: type, counts: list, reports: int, match: str) -> None:
    with pytest.raises(DataError, match=match):
        kind(epsilon=1.0, num_classes=2).debias(np.array(counts), reports)
