"""Runs beside each other: groups, settings, paired differences, and what cannot be compared."""

import re

import pytest
from sample_claims import RECORD

from fedkd_flwr.errors import DataError
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.report.compare import compare


@pytest.fixture
def run(make_record):
    """Return a maker of runs whose parties reach given accuracies."""

    def make(seed, *accuracies, number=0, **changed):
        record = make_record(len(accuracies), 2, seed=seed)
        record.run_id = f"{seed}{number}{sum(accuracies):.3f}{sorted(changed.items())}"
        record.config |= {"dataset": "digits", "seed": seed, "num-test": 0, "model": "knn"} | changed
        for party, value in zip(record.parties, accuracies, strict=True):
            party.solo = {"common": Metrics(n=100, accuracy=0.5, support=[60, 40])}
            party.federated = {"common": Metrics(n=100, accuracy=value, support=[60, 40])}
        record.centralised = {}
        return record

    return make


def gaps(found):
    """Return the rows of later groups that could be paired."""
    return [row for row in found.table.itertuples() if row.verdict == row.verdict]


def test_runs_that_differ_only_in_their_seed_are_one_group(run):
    found = compare([run(1, 0.8, 0.6), run(2, 0.8, 0.8, name="x"), run(1, 0.9, 0.9, model="mlp")])
    assert {letter: [one.seed for one in group] for letter, group in found.groups.items()} == {"A": [1, 2], "B": [1]}
    assert found.differs == ["model"]
    assert "A  model=knn 2 runs, seed 1, 2 (" in found.text()
    assert ", x)" in found.text()
    assert [row["model"] for row in found.as_dict()["numbers"] if row["group"] == "B"][:1] == ["mlp"]
    (gap,) = gaps(found)
    assert (gap.seeds, gap.difference) == (1, pytest.approx(0.2))
    assert gap.verdict == "one seed says nothing about noise"


def test_differences_are_paired_by_seed_so_what_a_seed_does_to_both_cancels_out(run):
    levels = {1: 0.5, 2: 0.7, 3: 0.9, 4: 0.6}
    runs = [run(s, v, v) for s, v in levels.items()]
    runs += [run(s, v + 0.03 + 0.001 * s, v + 0.03, model="mlp") for s, v in levels.items()]
    found = compare(runs)
    (gap,) = gaps(found)
    assert (gap.verdict, gap.difference) == ("more than noise", pytest.approx(0.03125))
    text = found.text()
    assert re.search(r"A +parties with the federation +0\.675 ± 0\.171\n", text)
    assert "A  model=knn 4 runs, seed 1, 2, 3, 4 (" in text
    assert "num-test" not in text  # equal settings are not shown
    assert re.search(r"B +parties with the federation +0\.706 ± 0\.\d+ +\+0\.031 ± 0\.\d+ +4 +more than noise", text)


def test_of_the_runs_epsilons_the_largest_is_shown_and_rounded_up(run):
    """A mean is below the claim of some run, and 0.00044 with three decimals is 0."""
    runs = [run(1, 0.8), run(2, 0.8), run(1, 0.7, model="mlp"), run(2, 0.7, model="mlp")]
    for record, epsilon in zip(runs, (0.00044, 0.0001, 1.00001, 3.00001), strict=True):
        record.claims = [{**RECORD, "epsilon": epsilon}]
    found = compare(runs)
    assert re.search(r"A +epsilon.* largest of the runs +0\.00044\nB +epsilon.* +3\.001\n", found.text())


def test_equal_gaps_and_two_seeds_are_not_said_to_be_more_than_noise(run):
    runs = [run(s, v, v, model=m) for s in (1, 2, 3) for m, v in (("knn", 0.8), ("mlp", 0.81))]
    text = compare(runs).text()
    assert re.search(r"\+0\.010 +3 +equal in each seed, so its noise is not known", text)
    values = {(1, "knn"): 0.5, (2, "knn"): 0.6, (1, "mlp"): 0.7, (2, "mlp"): 0.801}
    runs = [run(s, v, v, model=m) for (s, m), v in values.items()]
    assert re.search(r" 2 +2 seeds are too few to tell it from noise", compare(runs).text())


def test_a_party_that_one_side_lacks_makes_no_difference_and_is_named(run):
    levels = (0.9, 0.9, 0.5)
    runs = [run(s, *levels[:2], levels[2] + s / 100, model=m) for s in (1, 2, 3) for m in ("knn", "mlp")]
    for one in runs:
        if one.config["model"] == "mlp":
            one.parties[2].federated = {}  # the weakest
    found = compare(runs)
    assert [(gap.difference, gap.verdict) for gap in gaps(found)] == [(0, "the same in each seed")]
    lost = runs[1].parties[2].name
    text = found.text()
    assert text.startswith(f"WARNING: A and B do not have the same parties: one of them lacks {lost}. Their")
    assert not compare([run(1, 0.8, 0.8), run(1, 0.9, 0.9, model="mlp")]).warnings


