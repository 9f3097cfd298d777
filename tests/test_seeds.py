"""Streams: equal names draw equally, everything else differently, in every process."""

import numpy as np
import pytest

from fedkd_flwr.seeds import derive_rng, derive_seed


def test_seeds_of_published_runs_stay_what_they_were_in_every_process():
    # computed apart: SHA-256 of "int:1 US str:party-000 US int:2", first four bytes, little endian
    assert derive_seed(1, "party-000", 2) == 3888871119


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, "a"), (2, "a")),
        ((1, "a"), (1, "b")),
        ((1, "a", 1), (1, "a", 2)),
        ((1, "a", 1), (1, "a", "1")),
        ((1, "a", "b"), (1, "b", "a")),
        ((1, "ab", "c"), (1, "a", "bc")),
        ((1, "a"), (1, "a", "")),
        ((12,), (1, 2)),
    ],
)
def test_other_names_are_other_streams(one, other):
    assert derive_seed(*one) != derive_seed(*other)


def test_a_generator_repeats_and_leaves_the_global_one_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - to prove that nobody draws from it
    first, again = derive_rng(1, "x").random(5), derive_rng(1, "x").random(5)
    assert (first == again).all()
    assert (first != derive_rng(1, "y").random(5)).all()
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
