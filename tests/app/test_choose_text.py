"""What a comparison of candidates says, and of what it says that it is noise."""

import json

import pytest

from fedkd_flwr.app.choose_text import ALONE, FIXED, TREES, Comparison, Outcome, comparison_text


def _comparison(**accuracies):
    outcomes = [Outcome(name, figures={("parties", "accuracy"): list(values)}) for name, values in accuracies.items()]
    seeds = list(range(1, 1 + max(map(len, accuracies.values()))))
    return Comparison(seeds=seeds, whose="parties", figure="accuracy", outcomes=outcomes)


def test_a_difference_that_each_seed_shows_is_more_than_noise_however_seeds_differ():
    found = _comparison(a=[0.5, 0.7, 0.9, 0.6], b=[0.45, 0.65, 0.85, 0.551])
    assert [one.name for one in found.ranked] == ["a", "b"]
    assert found.within_noise() == []
    text = comparison_text(found)
    assert "Best: a.\n" in text
    assert text.endswith(f"also chose it, so this mean is a little optimistic.\n{TREES}")


def test_a_difference_within_noise_names_no_sole_best():
    found = _comparison(a=[0.6, 0.7, 0.8], b=[0.7, 0.6, 0.75])
    assert [one.name for one in found.within_noise()] == ["b"]
    assert "Best: a, but it cannot be told from b." in comparison_text(found)


def test_more_candidates_make_wider_intervals():
    two, three = _comparison(a=[0.6, 0.7], b=[0.5, 0.5]), _comparison(a=[0.6, 0.7], b=[0.5, 0.5], c=[0.1, 0.1])
    assert three.ahead(*three.ranked[:2]).half > two.ahead(*two.ranked[:2]).half


def test_equal_gaps_name_no_sole_best():
    text = comparison_text(_comparison(a=[0.81, 0.71, 0.91], b=[0.8, 0.7, 0.9]))
    assert "a is ahead of b by 0.010: equal in each seed, so its noise is not known." in text
    assert "Best: a, but it cannot be told from b." in text
    same = comparison_text(_comparison(a=[0.8, 0.7, 0.9], b=[0.8, 0.7, 0.9]))
    assert "a and b reach the same in each seed." in same
    assert "cannot be told" in same


def test_staying_alone_is_a_candidate():
    text = comparison_text(_comparison(**{ALONE: [0.7, 0.71, 0.72], "a": [0.7, 0.72, 0.71]}))
    assert "No candidate is better than staying alone by more than noise." in text


def test_a_candidate_that_failed_is_told_and_not_ranked():
    found = _comparison(a=[0.7, 0.8])
    found.outcomes.append(Outcome("b", failed="seed 1: no memory"))
    assert "b  failed, seed 1: no memory" in comparison_text(found)
    assert "b is not ranked: failed, seed 1: no memory." in comparison_text(found)


def test_a_candidate_that_failed_at_a_later_seed_is_not_ranked_by_the_seeds_before():
    found = _comparison(**{ALONE: [0.5, 0.51, 0.53], "a": [0.7, 0.72, 0.71]})
    found.outcomes.append(Outcome("b", figures={("parties", "accuracy"): [0.9]}, failed="seed 2: no memory"))
    assert [one.name for one in found.ranked] == ["a", ALONE]
    assert "b is not ranked: failed, seed 2: no memory." in comparison_text(found)
    assert found.as_dict()["candidates"][2]["not_ranked"] == "failed, seed 2: no memory"


def _with_fixed(values, fixed, figure="balanced_accuracy", **others):
    """Return a comparison by one figure, in which one fixed answer has these values."""
    named = {"a": values, **others}
    outcomes = [Outcome(name, figures={("parties", figure): list(one)}) for name, one in named.items()]
    answer = Outcome(FIXED, figures={("parties", figure): list(fixed)})
    seeds = list(range(1, 1 + len(fixed)))
    return Comparison(seeds=seeds, whose="parties", figure=figure, outcomes=outcomes, fixed=answer)


def test_a_model_that_finds_nobody_is_not_the_best_one():
    """The server's model of a rare class had accuracy 0.930 and balanced accuracy 0.500, and was called the best."""
    text = comparison_text(_with_fixed([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], b=[0.49, 0.5, 0.5]))
    assert "No candidate is above one fixed answer (balanced accuracy 0.500)." in text
    assert "Best" not in text
    one_seed = comparison_text(_with_fixed([0.5], [0.5]))
    assert "No candidate is above one fixed answer" in one_seed


def test_a_candidate_above_one_fixed_answer_by_noise_alone_is_not_the_best_one():
    text = comparison_text(_with_fixed([0.51, 0.49, 0.53], [0.5, 0.5, 0.5]))
    assert "No candidate is above one fixed answer (balanced accuracy 0.500) by more than noise." in text
    assert "Best" not in text


def test_where_there_is_one_candidate_it_is_the_only_one_and_not_the_best():
    known = comparison_text(_with_fixed([0.81, 0.79, 0.8], [0.5, 0.5, 0.5], **{ALONE: [0.6, 0.61, 0.6]}))
    assert known.endswith("a is the only candidate.\nIt is better than staying alone by more than noise.\n" + TREES)
    assert "Best" not in known
    found = _with_fixed([0.81, 0.79, 0.8], [0.5, 0.5, 0.5])
    found.outcomes.append(Outcome("b", failed="seed 1: no memory"))
    assert "a is the only candidate that is ranked.\nWhether it is better" in comparison_text(found)


def test_the_figure_that_ranks_stands_first_and_so_does_the_best_candidate():
    lines = comparison_text(_with_fixed([0.6, 0.6, 0.61], [0.5, 0.5, 0.5], b=[0.8, 0.8, 0.81])).splitlines()
    assert lines[1].split()[:3] == ["bal.", "acc.", "accuracy"]
    assert [line.split("  ")[0] for line in lines[2:5]] == ["b", "a", FIXED]


def test_programs_get_the_ranking_and_what_cannot_be_told_apart():
    found = json.loads(json.dumps(_comparison(a=[0.6, 0.7, 0.8], b=[0.7, 0.6, 0.75]).as_dict()))
    assert found["ranking"] == ["a", "b"]
    assert found["not_told_from_the_first"] == ["b"]
    assert found["candidates"][1]["figures"] == {"parties:accuracy": [0.7, 0.6, 0.75]}
    assert _comparison(a=[0.9], b=[0.1]).as_dict()["not_told_from_the_first"] is None


@pytest.mark.parametrize(
    ("values", "said"),
    [((0.9,), "One seed says nothing about noise"), ((0.9, 0.901), "2 seeds say too little about noise")],
)
def test_one_seed_or_two_name_no_best_however_wide_the_gap(values, said):
    text = comparison_text(_comparison(a=values, b=[0.1] * len(values)))
    assert said in text
    assert "Best" not in text
    assert "Whether it is better than staying alone is not known here." in comparison_text(
        _comparison(a=[0.7, 0.72, 0.71], b=[0.6, 0.61, 0.63])
    )
