"""What parties' probabilities amount to: against Bayes' rule where the densities are known."""

import numpy as np
import pytest

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.labels import Ballot
from fedkd_flwr.labels.priors import class_shares
from fedkd_flwr.labels.probabilities import BITS, Probabilities, home_labels, joined, likelihood_steps, sharpened
from fedkd_flwr.labels.ratios import ratio_codes

MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
CONFIG = FedCTConfig(send="probabilities")


def _densities(rows):
    return np.exp(-((rows[:, None] - MEANS) ** 2).sum(axis=2) / 2)


def _posterior(rows, shares):
    found = _densities(rows) * shares
    return found / found.sum(axis=1, keepdims=True)


def _rows(shares, num_rows=2000, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), num_rows, p=shares)
    return rng.normal(MEANS[y]), y.astype(np.int16)


def _said(rows, counts):
    """Say what a party says that knows its own posterior exactly."""
    shares = class_shares(np.array(counts))
    return {
        "probs": likelihood_steps(_posterior(rows, shares), taught=shares, class_counts=np.array(counts)),
        "class-counts": np.array(counts),
    }


def _ballot(beside, num_rows, labels=None):
    parties = [str(i) for i in range(len(labels or beside))]
    given = labels or [home_labels(one["probs"], one["class-counts"]) for one in beside.values()]
    votes = np.array([[np.sum([said[i] == c for said in given]) for c in range(3)] for i in range(num_rows)])
    return Ballot(
        parties=parties,
        labels=[one[None] for one in given],
        votes=votes,
        true_votes=votes,
        num_votes=len(parties),
        counted=[True] * len(parties),
        beside=beside,
    )


def _combined(beside, num_rows, config=CONFIG, labels=None):
    return Probabilities().combine(_ballot(beside, num_rows, labels), config=config, rng=np.random.default_rng(1))


def test_what_a_party_says_does_not_depend_on_how_frequent_its_classes_are():
    rows, _ = _rows(np.ones(3) / 3)
    even, odd = _said(rows, [1000, 1000, 1000])["probs"], _said(rows, [4000, 400, 2000])["probs"]
    assert np.abs(even.astype(int) - odd).max() <= 1  # what the pseudo counts make of it
    assert (even.sum(axis=1) == 2**BITS - 1).all()


def test_a_model_that_was_taught_with_other_shares_says_the_same():
    rows, _ = _rows(np.ones(3) / 3)
    counts, taught = np.array([4000, 400, 2000]), np.ones(3) / 3
    found = likelihood_steps(_posterior(rows, taught), taught=taught, class_counts=counts)
    assert (found == _said(rows, counts.tolist())["probs"]).mean() > 0.999


def test_a_class_that_a_party_lacks_is_left_to_the_others():
    rows, _ = _rows(np.ones(3) / 3)
    assert (_said(rows, [500, 500, 0])["probs"][:, 2] == 0).all()


def test_uneven_parties_give_the_posterior_of_all_rows_together():
    """Each answers for other shares, one knows two classes, one a single one: shares are divided out and put back.

    What all rows say together is raised to the power 1.3, before the shares are put back.
    """
    held = np.array([[900, 90, 10], [20, 500, 480], [300, 0, 300], [0, 700, 0]])
    shares = held.sum(axis=0) / held.sum()
    rows, y = _rows(shares, 4000)
    found = _combined({str(i): _said(rows, counts) for i, counts in enumerate(held.tolist())}, len(rows))
    best = shares * (_posterior(rows, shares) / shares) ** 1.3
    best /= best.sum(axis=1, keepdims=True)
    assert (found.rule, found.by_votes) == ("probabilities", False)
    assert found.probs.sum(axis=1) == pytest.approx(1)
    assert np.abs(found.probs - best).mean() < 0.03  # four bits
    assert (found.labels == best.argmax(axis=1)).mean() > 0.96
    assert (found.labels == y).mean() > (best.argmax(axis=1) == y).mean() - 0.01
    mean = np.mean([_posterior(rows, class_shares(np.array(one))) for one in held.tolist()], axis=0)
    assert np.abs(mean - best).mean() > 0.1


def test_for_two_classes_a_party_weighs_as_much_as_its_rows_can_tell():
    """The variance of a logarithm of odds is about 1/n_0 + 1/n_1."""
    odds, counts = np.array([1.0, -2.0]), np.array([[80.0, 20.0], [10.0, 90.0]])
    likelihoods = [np.array([[1.0, np.exp(one)]]) for one in odds]
    probs = joined(likelihoods, counts, np.array([0.5, 0.5]))
    weights = 1 / (1 / counts).sum(axis=1)
    assert np.log(probs[0, 1] / probs[0, 0]) == pytest.approx(weights @ odds / weights.sum())


