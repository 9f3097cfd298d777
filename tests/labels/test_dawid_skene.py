from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.dawid_skene import dawid_skene

ORACLE = Path(__file__).parents[1] / "oracles" / "dawid_skene.json"


def test_dawid_skene_equals_the_published_implementation():
    """Reference posteriors by crowd-kit; the file tells its version and the call."""
    oracle = json.loads(ORACLE.read_text())
    for case in oracle["cases"]:
        labels = [np.array(row, dtype=np.int16) for row in case["labels"]]
        consensus, probs = dawid_skene(
            labels, num_classes=case["num_classes"], max_iterations=case["iterations"], tolerance=-np.inf
        )
        np.testing.assert_allclose(probs, case["probs"], atol=1e-6, err_msg=case["id"])
        sure = np.sort(probs, axis=1)[:, -1] - np.sort(probs, axis=1)[:, -2] > 1e-6
        assert (consensus[sure] == np.argmax(case["probs"], axis=1)[sure]).all()


def _plain_dawid_skene(labels, num_classes, iterations, uniform):
    """The same steps with loops over parties and rows; no row is without a vote."""
    probs = np.array(
        [[sum(own[row] == c for own in labels) for c in range(num_classes)] for row in range(len(labels[0]))]
    )
    probs = probs / probs.sum(axis=1, keepdims=True)
    for _ in range(iterations):
        prior = np.full(num_classes, 1 / num_classes) if uniform else probs.mean(axis=0)
        joint = np.tile(np.log(prior), (len(probs), 1))
        for own in labels:
            confusion = np.array([probs[own == c].sum(axis=0) for c in range(num_classes)])
            confusion = np.maximum(confusion, 1e-10)
            confusion /= confusion.sum(axis=0)
            for row in np.flatnonzero(own != ABSTAIN):
                joint[row] += np.log(confusion[own[row]])
        probs = np.exp(joint - joint.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
    return probs


@pytest.mark.parametrize("class_prior", ["estimated", "uniform"])
@pytest.mark.parametrize("iterations", [1, 7])
def test_dawid_skene_with_either_prior_is_what_plain_loops_find(class_prior, iterations):
    rng = np.random.default_rng(3)
    labels = [rng.choice(3, size=40, p=[0.6, 0.3, 0.1]).astype(np.int16) for _ in range(4)]
    for own in labels[1:]:
        own[rng.random(40) < 0.3] = ABSTAIN
    consensus, probs = dawid_skene(
        labels, num_classes=3, max_iterations=iterations, tolerance=-np.inf, class_prior=class_prior
    )
    np.testing.assert_allclose(probs, _plain_dawid_skene(labels, 3, iterations, class_prior == "uniform"), atol=1e-9)
    assert (consensus.dtype, consensus.tolist()) == (np.int16, probs.argmax(axis=1).tolist())


@pytest.mark.parametrize("class_prior", ["estimated", "uniform"])
def test_a_class_that_nobody_named_is_no_row_s_and_changes_no_other_label(class_prior):
    """With equal classes such a class would fit any votes, as nobody's errors on it are known."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 400)
    answers = [np.where(rng.random(400) < 0.5, truth, rng.integers(0, 4, 400)).astype(np.int16) for _ in range(5)]
    how = {"max_iterations": 5, "tolerance": 0.0, "class_prior": class_prior}
    labels, probs = dawid_skene(answers, num_classes=5, **how)
    without, known = dawid_skene(answers, num_classes=4, **how)
    assert not probs[:, 4].any()
    assert labels.tolist() == without.tolist()
    assert probs[:, :4] == pytest.approx(known, abs=1e-6)


def test_dawid_skene_of_a_thousand_parties_stays_in_the_range_of_floats():
    # evidence of thousands of nats on the rows they agree on, and hardly any on the last
    sure = np.tile(np.array([0, 1, 0, 1, 0], dtype=np.int16), (1000, 1))
    sure[::2, 4] = 1
    sure[:, 2] = ABSTAIN
    sure[0, 2] = 1
    consensus, probs = dawid_skene(list(sure), num_classes=2)
    assert np.isfinite(probs).all()
    assert consensus[[0, 1, 2, 3]].tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("answers", "classes", "consensus"),
    [
        ([[2, 0, 1, 1, 0]], 3, [2, 0, 1, 1, 0]),
        ([[0, 1, ABSTAIN], [0, ABSTAIN, ABSTAIN]], 2, [0, 1, ABSTAIN]),
        ([[ABSTAIN] * 3] * 2, 4, [ABSTAIN] * 3),
    ],
)
def test_few_votes_decide_alone_and_rows_without_any_stay_unlabelled(answers, classes, consensus):
    found, probs = dawid_skene([np.array(one, np.int16) for one in answers], num_classes=classes)
    assert found.tolist() == consensus
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    if set(consensus) == {ABSTAIN}:
        np.testing.assert_allclose(probs, 0.25)


@pytest.mark.parametrize(
    ("answers", "prior", "error", "match"),
    [
        ([], "uniform", DataError, "labels must hold at least one party's array"),
        ([[0]], "flat", ConfigError, 'class_prior must be "estimated" or "uniform", got \'flat\''),
    ],
)
def test_what_it_cannot_work_on_is_refused(answers, prior, error, match):
    with pytest.raises(error, match=match):
        dawid_skene([np.array(one, np.int16) for one in answers], num_classes=2, class_prior=prior)