def test_simulations_of_other_numbers_of_parties_are_compared_by_all_of_them(run):
    found = compare([run(1, 0.8, 0.6, **{"num-parties": 2}), run(1, 0.9, 0.9, 0.3, **{"num-parties": 3})])
    assert gaps(found)[0].difference == pytest.approx(0.0)  # 0.7 and 0.7
    assert found.warnings == []


def test_a_setting_that_only_one_algorithm_has_is_no_difference_at_its_default(run):
    two = [run(1, 0.8, 0.8), run(1, 0.9, 0.9, **{"fedkt.level": "L0", "noise": "gaussian"})]
    two[1].algorithm, two[1].changed = "fedkt", ["noise"]
    assert compare(two).differs == ["algorithm", "noise"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: one.config.update(dataset="adult"), "differ in the data set: digits and adult"),
        (lambda one: one.config.update({"num-test": 50}), "differ in num-test: 0 and 50"),
        (lambda one: one.config.update({"test-table": "t.csv"}), "differ in test-table: None and t.csv"),
        (lambda one: setattr(one, "audit", object()), "differ in whether they were audited, so that models"),
        (lambda one: [p.federated["common"].support.reverse() for p in one.parties], "have seed 1, and yet other test"),
        (lambda one: setattr(one, "fingerprint", "00" * 32), "had other public rows: the data were changed"),
    ],
)
def test_other_data_and_other_test_rows_are_refused(run, change, why):
    runs = [run(1, 0.8, 0.6), run(1, 0.8, 0.6, model="mlp")]
    compare(runs)
    change(runs[1])
    with pytest.raises(DataError, match=f"cannot be compared: .*{why}"):
        compare(runs)


def test_other_seeds_and_settings_draw_other_public_rows_and_silos_have_the_same_ones_for_all_seeds(run):
    two = [run(1, 0.8, 0.8), run(1, 0.9, 0.9, model="mlp")]
    two[1].fingerprint = "00" * 32
    two[1].config["num-public"] = 50  # other public rows, and the same test rows
    assert len(gaps(compare(two))) == 1
    two[1].seed, two[1].config["num-public"] = 2, None
    compare(two)
    for one in two:
        one.simulation = False
    with pytest.raises(DataError, match="had other public rows"):
        compare(two)


def test_rows_that_each_run_drew_anew_are_one_setting_whatever_their_path(run):
    drawn = [{"public-rows": f"/runs/{i}/public.csv", "draw-public-epsilon": 0.5} for i in range(4)]
    runs = [run(s, 0.8, 0.8, **drawn[s]) for s in (1, 2)] + [run(1, 0.9, 0.9, model="mlp", **drawn[3])]
    for i, one in enumerate(runs):
        one.fingerprint = f"{i:064d}"
    found = compare(runs)
    assert found.differs == ["model"]
    assert {letter: len(group) for letter, group in found.groups.items()} == {"A": 2, "B": 1}
    given = [run(1, 0.8, 0.8), run(1, 0.9, 0.9, **{"public-rows": "/srv/public.csv"})]
    given[1].fingerprint = "00" * 32
    assert compare(given).differs == ["public-rows"]


def test_a_run_without_figures_is_named(run, failed_record):
    with pytest.raises(DataError, match=r"none in 7300123456789012345 \(failed\)\. Leave it out"):
        compare([run(1, 0.8), failed_record])
    with pytest.raises(DataError, match="two or more different runs, got 1"):
        compare([run(1, 0.8), run(1, 0.8)])


def test_groups_without_a_common_seed_are_shown_and_not_paired(run):
    found = compare([run(1, 0.8, 0.8), run(2, 0.9, 0.9, model="mlp")])
    assert gaps(found) == []
    assert "no seed in common" in found.text()


def test_runs_of_one_seed_and_the_same_settings_are_no_spread_over_seeds(run):
    """Two such runs were given as "0.936 ± 0.000", as if there were no noise."""
    assert "±" not in compare([run(1, 0.8, 0.8, number=1), run(1, 0.8, 0.8, number=2)]).text()
    differ = compare([run(1, 0.8, 0.8, number=1), run(1, 0.9, 0.9, number=2)]).text()
    assert "0.850 ± 0.071" in differ  # privacy noise has no seed
