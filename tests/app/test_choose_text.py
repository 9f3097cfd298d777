"""What a comparison of candidates says, and of what it says that it is noise."""

import json

import pandas as pd
import pytest

from fedkd_flwr.app.choose_text import ALONE, FIXED, TREES, Comparison


def _comparison(fixed=(), failed=None, figure="accuracy", **reached):
    """Return a comparison in which candidates reached these figures of the parties' models, one for each seed."""
    seeds = range(1, 1 + max(map(len, reached.values())))
    told = {**reached, FIXED: fixed}
    rows = [
        {"candidate": name, "seed": seed, "parties": value, "home": None, "server": None, "kilobytes_up": 2.0}
        for name, values in told.items()
        for seed, value in zip(seeds, values, strict=False)
    ]
    names, failed = [*reached, *(failed or {})], failed or {}
    values = pd.DataFrame(rows).assign(seconds=1.0)
    more = {"whose": "parties", "figure": figure, "not_ranked": failed}
    return Comparison(values=values, names=list(dict.fromkeys(names)), seeds=list(seeds), **more)


BEST = "The seeds that chose it make its mean a little optimistic."
UNKNOWN = "Whether it is better than staying alone is not known here."
FEW = "One or two seeds say nothing about noise: no best is named. Give --thorough, or --seeds 5."


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (_comparison(a=[0.5, 0.7, 0.9, 0.6], b=[0.45, 0.65, 0.85, 0.551]), [f"Best: a. {BEST}", UNKNOWN]),
        (
            _comparison(a=[0.6, 0.7, 0.8], b=[0.7, 0.6, 0.75]),
            [f"Best: a, but it cannot be told from b. More --seeds tell more apart. {BEST}", UNKNOWN],
        ),
        (  # equal gaps: their noise is not known
            _comparison(a=[0.81, 0.71, 0.91], b=[0.8, 0.7, 0.9]),
            [f"Best: a, but it cannot be told from b. More --seeds tell more apart. {BEST}", UNKNOWN],
        ),
        (_comparison(a=[0.8, 0.79, 0.81], **{ALONE: [0.6, 0.61, 0.6]}), [f"Best: a. {BEST}"]),
        (
            _comparison(**{ALONE: [0.7, 0.71, 0.72], "a": [0.7, 0.72, 0.71]}),
            ["No candidate is better than staying alone by more than noise."],
        ),
        (_comparison(a=[0.9], b=[0.1]), [FEW]),
        (_comparison(a=[0.9, 0.901], b=[0.1, 0.1]), [FEW]),
        # a server's model of a rare class had accuracy 0.930 and balanced accuracy 0.500, and was called the best
        (
            _comparison(fixed=[0.5] * 3, a=[0.5, 0.5, 0.5], b=[0.49, 0.5, 0.5]),
            ["No candidate is above one fixed answer (0.500)."],
        ),
        (_comparison(fixed=[0.5], a=[0.5]), ["No candidate is above one fixed answer (0.500)."]),
        (
            _comparison(fixed=[0.5] * 3, a=[0.51, 0.49, 0.53]),
            ["No candidate is above one fixed answer (0.500) by more than noise."],
        ),
    ],
)
def test_what_can_be_said_of_the_best_and_nothing_from_noise(found, said):
    assert found.text().splitlines()[-1 - len(said) :] == [*said, TREES]


def test_more_candidates_make_wider_intervals():
    two, three = _comparison(a=[0.6, 0.7], b=[0.5, 0.5]), _comparison(a=[0.6, 0.7], b=[0.5, 0.5], c=[0.1, 0.1])
    assert three.behind("b").half > two.behind("b").half


def test_a_candidate_that_failed_at_a_later_seed_is_told_and_not_ranked_by_the_seeds_before():
    found = _comparison(failed={"b": "failed, seed 2: no memory"}, **{ALONE: [0.5, 0.51], "a": [0.7, 0.72], "b": [0.9]})
    assert found.ranked == ["a", ALONE]
    assert "b is not ranked: failed, seed 2: no memory." in found.text()
    assert found.frame().not_ranked["b"] == "failed, seed 2: no memory"
    lost = _comparison(a=[0.7, None])
    assert lost.ranked == []
    assert "not every run gave accuracy of the parties' models" in lost.text()


def test_the_table_has_the_best_on_top_and_what_others_are_behind_it():
    found = _comparison(fixed=[0.5] * 3, a=[0.6, 0.6, 0.61], b=[0.8, 0.8, 0.82], figure="balanced_accuracy")
    lines = found.text().splitlines()
    assert lines[0] == "Balanced accuracy: mean (standard deviation) over 3 seeds, 0 test rows."
    assert [line.split("  ")[0] for line in lines[2:5]] == ["b", "a", FIXED]
    assert lines[3].split() == ["a", "0.603", "(0.006)", "–", "–", "0.203", "±", "0.014", "2.0", "1.0"]


def test_programs_get_the_ranking_and_what_cannot_be_told_apart():
    found = json.loads(json.dumps(_comparison(a=[0.6, 0.7, 0.8], b=[0.7, 0.6, 0.75], c=[0.1, 0.1, 0.12]).as_dict()))
    assert [(one["candidate"], one["clear"]) for one in found["candidates"]] == [("a", None), ("b", False), ("c", True)]
    assert [one["parties"] for one in found["values"] if one["candidate"] == "a"] == [0.6, 0.7, 0.8]
    assert {one["clear"] for one in _comparison(a=[0.9], b=[0.1]).as_dict()["candidates"]} == {None}
