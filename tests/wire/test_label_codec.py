from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.wire.envelope import PublicSpec, digest, seal_answer
from fedkd_flwr.wire.label_codec import decode_labels, encode_labels

PRINT = "ab" * 32


def spec(num_public: int = 50, num_classes: int = 5, fingerprint: str = PRINT) -> PublicSpec:
    return PublicSpec(num_public=num_public, num_classes=num_classes, fingerprint=fingerprint)


@st.composite
def exchanges(draw):
    num_classes = draw(st.integers(2, 300))
    rows, count = draw(st.integers(1, 60)), draw(st.integers(1, 3))
    lowest = draw(st.sampled_from([0, ABSTAIN]))
    labels = arrays(np.int16, (count, rows), elements=st.integers(lowest, num_classes - 1))
    return spec(rows, num_classes), draw(labels), draw(labels)


@given(exchanges())
def test_what_is_encoded_comes_back_whole(exchange):
    public, labels, _ = exchange
    payload = encode_labels(labels, public=public, server_round=3)
    assert (decode_labels(payload, public=public, server_round=3, num_arrays=len(labels)) == labels).all()


@given(exchanges())
def test_what_is_encoded_against_a_base_comes_back_whole(exchange):
    public, labels, base = exchange
    payload = encode_labels(labels, public=public, server_round=3, base=base)
    assert (decode_labels(payload, public=public, server_round=3, base=base) == labels).all()


@given(st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_sparse_changes_come_back_whole(changes, seed):
    rng = np.random.default_rng(seed)
    public = spec(5000, 10)
    base = rng.integers(ABSTAIN, 10, (1, 5000)).astype(np.int16)
    labels = base.copy()
    labels[0, rng.choice(5000, changes, replace=False)] = rng.integers(ABSTAIN, 10, changes)
    payload = encode_labels(labels, public=public, server_round=2, base=base)
    assert (decode_labels(payload, public=public, server_round=2, base=base) == labels).all()
    assert payload.nbytes < 400


def test_ten_thousand_rows_of_ten_classes_fit_the_published_yardsticks():
    """Array bytes with NumPy's 128-byte header: first <= 5.2 KB; 2 % changed <= 0.6 KB (worst case: random labels)."""
    rng = np.random.default_rng(0)
    public = spec(10_000, 10)
    first = rng.integers(0, 10, 10_000).astype(np.int16)
    assert encode_labels(first, public=public, server_round=1).nbytes + 128 <= 5200
    second = first.copy()
    changed = rng.choice(10_000, 200, replace=False)
    second[changed] = (second[changed] + rng.integers(1, 10, 200)) % 10
    assert encode_labels(second, public=public, server_round=2, base=first).nbytes + 128 <= 600


# ------------------------------------------------------------------------------------------ what is refused


def _payload(**keywords):
    labels = np.arange(50, dtype=np.int16) % 5
    return encode_labels(labels, public=spec(), server_round=1, **keywords)


def _raw(body: bytes, *, flags: int = 0, announced: int | None = None, rows: int = 50, arrays: int = 1) -> np.ndarray:
    size = len(body) if announced is None else announced
    return seal_answer(b"FL", body, flags=flags, size=size, public=spec(rows), server_round=1, own=arrays)


REFUSED = {
    "another codec's": (
        seal_answer(b"FR", b"", flags=0, size=0, public=spec(), server_round=1, own=1),
        "bad-payload",
        "FL",
    ),
    "no array": (_raw(b"", arrays=0), "wrong-length", "hold at least 1 label arrays"),
    "unknown flag": (_raw(b"\0" * 19, flags=64), "bad-payload", "flags must be known"),
    "class out of range": (_raw(b"\xff" * 19), "class-out-of-range", "at most 4, got 7"),
    "short body": (_raw(b"\0" * 18), "wrong-length", "have 19 bytes, got 18"),
    "announced gigabytes": (_raw(b"\0", announced=2**31), "bad-payload", "announced size"),
    "bomb": (_raw(zlib.compress(b"\0" * 10**7), flags=1, announced=19), "wrong-length", "unpack to exactly 19"),
    "unknown base": (_raw(b"\0" * 16, flags=4, announced=0), "stale-base", "an array the receiver holds"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_payload_is_refused_with_a_reason(case):
    payload, reason, message = REFUSED[case]
    with pytest.raises(PayloadError, match=message) as caught:
        decode_labels(payload, public=spec(), server_round=1)
    assert caught.value.reason == reason


def test_changes_against_another_base_than_ours_are_stale():
    base = np.random.default_rng(0).integers(0, 5, 5000).astype(np.int16)
    labels = base.copy()
    labels[7] = (labels[7] + 1) % 5
    payload = encode_labels(labels, public=spec(5000), server_round=2, base=base)
    with pytest.raises(PayloadError, match="array the receiver holds") as caught:
        decode_labels(payload, public=spec(5000), server_round=2, base=labels)
    assert caught.value.reason == "stale-base"


def test_changed_positions_beyond_the_end_are_refused():
    base = np.zeros(50, dtype=np.int16)
    body = np.array([60], dtype="<u4").view(np.uint8).reshape(-1, 4).T.tobytes() + b"\1"
    payload = _raw(digest(base) + body, flags=4, announced=len(body))
    with pytest.raises(PayloadError, match="stay below 50, got 60"):
        decode_labels(payload, public=spec(), server_round=1, base=base)


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_random_bytes_never_do_worse_than_a_payload_error(data):
    payload = np.frombuffer(data, dtype=np.uint8)
    with pytest.raises(PayloadError):
        decode_labels(payload, public=spec(), server_round=1)


@settings(max_examples=100)
@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_a_flipped_payload_is_refused_or_still_valid_labels(position, patch):
    data = bytearray(_payload(base=np.zeros(50, dtype=np.int16)).tobytes())
    start = position % len(data)
    data[start : start + len(patch)] = patch
    payload = np.frombuffer(bytes(data), dtype=np.uint8)
    try:
        labels = decode_labels(payload, public=spec(), server_round=1, base=np.zeros(50, dtype=np.int16))
    except PayloadError:
        return
    assert labels.shape[1] == 50
    assert labels.min() >= ABSTAIN
    assert labels.max() < 5


def test_labels_that_do_not_fit_are_never_encoded():
    with pytest.raises(DataError, match=r"labels must lie within -1..4, got 5"):
        encode_labels(np.full(50, 5, dtype=np.int16), public=spec(), server_round=1)


def test_a_base_of_another_shape_is_never_used():
    with pytest.raises(DataError, match="base must have shape"):
        _payload(base=np.zeros((2, 50), dtype=np.int16))
