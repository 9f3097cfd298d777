import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.labels.ratios import RATIO_BITS
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.wire.label_codec import PublicSpec, decode_answer, encode_answer, seal_answer
from fedkd_flwr.wire.ratio_codec import MAX_COUNT, decode_ratios, encode_ratios


def spec(rows=6, classes=3):
    return PublicSpec(num_public=rows, num_classes=classes, fingerprint="ab" * 32)


def drawn(rows, classes, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2**RATIO_BITS, (rows, classes)).astype(np.uint8)
    codes[rng.random(codes.shape) < 0.6] = 0
    return codes, rng.integers(-1, classes, rows).astype(np.int16)


CODES, LABELS = drawn(6, 3, 1)
COUNTS = np.array([5, 0, 7])
HEADER = 12 + 24  # of the envelope, and of an answer


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(2, 12), st.integers(0, 1000), st.booleans(), st.integers(0, 10))
def test_what_is_packed_comes_back(rows, classes, seed, with_base, changes):
    public = spec(rows, classes)
    codes, labels = drawn(rows, classes, seed)
    base = None
    if with_base:
        base = codes.copy(), labels.copy()
        places = np.random.default_rng(seed).integers(0, rows, changes)
        base[0][places], base[1][places] = 0, -1
    counts = np.arange(classes) * MAX_COUNT // (classes - 1)
    sent = encode_ratios(codes, labels, public=public, server_round=3, class_counts=counts, base=base)
    found = decode_ratios(sent, public=public, server_round=3, base=base)
    assert (found.codes == codes).all()
    assert (found.labels == labels).all()
    assert (found.class_counts == counts).all()


def test_an_answer_that_did_not_change_takes_almost_nothing():
    public = spec(1000, 10)
    codes, labels = drawn(1000, 10, 1)
    whole = encode_ratios(codes, labels, public=public, server_round=2)
    again = encode_ratios(codes, labels, public=public, server_round=2, base=(codes, labels))
    assert len(again) < 90 < len(whole) / 10


@pytest.mark.parametrize(
    ("counts", "codes"),
    [
        (np.array([0, 0, 0]), CODES),
        (np.array([-1, 2, 0]), CODES),
        (np.array([MAX_COUNT + 1, 0, 0]), CODES),
        (np.array([1, 2]), CODES),
        (np.array([1.0, 2.0, 0.0]), CODES),
        (COUNTS, CODES[:5]),
        (COUNTS, np.full((6, 3), 8, np.uint8)),
        (COUNTS, CODES.astype(np.int64)),
    ],
)
def test_what_is_no_answer_is_not_packed(counts, codes):
    with pytest.raises(DataError):
        encode_ratios(codes, LABELS, public=spec(), server_round=1, class_counts=counts)


def _changed(payload, at, value):
    data = payload.copy()
    data[at] = value
    return data


SENT = encode_ratios(CODES, LABELS, public=spec(), server_round=1, class_counts=COUNTS)


def _holding(body, *, flags=0, size=9):
    """Return an answer of six rows and three classes, whose body takes nine bytes, with another body."""
    front = {"public": spec(), "server_round": 1}
    return seal_answer(b"FA", body, flags=flags, size=size, own=3, **front)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (_changed(SENT, 0, 0), "bad-payload"),
        (_changed(SENT, 3, 4 | 16), "bad-payload"),
        (_changed(SENT, 3, 4 | 1), "bad-payload"),  # it is too short to be deflated
        (_changed(SENT, 3, 4 | 2), "stale-base"),
        (_changed(SENT, 8, 250), "wrong-length"),
        (_changed(SENT, 14, 4), "bad-payload"),
        (_changed(SENT, HEADER + 3, 255), "bad-payload"),  # a count above 2^31
        (_changed(_changed(SENT, HEADER, 0), HEADER + 8, 0), "bad-payload"),  # no row at all
        (SENT[: HEADER + 5], "wrong-length"),
        (np.append(SENT, np.zeros(100, np.uint8)), "wrong-length"),
        (_holding(zlib.compress(bytes(10**7), 9), flags=1), "wrong-length"),  # it would unpack to a million times more
        (_holding(zlib.compress(bytes(10**7), 9), flags=1, size=10**7), "wrong-length"),
    ],
)
def test_a_forged_payload_is_refused_with_a_reason(payload, reason):
    with pytest.raises(PayloadError) as caught:
        decode_ratios(payload, public=spec(), server_round=1)
    assert caught.value.reason == reason


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes_give_an_answer_in_range_or_a_refusal(body, at):
    forged = SENT.copy()
    tail = np.frombuffer(body, dtype=np.uint8)[: len(forged) - min(at, len(forged))]
    forged[at : at + len(tail)] = tail
    try:
        found = decode_ratios(forged, public=spec(), server_round=1)
    except PayloadError:
        return
    assert found.codes.shape == (6, 3)
    assert found.codes.max() < 8
    assert found.labels.min() >= -1
    assert found.labels.max() < 3


def test_a_label_of_no_class_is_refused_also_where_only_the_base_makes_it_one():
    public = spec(2, 4)  # three bits a label, of which 4 is none; three a code
    codes = np.zeros((2, 4), np.uint8)
    whole = encode_ratios(codes, np.array([3, 3], np.int16), public=public, server_round=1)
    whole = _changed(whole, HEADER, 7)
    base = codes, np.array([3, 3], np.int16)
    changes = encode_ratios(codes, base[1], public=public, server_round=1, base=base)
    changes = seal_answer(b"FA", changes[HEADER:][:16].tobytes() + bytes([6, 0, 0, 0]), flags=2, size=4,
                          public=public, server_round=1, own=3)  # fmt: skip
    for payload, known in ((whole, None), (changes, base)):
        with pytest.raises(PayloadError) as caught:
            decode_ratios(payload, public=public, server_round=1, base=known)
        assert caught.value.reason == "class-out-of-range"


def test_changes_to_another_base_are_refused():
    other = CODES.copy()
    other[0, 0] ^= 1
    sent = encode_ratios(CODES, LABELS, public=spec(), server_round=1, base=(CODES, LABELS))
    for base in (None, (other, LABELS)):
        with pytest.raises(PayloadError) as caught:
            decode_ratios(sent, public=spec(), server_round=1, base=base)
        assert caught.value.reason == "stale-base"


STUDENTS = np.stack([LABELS, np.where(LABELS == 0, 1, LABELS)])


def test_an_answer_of_two_students_comes_back_and_a_later_one_keeps_the_counts_of_the_first():
    values = {"labels": STUDENTS, "ratios": CODES, "class-counts": COUNTS}
    at = {"public": spec(), "server_round": 1, "rule": RULES["density-ratio"]}
    sent = encode_answer(values, base={}, **at)
    held = decode_answer(sent, base={}, num_arrays=2, **at)
    assert all((held[name] == array).all() for name, array in values.items())
    later = encode_answer(values, base=held, **at)
    again = decode_answer(later, base=held, num_arrays=2, **at)
    assert "class-counts" not in again
    assert (again["labels"] == STUDENTS).all()
    for base, arrays, match in (
        ({}, later, "be an answer that the receiver holds"),
        ({}, {"ratios": sent["ratios"]}, "2 label"),
    ):
        with pytest.raises(PayloadError, match=match):
            decode_answer(arrays, base=base, num_arrays=2, **at)
    assert decode_answer({"ratios": sent["ratios"]}, base={}, **at)["labels"].tolist() == [LABELS.tolist()]
