from __future__ import annotations

import struct
import tracemalloc
import zlib
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.labels import ABSTAIN, Consensus, ConsensusRule
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.wire.label_codec import (
    DEFLATED,
    Opened,
    PublicSpec,
    decode_answer,
    decode_labels,
    deflate,
    digest,
    encode_answer,
    encode_labels,
    seal,
    seal_answer,
    unpack,
    unseal,
    unseal_answer,
)

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


AT = {"public": PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 32), "server_round": 2, "base": {}}
LABELS = np.array([[0, 1, 2, -1]], dtype=np.int16)


class TwoNeeds(ConsensusRule):
    """A toy that needs two arrays in each answer and one in the first."""

    name: ClassVar[str] = "two-needs"
    needs: ClassVar[tuple[str, ...]] = ("first", "second", "sizes")
    once: ClassVar[tuple[str, ...]] = ("sizes",)

    def combine(self, ballot, *, config, rng) -> Consensus:
        """Return the first party's labels."""
        return Consensus(ballot.labels[0][0])


def test_labels_alone_come_back_and_nothing_that_nobody_asked_for():
    sent = encode_answer({"labels": LABELS, "first": np.ones(4)}, **AT)
    assert list(sent) == ["labels"]
    found = decode_answer({**sent, "first": np.ones(4)}, num_arrays=1, **AT)
    assert list(found) == ["labels"]
    assert (found["labels"] == LABELS).all()


def test_what_a_rule_without_a_codec_needs_travels_as_it_is():
    rule, values = TwoNeeds(), {"labels": LABELS, "first": np.ones(4), "second": np.zeros(2), "other": np.zeros(1)}
    sent = encode_answer(values, rule=rule, **AT)
    assert set(sent) == {"labels", "first", "second"}
    found = decode_answer(sent, rule=rule, num_arrays=1, **AT)
    assert {name: array.tolist() for name, array in found.items() if name != "labels"} == {
        "first": [1.0] * 4,
        "second": [0.0] * 2,
    }
    with pytest.raises(PayloadError, match=r"reply must hold first, second, sizes for two-needs, got no second"):
        decode_answer({name: sent[name] for name in ("labels", "first")}, rule=rule, num_arrays=1, **AT)


@pytest.mark.parametrize("rule", [TwoNeeds(), RULES["density-ratio"]])
def test_without_the_first_of_a_rule_s_needs_an_answer_is_one_of_labels_alone(rule):
    sent = encode_answer({"labels": LABELS}, **AT)
    odd = {name: np.ones(3) for name in rule.needs[1:]}
    assert list(decode_answer({**sent, **odd}, rule=rule, num_arrays=1, **AT)) == ["labels"]


def test_a_reply_without_labels_is_refused():
    with pytest.raises(PayloadError, match="no labels in the reply"):
        decode_answer({"first": np.ones(4)}, rule=TwoNeeds(), num_arrays=1, **AT)


SPEC = PublicSpec(num_public=50, num_classes=5, fingerprint="ab" * 32)


def _answer(content=b"body", **changes):
    settings = {"flags": 2, "size": 4, "public": SPEC, "server_round": 3, "own": 7} | changes
    return seal_answer(b"XX", content, **settings)


def _open_answer(payload):
    return unseal_answer(payload, b"XX", known_flags=3, public=SPEC, server_round=3)


def test_what_is_sealed_is_opened():
    opened = Opened(flags=2, rows=50, size=4, content=b"body")
    assert unseal(seal(b"XX", b"body", flags=2, rows=50, size=4), b"XX", known_flags=3) == opened
    assert _open_answer(_answer(own=65535)) == (65535, opened)


def test_the_header_is_laid_out_as_documented():
    answer = _answer().tobytes()
    assert answer == struct.pack("<2sBBIIHHI16s", b"XX", 1, 2, 50, 4, 5, 7, 3, b"\xab" * 16) + b"body"
    assert seal(b"XX", b"body", flags=2, rows=50, size=4).tobytes() == answer[:12] + b"body"


def _version_9():
    payload = _answer().copy()
    payload[2] = 9
    return payload


@pytest.mark.parametrize(
    ("payload", "reason", "message"),
    [
        ([1, 2], "bad-payload", "payload must be a flat uint8 array, got list of shape"),
        (_answer().astype(np.int64), "bad-payload", "payload must be a flat uint8 array, got int64 of shape"),
        (_answer().reshape(-1, 2), "bad-payload", "payload must be a flat uint8 array"),
        (_answer()[:11], "bad-payload", "payload must start with a header XX, got 11 bytes"),
        (seal(b"XY", bytes(40), flags=0, rows=50, size=4), "bad-payload", "payload must start with a header XX"),
        (_version_9(), "unknown-version", "payload version must be 1, got 9"),
        (_answer(flags=6), "bad-payload", "payload flags must be known, got 6"),
        (_answer()[:35], "bad-payload", "payload must have the header of an answer, got 35 bytes"),
        (_answer(public=SPEC.rows(49)), "wrong-length", "payload must be of 50 public rows, got 49"),
        (_answer(public=replace(SPEC, num_classes=2)), "wrong-classes", "payload must know 5 classes, got 2"),
        (_answer(server_round=2), "wrong-round", "payload must answer round 3, got 2"),
    ],
)
def test_another_header_than_expected_is_refused_with_its_reason(payload, reason, message):
    with pytest.raises(PayloadError, match=message) as caught:
        _open_answer(payload)
    assert caught.value.reason == reason


def test_another_public_set_is_named_before_its_number_of_rows():
    other = PublicSpec(num_public=49, num_classes=4, fingerprint="cd" * 32)
    with pytest.raises(PayloadError, match="public set must have fingerprint abab") as caught:
        _open_answer(_answer(public=other))
    assert caught.value.reason == "wrong-public-set"


@given(st.binary(max_size=500), st.integers(1, 9))
def test_a_body_comes_back_whole_and_never_grows(body, level):
    content, flags = deflate(body, level)
    assert unpack(content, flags=flags, size=len(body)) == body
    assert len(content) <= len(body)


@pytest.mark.parametrize(
    ("content", "flags", "reason"),
    [
        (b"abc", 0, "wrong-length"),
        (b"abcde", 0, "wrong-length"),
        (zlib.compress(b"abc"), DEFLATED, "wrong-length"),
        (zlib.compress(b"abcde"), DEFLATED, "wrong-length"),
        (zlib.compress(b"abcd")[:-1], DEFLATED, "wrong-length"),
        (zlib.compress(b"abcd") + b"x", DEFLATED, "wrong-length"),
        (b"\1\2\3", DEFLATED, "bad-payload"),
        (b"", DEFLATED, "wrong-length"),
    ],
)
def test_a_body_of_another_size_than_announced_is_refused(content, flags, reason):
    with pytest.raises(PayloadError) as caught:
        unpack(content, flags=flags, size=4)
    assert caught.value.reason == reason


def test_a_bomb_is_never_unpacked_whole():
    bomb = zlib.compress(bytes(2 * 10**7), 9)
    tracemalloc.start()
    with pytest.raises(PayloadError, match="unpack to exactly 48 bytes, got more bytes"):
        unpack(bomb, flags=DEFLATED, size=48)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6
