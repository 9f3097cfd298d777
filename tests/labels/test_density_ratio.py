from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from fedkd_flwr.labels import ABSTAIN, Ballot
from fedkd_flwr.labels.density_ratio import Auto, DensityRatio
from fedkd_flwr.labels.median import Mean

ROWS = 30
TRUTH = np.arange(ROWS) % 3
CONFIG = SimpleNamespace(ties="lowest", robust_sum="trust", noisy=False)


def party(c, *, level=5, rows=20):
    """What a party of one class says that knows its rows, and no others."""
    codes = np.zeros((ROWS, 3), dtype=np.uint8)
    codes[c == TRUTH, c] = level
    return {"ratios": codes, "class-counts": np.eye(3, dtype=np.int64)[c] * rows}


ALL = {f"party-{c}": party(c) for c in range(3)}
EQUAL = np.tile(TRUTH, (1, 1)).astype(np.int16)


def chosen(sent, *, parties=3, labels=EQUAL, last=False, rule=Auto(), config=CONFIG):  # noqa: B008 - frozen
    names = [*sent, *(f"silent-{i}" for i in range(parties - len(sent)))]
    votes = len(names) * np.stack([(labels[0] == c) for c in range(int(labels.max()) + 1)], axis=1).astype(int)
    ballot = Ballot(
        parties=names,
        labels=[labels] * len(names),
        votes=votes,
        true_votes=votes,
        num_votes=len(names),
        counted=[True] * len(names),
        beside=sent,
        last=last,
    )
    return rule.combine(ballot, config=config, rng=np.random.default_rng(1))


def test_parties_of_one_class_each_label_every_row_rightly():
    found = chosen(ALL, labels=np.zeros((1, ROWS), np.int16) + 2)
    assert (found.rule, found.by_votes) == ("density-ratio", False)
    assert (found.labels == TRUTH).all()
    assert set(found.of_party) == set(found.trusts) == set(ALL)
    assert [one["class_counts"] for one in found.of_party.values()] == [[20, 0, 0], [0, 20, 0], [0, 0, 20]]
    assert "100% of the public rows look like private rows" in found.reason


def test_public_rows_from_elsewhere_fall_back_to_labels_and_the_reason_says_so():
    far = {name: {**one, "ratios": 0 * one["ratios"]} for name, one in ALL.items()}
    assert chosen(far).rule == "dawid-skene"
    found = chosen(far, last=True)
    assert (found.rule, found.by_votes, found.trusts) == ("majority", True, None)
    assert (found.labels == TRUTH).all()
    assert "Only 0 % of the public rows look like private rows" in found.reason
    assert [one["public_fit"] for one in found.of_party.values()] == [0.0] * 3


def test_confusion_matrices_are_estimated_from_three_parties_that_tell_classes_apart_and_not_from_two():
    assert chosen({}, parties=2).rule == "majority"
    assert chosen({}, parties=3).rule == "dawid-skene"


def test_two_classes_held_alike_take_ratios_and_labels_half_and_half_unless_ratios_were_asked_for_by_name():
    truth = np.arange(ROWS) % 2
    codes = np.where(np.eye(2, dtype=bool)[truth], 5, 0).astype(np.uint8)
    codes[0] = 0  # looks like nobody's row
    alike = {f"party-{i}": {"ratios": codes, "class-counts": np.array([10, 10])} for i in range(3)}
    labels = truth[None].astype(np.int16)
    both, ratios = (chosen(alike, labels=labels, rule=rule) for rule in (Auto(), DensityRatio()))
    assert both.rule == ratios.rule == "density-ratio"
    assert (both.labels == truth).all()
    assert ratios.labels[0] == ABSTAIN
    np.testing.assert_allclose(both.probs, (ratios.probs + np.eye(2)[truth]) / 2)
    assert both.reason.endswith("(0.0 points apart), so a party's label of a row counts as much as its density ratio.")
    silent = np.where(np.arange(ROWS) == 1, ABSTAIN, labels).astype(np.int16)  # FedKT's students disagree on a row
    assert np.array_equal(chosen(alike, labels=silent).probs[1], ratios.probs[1])
    silent[0, 0] = ABSTAIN
    assert chosen(alike, labels=silent).labels[0] == ABSTAIN  # nobody says anything of it


def test_bins_of_a_number_take_density_ratios_where_parties_hold_other_numbers_and_else_the_mean_of_the_labels():
    number = Auto(Mean())
    assert chosen(ALL, rule=number).rule == "density-ratio"
    alike = {name: {**said, "class-counts": np.array([5, 4, 6])} for name, said in ALL.items()}
    assert chosen(alike).rule == "density-ratio"  # of classes it goes by no such difference
    found = chosen(alike, rule=number)
    assert (found.rule, found.by_votes) == ("mean", False)
    assert np.array_equal(found.probs, np.eye(3)[TRUTH])
    assert found.reason == "Most parties hold about the same numbers (0.0 points apart): there labels are as good."
    assert chosen({}, rule=number).rule == "mean"  # and no confusion matrix is estimated


def test_parties_that_keep_their_ratios_are_counted_in_the_reason():
    two = {name: ALL[name] for name in ("party-0", "party-1")}
    assert chosen(two).rule == "density-ratio"  # two of three are enough
    assert "1 of 3 parties sent no density ratios" in chosen(two).reason
    one = chosen({"party-0": ALL["party-0"]}).reason
    assert one.startswith("Too few parties sent density ratios")
    assert "2 of 3 parties sent no density ratios" in one
    assert chosen({}).reason.startswith("The parties sent labels alone")
    assert chosen({"party-0": ALL["party-0"]}).rule != "density-ratio"  # one of three is not enough
    assert chosen({}, labels=np.array([[0] * 28 + [1, 2]], np.int16)).rule == "majority"


def test_beside_noise_auto_is_the_majority_and_chooses_nothing():
    found = chosen({}, config=SimpleNamespace(ties="lowest", noisy=True))
    assert (found.rule, found.reason, found.labels.tolist()) == ("", "", TRUTH.tolist())


def test_ratios_name_the_class_that_a_row_most_looks_like_and_none_where_it_looks_like_none():
    codes = np.array([[1, 3], [2, 0], [0, 0]], np.uint8)
    assert DensityRatio().also_named({"ratios": codes}).tolist() == [1, 0, ABSTAIN]
