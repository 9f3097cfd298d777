"""FedCT's consensus, by hand and by its invariants, and the settings it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.algorithms.fedct import FedCTConfig, aggregate
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels.dawid_skene import DawidSkene, dawid_skene
from fedkd_flwr.labels.voting import ABSTAIN
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse, kept_share

PARTIES = [[0, 1, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]]  # the third tells no classes apart
CLEAR = 60.0  # an epsilon at which noise changes no label


def _labels(*rows):
    return [np.array(row, dtype=np.int16) for row in rows]


def _consensus(answers, *, num_classes=2, seed=1, confidence=0.9999, **settings):
    config, rng = FedCTConfig(**{"ties": "lowest", "consensus": "majority", **settings}), np.random.default_rng(seed)
    rule = DawidSkene(least=confidence) if config.consensus == "dawid-skene" else None
    found, facts = aggregate(answers, config=config, num_classes=num_classes, rng=rng, rule=rule)
    return found.labels, facts


@pytest.mark.parametrize(
    ("settings", "expected", "discounted"),
    [
        ({}, [0, 1, 0, 0], 1),  # row 2: one vote each, the third party's is not counted
        ({"one_class_voters": "half"}, [0, 1, 1, 0], 1),
        ({"one_class_voters": "count"}, [0, 1, 1, 0], 0),
        ({"consensus": "qualified-majority", "quorum": 1.0}, [0, 1, -1, 0], 1),
        ({"consensus": "qualified-majority", "quorum": 0.5}, [0, 1, 0, 0], 1),
        ({"consensus": "qualified-majority", "quorum": 0.0}, [0, 1, 0, 0], 1),
        # two parties and a half: 5 halves, of which 4, 5, 3 and 4 agree
        ({"consensus": "qualified-majority", "quorum": 1.0, "one_class_voters": "half"}, [-1, 1, -1, -1], 1),
        ({"consensus": "qualified-majority", "quorum": 0.8, "one_class_voters": "half"}, [0, 1, -1, 0], 1),
        ({"consensus": "qualified-majority", "quorum": 0.6, "one_class_voters": "half"}, [0, 1, 1, 0], 1),
        ({"consensus": "qualified-majority", "quorum": 0.9, "one_class_voters": "count"}, [-1, 1, -1, -1], 0),
    ],
)
def test_three_parties_and_four_rows(settings, expected, discounted):
    consensus, facts = _consensus(_labels(*PARTIES), **settings)
    assert consensus.tolist() == expected
    assert consensus.dtype == np.int16
    assert facts.discounted == discounted
    assert facts.kept_share is None


@pytest.mark.parametrize("kind", ["majority", "qualified-majority", "dawid-skene"])
def test_where_all_abstain_nothing_is_labelled(kind):
    assert _consensus(_labels([-1, -1], [-1, -1]), consensus=kind)[0].tolist() == [-1, -1]


def _skewed(seed=3):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, 80)
    noisy = [np.where(rng.random(80) < right, truth, rng.integers(0, 3, 80)) for right in (0.9, 0.7, 0.5, 0.2)]
    return [labels.astype(np.int16) for labels in (*noisy, np.full(80, 2))]


def test_dawid_skene_is_five_steps_with_equal_classes_over_the_parties_that_count():
    answers = _skewed()
    counted = {"leave-out": answers[:4], "count": answers, "half": answers}
    for rule, voters in counted.items():
        values = {"one_class_voters": "count"} if rule == "count" else {"one_class_voters": rule}
        labels, probs = dawid_skene(voters, num_classes=3, max_iterations=5, tolerance=0.0, class_prior="uniform")
        for confidence in (0.0, 0.9, 0.9999):
            found, _ = _consensus(
                answers, num_classes=3, consensus="dawid-skene", confidence=confidence, **values
            )  # fmt: skip
            assert found.tolist() == np.where(probs.max(axis=1) >= confidence, labels, ABSTAIN).tolist()
            assert found.dtype == np.int16


def test_classes_that_are_equally_probable_up_to_rounding_are_a_tie():
    blind = [np.full(300, c, dtype=np.int16) for c in range(3)]
    lowest, _ = _consensus(blind, num_classes=3, consensus="dawid-skene", confidence=0.0)
    assert set(lowest.tolist()) == {0}
    drawn, _ = _consensus(blind, num_classes=3, consensus="dawid-skene", confidence=0.0, ties="random")
    assert set(drawn.tolist()) == {0, 1, 2}


def test_a_row_as_probable_as_the_confidence_asks_is_labelled():
    torn = _labels([0, 1], [1, 0])  # either class with probability 1/2
    for confidence, expected in ((0.5, [0, 0]), (0.5 + 1e-9, [ABSTAIN, ABSTAIN])):
        assert _consensus(torn, consensus="dawid-skene", confidence=confidence)[0].tolist() == expected


BITS = [np.eye(2, dtype=np.int16)[row].reshape(-1) for row in PARTIES]


@pytest.mark.parametrize(
    ("name", "answers", "mechanism"),
    [("randomized-response", _labels(*PARTIES), RandomizedResponse), ("xor", BITS, BitFlip)],
)
def test_with_hardly_any_noise_the_vote_is_the_vote_and_every_party_counts(name, answers, mechanism):
    settings = {"label_mechanism": name, "noise_strength": CLEAR}
    consensus, facts = _consensus(answers, **settings)
    assert consensus.tolist() == [0, 1, 1, 0]
    assert (facts.discounted, facts.class_voters) == (0, None)
    assert facts.kept_share == kept_share(mechanism(epsilon=CLEAR, num_classes=2))
    for quorum, expected in ((0.9, [-1, 1, -1, -1]), (0.6, [0, 1, 1, 0])):
        found, _ = _consensus(answers, consensus="qualified-majority", quorum=quorum, **settings)
        assert found.tolist() == expected


def test_a_row_whose_estimated_counts_are_all_below_zero_keeps_the_class_with_most_bits():
    """Twenty parties answered with strong noise; few bits are set, fewer than noise alone sets on average."""
    answers = [np.array(bits, dtype=np.int16) for bits in [[1, 0]] * 7 + [[0, 1]] * 5 + [[0, 0]] * 8]
    settings = {"label_mechanism": "xor", "noise_strength": 0.1}
    assert (BitFlip(epsilon=0.1, num_classes=2).debias(np.array([[7, 5]]), 20) < 0).all()
    assert _consensus(answers, consensus="majority", **settings)[0].tolist() == [0]
    assert _consensus(answers, consensus="qualified-majority", quorum=0.1, **settings)[0].tolist() == [ABSTAIN]


rows_of_labels = st.lists(st.integers(-1, 2), min_size=5, max_size=5)
matrices = st.lists(rows_of_labels, min_size=1, max_size=6)
rules = st.sampled_from(
    [
        {},
        {"one_class_voters": "half"},
        {"one_class_voters": "count"},
        {"consensus": "qualified-majority", "quorum": 0.6},
        {"consensus": "dawid-skene", "confidence": 0.7312},
    ]
)


@given(rows=matrices, settings=rules, seed=st.integers(0, 100))
def test_the_order_of_parties_changes_nothing(rows, settings, seed):
    order = np.random.default_rng(seed).permutation(len(rows))
    answers = _labels(*rows)
    one, facts = _consensus(answers, num_classes=3, **settings)
    other, same = _consensus([answers[i] for i in order], num_classes=3, **settings)
    assert one.tolist() == other.tolist()
    assert (facts.discounted, facts.class_voters.tolist()) == (same.discounted, same.class_voters.tolist())


def test_noise_is_found_for_all_labels_of_all_rounds():
    config = FedCTConfig(label_mechanism="randomized-response", epsilon=4.0, delta=1e-4)
    found = config.mechanism(num_classes=3, num_public=60, num_rounds=2)
    spent = Accountant().compose(found.dp_event(), 2 * 60).epsilon(1e-4)
    assert 3.9 < spent <= 4.0
    once = config.mechanism(num_classes=3, num_public=60)
    assert once.epsilon > found.epsilon
    assert config.mechanism(num_classes=3, num_public=1, num_rounds=1).epsilon >= once.epsilon


def test_parties_are_told_the_noise_that_was_found():
    sizes = {"num_classes": 3, "num_public": 60, "num_rounds": 2}
    plain = FedCTConfig()
    assert plain.resolved(**sizes) is plain
    for name in ("randomized-response", "xor"):
        config = FedCTConfig(label_mechanism=name, epsilon=4.0, seed=3)
        found = config.resolved(**sizes)
        assert (found.label_mechanism, found.epsilon, found.seed) == (name, 0.0, 3)
        assert found.mechanism(num_classes=3) == config.mechanism(**sizes)
    auto = FedCTConfig(label_mechanism="auto", noise_strength=2.0).resolved(**sizes)
    assert (auto.label_mechanism, auto.noise_strength) == ("randomized-response", 2.0)
    many = FedCTConfig(label_mechanism="auto", noise_strength=0.1).resolved(**{**sizes, "num_classes": 50})
    assert (many.label_mechanism, many.noise_strength) == ("xor", 0.1)


@pytest.mark.parametrize("mechanism", ["xor", "auto"])
def test_a_rule_that_reads_labels_is_refused_where_noise_may_make_bits_of_them(mechanism):
    with pytest.raises(ConfigError, match=f"consensus must work with {mechanism}, got 'dawid-skene'"):
        FedCTConfig(label_mechanism=mechanism, noise_strength=1.0, consensus="dawid-skene")
    with pytest.raises(ConfigError, match=r"epsilon or paper.noise-strength must be given with noise"):
        FedCTConfig(label_mechanism=mechanism)
