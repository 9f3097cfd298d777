"""Scores on the wire: exact where they can be, checked always."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.labels.scores import dequantise, quantise
from fedkd_flwr.wire.label_codec import PublicSpec, seal
from fedkd_flwr.wire.score_codec import check_scores, decode_rows, decode_scores, encode_rows, encode_scores

SPEC = PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 32)


def _probs(rows=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(3), rows)


def _logits():
    return np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)


def _decode(payload, *, spec=SPEC, server_round=2, kind="probs", base=None):
    payload = np.asarray(payload, dtype=np.uint8)
    return decode_scores(payload, public=spec, server_round=server_round, kind=kind, base=base)


def _encode(values, *, kind="probs", **settings):
    return encode_scores(values, public=SPEC, server_round=2, kind=kind, **settings)


@pytest.mark.parametrize(("bits", "error"), [(32, 1e-7), (16, 1e-3)])
def test_probabilities_come_back_as_probabilities(bits, error):
    back = _decode(_encode(_probs(), bits=bits))
    assert np.abs(back - _probs()).max() < error
    assert np.allclose(back.sum(axis=1), 1, atol=1e-6)
    assert back.dtype == np.float32


NOISY = (_probs() + np.array([5.0, -3.0, 0.0])).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "sent", "bits", "back"),
    [
        ("logits", _logits(), 32, _logits()),
        ("scores", NOISY, 32, NOISY),  # noisy probabilities may be anything finite
        ("logits", np.full((4, 3), 1e6), 16, np.full((4, 3), 65504)),  # beyond half precision it is the largest
    ],
)
def test_other_numbers_travel_exactly_where_the_precision_has_them(kind, sent, bits, back):
    assert np.array_equal(_decode(_encode(sent, kind=kind, bits=bits), kind=kind), back)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (np.full((4, 3), np.nan), "logits", "logits must be finite numbers"),
        (np.full((4, 3), np.inf), "scores", "scores must be finite numbers"),
        (np.ones((4, 3)), "probs", "probs must sum to 1 in every row, got 3 in row 0"),
        (np.array([[1.5, -0.5, 0.0]] * 4), "probs", r"probs must lie within \[0, 1\], got -0.5"),
        (np.ones((4, 3), dtype=np.int64), "logits", "logits must be floats"),
        (np.ones((3, 3)), "logits", r"logits must have shape \(4, 3\)"),
        (np.ones((4, 3)), "votes", "kind must be one of probs, logits, scores"),
    ],
)
def test_what_is_no_array_of_its_kind_is_not_sent(values, kind, message):
    with pytest.raises(DataError, match=message):
        _encode(values, kind=kind)


@pytest.mark.parametrize(("kind", "bits"), [("probs", 9), ("probs", 0), ("logits", 8), ("scores", 1)])
def test_another_precision_is_refused(kind, bits):
    values = _probs() if kind == "probs" else _logits()
    with pytest.raises(DataError, match=f"bits must be one of 16, 32.*got {bits}"):
        _encode(values, kind=kind, bits=bits)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_probabilities_in_steps_come_back_as_the_nearest_steps(bits):
    back = _decode(_encode(_probs(), bits=bits))
    assert np.allclose(back, dequantise(quantise(_probs(), bits), bits), atol=1e-6)
    assert len(_encode(_probs(), bits=bits)) < len(_encode(_probs()))


def test_changes_alone_travel_where_both_ends_hold_the_same_answers():
    base = quantise(_probs(), 4)
    payload = _encode(_probs(), bits=4, base=base)
    assert np.allclose(_decode(payload, base=base), dequantise(base, 4), atol=1e-6)
    long = np.tile(base, (500, 1))
    spec = SPEC.rows(2000)
    payload = encode_scores(dequantise(long, 4), public=spec, server_round=2, kind="probs", bits=4, base=long)
    for other in (None, long[::-1]):
        with pytest.raises(PayloadError) as caught:
            _decode(payload, spec=spec, base=other)
        assert caught.value.reason == "stale-base"


def _forged(values, *, bits=32, own=None, **changes):
    """Return a payload of probabilities that holds these whole numbers, or floats."""
    numbers = np.asarray(values, f"<f{bits // 8}").view(f"<u{bits // 8}") if bits >= 16 else np.asarray(values)
    at = {"public": SPEC, "server_round": 2, "own": bits if own is None else own, **changes}
    return seal(b"FS", [(numbers.reshape(-1), bits)], **at)


def _with(value):
    values = _probs()
    values[1, 1] = value
    return _forged(values)


@pytest.mark.parametrize(
    ("payload", "reason", "message"),
    [
        (_forged(_probs(), own=1 << 8 | 32), "bad-payload", "payload must hold probs, got 1"),
        (_forged(_probs(), own=9), "bad-payload", "bits per number must be 16, 32, or for probabilities 1 to 8, got 9"),
        (_forged(_probs(), server_round=3), "wrong-round", "payload must answer round 2, got 3"),
        (_forged(_probs()[:3]), "wrong-length", "payload body must have 48 bytes"),
        (_with(np.nan), "not-a-number", "finite"),
        (_with(-np.inf), "not-a-number", "finite"),
        (_with(0.9), "bad-payload", "sum to 1"),
        (_with(-1.0), "bad-payload", "lie within"),
        (_forged(np.full(8, 15), bits=4), "bad-payload", r"probs must lie within \[0, 1\], got -1"),
    ],
)
def test_what_is_no_answer_of_this_kind_is_refused_with_its_reason(payload, reason, message):
    with pytest.raises(PayloadError, match=message) as caught:
        _decode(payload)
    assert caught.value.reason == reason


def test_no_row_sums_within_rounding_pass_and_others_do_not():
    nearly = _probs() * (1 + 1e-7)
    check_scores(nearly, public=SPEC, kind="probs")
    with pytest.raises(DataError, match="sum to 1"):
        check_scores(_probs() * 1.001, public=SPEC, kind="probs")


def test_a_row_without_any_probability_is_refused_whatever_the_number_of_classes():
    """Scaled to a sum of 1 it would be NaN, and with it every average."""
    many = PublicSpec(num_public=1, num_classes=1024, fingerprint="ab" * 32)
    one_hot = np.eye(1, 1024)
    sent = encode_scores(one_hot, public=many, server_round=1, kind="probs", bits=16)
    assert np.array_equal(decode_scores(sent, public=many, server_round=1, kind="probs"), one_hot)
    forged = _forged(np.zeros(1024), bits=16, public=many, server_round=1)
    with pytest.raises(PayloadError, match="sum to 1 in every row"):
        decode_scores(forged, public=many, server_round=1, kind="probs")


@pytest.mark.parametrize(("count", "total"), [(1, 1), (1, 9), (9, 9), (5000, 60000)])
def test_rows_come_back_ascending(count, total):
    rows = np.sort(np.random.default_rng(count).permutation(total)[:count])
    assert np.array_equal(decode_rows(encode_rows(rows, num_public=total), num_public=total), rows)


@pytest.mark.parametrize("rows", [[], [2, 1], [1, 1], [-1, 2], [5], [0.5]])
def test_rows_that_are_none_are_not_sent(rows):
    with pytest.raises(DataError, match="rows must be different numbers below 5, ascending"):
        encode_rows(np.array(rows), num_public=5)


@pytest.mark.parametrize(
    "bitmap",
    [bytes(2), b"\x00\x01", b"\x60", bytes(3), bytes(10**6)],
    ids=["none", "row 15 of 9", "short", "long", "bomb"],
)
def test_rows_that_do_not_fit_are_refused(bitmap):
    with pytest.raises(PayloadError) as caught:
        decode_rows(np.frombuffer(zlib.compress(bitmap), np.uint8), num_public=9)
    assert caught.value.reason == "wrong-length"


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_random_bytes_never_do_worse_than_a_payload_error(data):
    for payload in (np.frombuffer(data, dtype=np.uint8), np.zeros((2, 2)), np.arange(3)):
        with pytest.raises(PayloadError):
            decode_rows(payload, num_public=9)
