import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.labels.ratios import RATIO_BITS
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.wire.label_codec import ANSWER_HEADER, PublicSpec, decode_answer, encode_answer, seal
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


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(2, 12), st.integers(0, 1000), st.booleans(), st.integers(0, 10))
def test_what_is_packed_comes_back_and_counts_where_there_is_no_base(rows, classes, seed, with_base, changes):
    public = spec(rows, classes)
    codes, labels = drawn(rows, classes, seed)
    base, counts = None, np.arange(classes) * MAX_COUNT // (classes - 1)
    if with_base:
        base, counts = (codes.copy(), labels.copy()), None
        places = np.random.default_rng(seed).integers(0, rows, changes)
        base[0][places], base[1][places] = 0, -1
    sent = encode_ratios(codes, labels, public=public, server_round=3, class_counts=counts, base=base)
    found = decode_ratios(sent, public=public, server_round=3, base=base)
    assert (found.codes == codes).all()
    assert (found.labels == labels).all()
    assert found.class_counts is None if counts is None else (found.class_counts == counts).all()


def test_an_answer_that_did_not_change_takes_almost_nothing():
    public = spec(1000, 10)
    codes, labels = drawn(1000, 10, 1)
    whole = encode_ratios(codes, labels, public=public, server_round=2)
    again = encode_ratios(codes, labels, public=public, server_round=2, base=(codes, labels))
    assert len(again) < 60 < len(whole) / 10


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


def _forged(numbers=0, codes=0, counts=COUNTS, own=3, public=None):
    """Return an answer of six rows and three classes that nobody's encoder would make."""
    parts = [(np.full(6, numbers), 2), (np.full(18, codes), 3), (counts, 32)]
    return seal(b"FA", parts, public=public or spec(), server_round=1, own=own, flags=8)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (_forged(own=4), "bad-payload"),
        (_forged(counts=np.array([2**32 - 1, 0, 0])), "bad-payload"),
        (_forged(counts=np.zeros(3, int)), "bad-payload"),
        (_forged(counts=COUNTS[:2]), "wrong-length"),
        (_forged()[: ANSWER_HEADER + 5], "wrong-length"),
        (np.append(_forged(), np.zeros(100, np.uint8)), "wrong-length"),
        (seal(b"FL", [(np.zeros(6, int), 2)], public=spec(), server_round=1, own=3), "bad-payload"),
    ],
)
def test_a_forged_payload_is_refused_with_a_reason(payload, reason):
    with pytest.raises(PayloadError) as caught:
        decode_ratios(payload, public=spec(), server_round=1)
    assert caught.value.reason == reason


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes_give_an_answer_in_range_or_a_refusal(body, at):
    forged = encode_ratios(CODES, LABELS, public=spec(), server_round=1, class_counts=COUNTS).copy()
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


def test_an_answer_of_two_students_comes_back_and_a_later_one_keeps_the_counts_of_the_first():
    codes, first = drawn(600, 3, 1)
    students = np.stack([first, np.where(first == 0, 1, first)])
    values = {"labels": students, "ratios": codes, "class-counts": COUNTS}
    at = {"public": spec(600), "server_round": 1, "rule": RULES["density-ratio"]}
    sent = encode_answer(values, base={}, **at)
    held = decode_answer(sent, base={}, num_arrays=2, **at)
    assert all((held[name] == array).all() for name, array in values.items())
    later = encode_answer(values, base=held, **at)
    again = decode_answer(later, base=held, num_arrays=2, **at)
    assert "class-counts" not in again
    assert (again["labels"] == students).all()
    for arrays, match in ((later, "be an answer that the receiver holds"), ({"ratios": sent["ratios"]}, "2 label")):
        with pytest.raises(PayloadError, match=match):
            decode_answer(arrays, base={}, num_arrays=2, **at)
    assert decode_answer({"ratios": sent["ratios"]}, base={}, **at)["labels"].tolist() == [first.tolist()]
