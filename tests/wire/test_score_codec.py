"""Scores on the wire: exact where they can be, checked always."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.labels.scores import dequantise, quantise
from fedkd_flwr.wire import score_codec
from fedkd_flwr.wire.label_codec import PublicSpec, digest, seal_answer
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


def test_logits_travel_exactly_at_float32():
    assert np.array_equal(_decode(_encode(_logits(), kind="logits"), kind="logits"), _logits())


@pytest.mark.parametrize(("bits", "error"), [(32, 1e-7), (16, 1e-3)])
def test_probabilities_come_back_as_probabilities(bits, error):
    back = _decode(_encode(_probs(), bits=bits))
    assert np.abs(back - _probs()).max() < error
    assert np.allclose(back.sum(axis=1), 1, atol=1e-6)
    assert back.dtype == np.float32


def test_noisy_probabilities_may_be_anything_finite():
    noisy = _probs() + np.array([5.0, -3.0, 0.0])
    assert np.allclose(_decode(_encode(noisy, kind="scores"), kind="scores"), noisy, atol=1e-6)


def test_numbers_beyond_half_precision_become_its_largest():
    back = _decode(_encode(np.full((4, 3), 1e6), kind="logits", bits=16), kind="logits")
    assert back.max() == 65504


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
    for other in (None, base[::-1]):
        with pytest.raises(PayloadError) as caught:
            _decode(payload, base=other)
        assert caught.value.reason == "stale-base"


def test_changes_that_give_no_probabilities_are_refused():
    base = quantise(_probs(), 4)
    wrong = base.copy()
    wrong[0] = [15, 15, 0]
    payload = bytearray(_encode(_probs(), bits=4, base=wrong).tobytes())
    payload[36:52] = digest(base)  # a party that lies about its base
    with pytest.raises(PayloadError, match="probs must"):
        _decode(np.frombuffer(bytes(payload), np.uint8), base=base)


def _spoil(at, value, kind="probs"):
    payload = bytearray(_encode(_probs()).tobytes())
    payload[at] = value
    return np.frombuffer(bytes(payload), dtype=np.uint8)


@pytest.mark.parametrize(
    ("payload", "changes", "reason"),
    [
        (_spoil(0, 1), {}, "bad-payload"),
        (_spoil(15, 1), {}, "bad-payload"),
        (_spoil(14, 9), {}, "bad-payload"),
        (_encode(_probs()), {"server_round": 3}, "wrong-round"),
        (_encode(_logits(), kind="logits"), {}, "bad-payload"),
        (_encode(_probs())[:-1], {}, "wrong-length"),
        (np.concatenate([_encode(_probs()), np.zeros(1, np.uint8)]), {}, "wrong-length"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_its_reason(payload, changes, reason):
    with pytest.raises(PayloadError) as caught:
        _decode(payload, **changes)
    assert caught.value.reason == reason


def _forged(body):
    head = bytearray(_encode(_probs()).tobytes()[: -4 * 3 * 4])
    head[3], head[8:12] = 0, len(body).to_bytes(4, "little")
    return np.frombuffer(bytes(head) + body, dtype=np.uint8)


@pytest.mark.parametrize(
    ("value", "reason"),
    [(np.nan, "not-a-number"), (-np.inf, "not-a-number"), (0.9, "bad-payload"), (-1.0, "bad-payload")],
)
def test_numbers_that_are_none_or_no_probabilities_are_refused(value, reason):
    values = _probs().astype("<f4")
    values[1, 1] = value
    with pytest.raises(PayloadError) as caught:
        _decode(_forged(values.tobytes()))
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
    body = bytes(2 * 1024)
    forged = seal_answer(b"FS", body, flags=0, size=len(body), public=many, server_round=1, own=16)
    with pytest.raises(PayloadError, match="sum to 1 in every row"):
        decode_scores(forged, public=many, server_round=1, kind="probs")


def test_steps_that_leave_the_last_class_less_than_nothing_are_refused(monkeypatch):
    public = PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 16)
    monkeypatch.setattr(score_codec, "quantise", lambda values, bits: np.full((4, 3), 15, dtype=np.uint8))
    forged = score_codec.encode_scores(np.full((4, 3), 1 / 3), public=public, server_round=1, kind="probs", bits=4)
    with pytest.raises(PayloadError, match=r"probs must lie within \[0, 1\], got -1"):
        score_codec.decode_scores(forged, public=public, server_round=1, kind="probs")


@pytest.mark.parametrize(("count", "total"), [(1, 1), (1, 9), (9, 9), (5000, 60000)])
def test_rows_come_back_ascending(count, total):
    rows = np.sort(np.random.default_rng(count).permutation(total)[:count])
    assert np.array_equal(decode_rows(encode_rows(rows, num_public=total), num_public=total), rows)


@pytest.mark.parametrize("rows", [[], [2, 1], [1, 1], [-1, 2], [5], [0.5]])
def test_rows_that_are_none_are_not_sent(rows):
    with pytest.raises(DataError, match="rows must be different numbers below 5, ascending"):
        encode_rows(np.array(rows), num_public=5)


def _rows_payload(total=9, size=2, bits=b"\x60\x00", version=1, flags=1, packed=None):
    head = b"FR" + bytes([version, flags]) + total.to_bytes(4, "little") + size.to_bytes(4, "little")
    return np.frombuffer(head + (zlib.compress(bits) if packed is None else packed), dtype=np.uint8)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (_rows_payload(), ""),
        (_rows_payload(version=2), "unknown-version"),
        (_rows_payload(total=8), "wrong-length"),
        (_rows_payload(size=3), "wrong-length"),
        (_rows_payload(flags=2), "bad-payload"),
        (_rows_payload(bits=bytes(2)), "wrong-length"),
        (_rows_payload(bits=b"\x00\x01"), "wrong-length"),  # row 15 of 9
        (_rows_payload(bits=bytes(10**6)), "wrong-length"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_their_reason(payload, reason):
    if not reason:
        assert decode_rows(payload, num_public=9).tolist() == [1, 2]
        return
    with pytest.raises(PayloadError) as caught:
        decode_rows(payload, num_public=9)
    assert caught.value.reason == reason


@settings(max_examples=100)
@given(st.binary(max_size=60), st.booleans())
def test_random_bytes_never_do_worse_than_a_payload_error(data, headed):
    payload = np.frombuffer(_rows_payload().tobytes()[:12] * headed + data, dtype=np.uint8)
    with pytest.raises(PayloadError):
        decode_rows(payload, num_public=9)