def test_drawn_rows_are_labelled_for_the_released_shares_by_models_that_are_sure_of_little():
    shares = np.array([0.7, 0.2, 0.1])
    rows, y = _rows(shares, 4000)
    even, counts = np.ones(3) / 3, np.array([99, 99, 99])
    doubtful = _posterior(rows, even) ** 0.4
    said = likelihood_steps(doubtful / doubtful.sum(axis=1, keepdims=True), taught=even, class_counts=counts)
    beside, rng = {str(i): {"probs": said, "class-counts": counts} for i in range(3)}, np.random.default_rng(1)
    found = Probabilities(shares=tuple(shares)).combine(_ballot(beside, 4000), config=CONFIG, rng=rng)
    labelled = np.bincount(found.labels, minlength=3) / 4000
    assert np.abs(labelled - shares).sum() / 2 < 0.03 + 1e-9
    plain = joined([said + 1e-9], np.array([[99.0] * 3]), shares)
    assert plain.argmax(axis=1).tolist().count(0) > 0.8 * 4000
    assert (found.labels == y).mean() > (plain.argmax(axis=1) == y).mean() + 0.02
    sure = _posterior(rows, shares)
    assert sharpened(sure, np.bincount(sure.argmax(axis=1)) / 4000) == pytest.approx(sure)  # enough have each label


def test_a_liar_that_swaps_its_classes_is_heard_less_than_the_others():
    rows, y = _rows(np.ones(3) / 3)
    beside = {str(i): _said(rows, [300, 300, 300]) for i in range(4)}
    beside["3"] = {**beside["3"], "probs": beside["3"]["probs"][:, [1, 2, 0]], "class-counts": np.array([10**6] * 3)}
    found = _combined(beside, len(rows))
    assert found.trusts["3"] < 0.1
    honest = _combined({name: beside[name] for name in "012"}, len(rows))
    assert (found.labels == honest.labels).mean() > 0.97
    believed = _combined(beside, len(rows), FedCTConfig(send="probabilities", distrust="none"))
    assert (believed.labels == y).mean() < (found.labels == y).mean() - 0.3


def test_a_liar_that_is_sure_of_one_class_everywhere_weighs_no_more_than_most():
    rows, y = _rows(np.ones(3) / 3)
    honest = {str(i): _said(rows, [100, 100, 100]) for i in range(6)}
    sure = np.zeros((len(rows), 3), np.uint8)
    sure[:, 2] = 2**BITS - 1
    lied = {**honest, "6": {"probs": sure, "class-counts": np.array([10**6] * 3)}}
    right = [(_combined(said, len(rows)).labels == y).mean() for said in (honest, lied)]
    assert right[1] > right[0] - 0.05
    believed = _combined(lied, len(rows), FedCTConfig(send="probabilities", distrust="none"))
    assert (believed.labels == y).mean() < 0.4


def test_models_that_are_sure_of_nothing_are_not_taken_for_public_rows_of_other_classes():
    even = np.ones(3) / 3
    rows, y = _rows(even)
    doubtful = _posterior(rows, even) ** 0.2 * [1.1, 1.0, 0.95]  # as of a net after a few steps
    probs, counts = doubtful / doubtful.sum(axis=1, keepdims=True), np.array([300, 300, 300])
    said = {"probs": likelihood_steps(probs, taught=even, class_counts=counts), "class-counts": counts}
    found = _combined({str(i): said for i in range(4)}, len(rows))
    assert (found.labels == y).mean() > (_posterior(rows, even).argmax(axis=1) == y).mean() - 0.1


def test_where_no_party_holds_two_classes_density_ratios_tell_them_apart():
    rows, y = _rows(np.ones(3) / 3)
    beside = {}
    for c in range(3):
        counts = np.eye(3, dtype=int)[c] * 300
        ratios = np.zeros((len(rows), 3))
        ratios[:, c] = np.minimum(3 * _posterior(rows, np.ones(3) / 3)[:, c], 6)
        beside[str(c)] = {**_said(rows, counts.tolist()), "ratios": ratio_codes(ratios)}
    alone = _combined(
        {name: {k: v for k, v in one.items() if k != "ratios"} for name, one in beside.items()}, len(rows)
    )
    assert np.ptp(alone.probs, axis=0).max() < 1e-9  # only the shares are known
    best = (_posterior(rows, np.ones(3) / 3).argmax(axis=1) == y).mean()
    assert (_combined(beside, len(rows)).labels == y).mean() > best - 0.02


def test_where_most_parties_send_labels_alone_these_vote():
    rows, _ = _rows(np.ones(3) / 3, 60)
    labels = [np.full(60, c, np.int16) for c in (2, 2, 0)]
    found = _combined({"0": _said(rows, [5, 5, 5])}, 60, labels=labels)
    assert (found.rule, found.probs, set(found.labels.tolist())) == ("majority", None, {2})
    assert "1 of 3 parties sent probabilities" in found.reason
    assert "allow-vote-rules must name probabilities" in found.reason
