"""Labels and ratio codes as one body: what goes in comes out, forged bytes harm nobody, and the bytes are few."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.wire import ans_coder
from fedkd_flwr.wire.ans_coder import pack_rows, packed_size, unpack_rows

codes_arrays = arrays(np.uint8, (9, 3), elements=st.integers(0, 7))
labels_arrays = arrays(np.int16, 9, elements=st.integers(-1, 2))


@given(codes_arrays, labels_arrays)
def test_any_codes_and_labels_come_out_as_they_went_in(codes, labels):
    found = unpack_rows(pack_rows(codes, labels, bits=3), num_public=9, num_classes=3, bits=3)
    assert (found[0].tolist(), found[1].tolist()) == (codes.tolist(), labels.tolist())


@given(codes_arrays, labels_arrays, codes_arrays, labels_arrays)
def test_changes_against_a_base_come_out_as_they_went_in(codes, labels, base_codes, base_labels):
    base = (base_codes, base_labels)
    found = unpack_rows(pack_rows(codes, labels, bits=3, base=base), num_public=9, num_classes=3, bits=3, base=base)
    assert (found[0].tolist(), found[1].tolist()) == (codes.tolist(), labels.tolist())


@given(st.binary(max_size=60), st.sampled_from([2, 3, 5]), st.sampled_from([2, 3, 4]), st.sampled_from([1, 4]))
def test_forged_bytes_give_codes_and_labels_within_their_ranges(body, num_classes, bits, num_states):
    with mock.patch.object(ans_coder, "_num_states", return_value=num_states):
        codes, labels = unpack_rows(body, num_public=11, num_classes=num_classes, bits=bits)
    assert (codes.shape, labels.shape) == ((11, num_classes), (11,))
    assert codes.max() < 2**bits
    assert labels.min() >= -1
    assert labels.max() < num_classes


@pytest.mark.parametrize("num_classes", [2, 3, 10, 16])
def test_long_answers_of_any_number_of_classes_come_out(num_classes):
    rng = np.random.default_rng(num_classes)
    codes = np.where(rng.random((3000, num_classes)) < 0.2, rng.integers(0, 8, (3000, num_classes)), 0).astype(np.uint8)
    labels = rng.integers(-1, num_classes, 3000).astype(np.int16)
    found = unpack_rows(pack_rows(codes, labels, bits=3), num_public=3000, num_classes=num_classes, bits=3)
    assert (found[0] == codes).all()
    assert (found[1] == labels).all()


def test_a_row_costs_little_more_than_its_entropy():
    """Ten equal classes, one code of eight values a row, labels as the codes: log2(10 * 7) = 6.1 bits a row."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 10, 4000).astype(np.int16)
    codes = np.zeros((4000, 10), np.uint8)
    codes[np.arange(4000), labels] = rng.integers(1, 8, 4000)
    assert len(pack_rows(codes, labels, bits=3)) * 8 / 4000 < 1.03 * np.log2(70)


def test_rows_that_did_not_change_cost_next_to_nothing():
    codes, labels = np.tile(np.array([0, 5], np.uint8), (2000, 1)), np.ones(2000, np.int16)
    changed = codes.copy()
    changed[::200] = [3, 0]
    assert len(pack_rows(changed, labels, bits=3, base=(codes, labels))) < 40


def _drawn(num_public, num_classes, seed):
    rng = np.random.default_rng(seed)
    shape = (num_public, num_classes)
    codes = np.where(rng.random(shape) < 0.3, rng.integers(0, 8, shape), 0).astype(np.uint8)
    return codes, rng.integers(-1, num_classes, num_public).astype(np.int16)


@pytest.mark.parametrize("num_states", [1, 2, 40])
def test_one_state_and_many_bring_the_same_rows_back(monkeypatch, num_states):
    monkeypatch.setattr(ans_coder, "_num_states", lambda num_public: num_states)
    codes, labels = _drawn(700, 4, seed=1)
    body = pack_rows(codes, labels, bits=3)
    found = unpack_rows(body, num_public=700, num_classes=4, bits=3)
    assert (found[0] == codes).all()
    assert (found[1] == labels).all()
    monkeypatch.setattr(ans_coder, "_num_states", lambda num_public: 1)
    # a state takes four bytes, partly filled
    assert len(body) <= len(pack_rows(codes, labels, bits=3)) + 4 * num_states


@pytest.mark.parametrize(("num_public", "num_classes"), [(1, 2), (40, 3), (5000, 10)])
def test_the_size_is_told_within_a_few_bytes(num_public, num_classes):
    codes, labels = _drawn(num_public, num_classes, seed=2)
    told, true = packed_size(codes, labels, bits=3), len(pack_rows(codes, labels, bits=3))
    assert told == pytest.approx(true, abs=8 + 0.005 * true)


def test_many_rows_are_packed_by_numpy_and_few_by_one_state():
    assert [ans_coder._num_states(rows) for rows in (1, 4096, 4097, 40_000)] == [1, 1, 16, 156]


def test_a_new_label_does_not_say_the_codes_again():
    codes, labels = _drawn(1000, 10, seed=3)
    new = ((labels + 2) % 10).astype(np.int16)
    alone = np.zeros_like(codes)  # nothing but labels
    body = pack_rows(codes, new, bits=3, base=(codes, labels))
    assert len(body) < 1.1 * len(pack_rows(alone, new, bits=3))
    found = unpack_rows(body, num_public=1000, num_classes=10, bits=3, base=(codes, labels))
    assert (found[0] == codes).all()
    assert (found[1] == new).all()
