import struct
import tracemalloc
import zlib
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
    ANSWER_HEADER,
    CHANGES,
    DIFFERENCES,
    PublicSpec,
    decode_answer,
    decode_labels,
    digest,
    encode_answer,
    encode_labels,
    inflate,
    seal,
    unseal,
)


def spec(num_public: int = 50, num_classes: int = 5) -> PublicSpec:
    return PublicSpec(num_public=num_public, num_classes=num_classes, fingerprint="ab" * 32)


@st.composite
def parts(draw):
    """Draw parts of numbers, and numbers that the receiver holds: nearly the same, or others."""
    made, held = [], []
    for bits in draw(st.lists(st.sampled_from([1, 3, 4, 8, 9, 16, 32]), min_size=1, max_size=3)):
        numbers = draw(arrays(np.int64, draw(st.integers(1, 40)), elements=st.integers(0, 2**bits - 1)))
        other = np.where(np.arange(len(numbers)) < draw(st.integers(0, 40)), 0, numbers)
        made, held = [*made, (numbers, bits)], [*held, other % 2**15]
    return made, held


@given(parts(), st.booleans())
def test_numbers_come_back_whole_and_no_form_is_longer_than_the_plain_one(drawn, based):
    made, held = drawn
    plain = seal(b"XX", made, public=spec(), server_round=3, own=65535)
    payload = seal(b"XX", made, public=spec(), server_round=3, own=65535, base=held if based else None)
    opened = unseal(payload, b"XX", public=spec(), server_round=3)
    back = opened.numbers([(len(numbers), bits) for numbers, bits in made], held if based else None)
    assert [one.tolist() for one in back] == [numbers.tolist() for numbers, _ in made]
    assert opened.own == 65535
    assert len(payload) <= len(plain)


def test_the_header_is_laid_out_as_documented():
    payload = seal(b"XX", [(np.array([1, 2]), 8)], public=spec(), server_round=3, own=7, flags=16)
    assert payload.tobytes() == struct.pack("<2sBBIHHI16s", b"XX", 1, 16, 50, 5, 7, 3, b"\xab" * 16) + b"\1\2"


@pytest.mark.parametrize(
    ("payload", "reason", "message"),
    [
        ([1, 2], "bad-payload", "payload must be a flat uint8 array, got list of shape"),
        (np.zeros(40, np.int64), "bad-payload", "payload must be a flat uint8 array, got int64 of shape"),
        (np.zeros((2, 40), np.uint8), "bad-payload", "payload must be a flat uint8 array"),
        (b"XX" + bytes(29), "bad-payload", "payload must start with a header XX, got 31 bytes"),
        (b"XY" + bytes(40), "bad-payload", "payload must start with a header XX"),
        ({"version": 9}, "unknown-version", "payload version must be 1, got 9"),
        ({"flags": 64}, "bad-payload", "payload flags must be known, got 64"),
        ({"rows": 49}, "wrong-length", "payload must be of 50 public rows, got 49"),
        ({"classes": 2}, "wrong-classes", "payload must know 5 classes, got 2"),
        ({"at": 2}, "wrong-round", "payload must answer round 3, got 2"),
        ({"print": "cd", "rows": 49}, "wrong-public-set", "public set must have fingerprint abab"),
    ],
)
def test_another_header_than_expected_is_refused_with_its_reason(payload, reason, message):
    if isinstance(payload, dict):
        said = {"version": 1, "flags": 16, "rows": 50, "classes": 5, "own": 7, "at": 3, "print": "ab", **payload}
        payload = struct.pack("<2sBBIHHI16s", b"XX", *list(said.values())[:-1], bytes.fromhex(said["print"]) * 16)
    payload = np.frombuffer(payload, np.uint8) if isinstance(payload, bytes) else payload
    with pytest.raises(PayloadError, match=message) as caught:
        unseal(payload, b"XX", public=spec(), server_round=3, flags=16)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (zlib.compress(b"abcde"), "wrong-length"),
        (zlib.compress(b"abcd")[:-1], "wrong-length"),
        (zlib.compress(b"abcd") + b"x", "wrong-length"),
        (b"\1\2\3", "bad-payload"),
        (b"", "wrong-length"),
    ],
)
def test_what_is_no_deflated_body_is_refused(content, reason):
    with pytest.raises(PayloadError) as caught:
        inflate(content, 4)
    assert caught.value.reason == reason


def test_a_bomb_is_never_unpacked_whole():
    bomb = zlib.compress(bytes(2 * 10**7), 9)
    tracemalloc.start()
    with pytest.raises(PayloadError, match="unpack to at most 48 bytes, got more bytes"):
        inflate(bomb, 48)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6


@st.composite
def exchanges(draw):
    num_classes = draw(st.integers(2, 300))
    rows, count = draw(st.integers(1, 60)), draw(st.integers(1, 3))
    lowest = draw(st.sampled_from([0, ABSTAIN]))
    labels = arrays(np.int16, (count, rows), elements=st.integers(lowest, num_classes - 1))
    other = arrays(np.int16, (count, rows), elements=st.integers(ABSTAIN, num_classes - 1))
    return spec(rows, num_classes), draw(labels), draw(st.none() | other)


@given(exchanges())
def test_labels_come_back_whole_with_a_base_and_without(exchange):
    public, labels, base = exchange
    payload = encode_labels(labels, public=public, server_round=3, base=base)
    back = decode_labels(payload, public=public, server_round=3, num_arrays=len(labels), base=base)
    assert (back == labels).all()


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


ZEROS = np.zeros(50, dtype=np.int16)
HELD, BOMB = digest(ZEROS), zlib.compress(bytes(10**7))
_ONE_CHANGE = np.array([60], dtype="<u4").view(np.uint8).reshape(-1, 4).T.tobytes() + b"\1"


def _raw(body: bytes, *, flags: int = 0, arrays: int = 1) -> np.ndarray:
    head = seal(b"FL", [(np.zeros(0, np.uint8), 8)], public=spec(), server_round=1, own=arrays, flags=flags)
    return np.concatenate([head, np.frombuffer(body, np.uint8)])


REFUSED = {
    "no array": (_raw(b"", arrays=0), "wrong-length", "hold at least 1 label arrays"),
    "unknown flag": (_raw(b"\0" * 19, flags=64), "bad-payload", "flags must be known"),
    "class out of range": (_raw(b"\xff" * 19), "class-out-of-range", "at most 4, got 7"),
    "short body": (_raw(b"\0" * 18), "wrong-length", "have 19 bytes, got 18"),
    "bomb": (_raw(BOMB, flags=1), "wrong-length", "unpack to at most 19"),
    "bomb of changes": (_raw(HELD + BOMB, flags=1 | CHANGES), "wrong-length", "unpack to at most 53"),
    "unknown base": (_raw(b"\0" * 35, flags=DIFFERENCES), "stale-base", "an answer that the receiver holds"),
    "another base": (_raw(digest(ZEROS + 1) + bytes(19), flags=DIFFERENCES), "stale-base", "receiver holds"),
    "base of another size": (_raw(HELD + bytes(9), flags=CHANGES, arrays=2), "stale-base", "hold 100 numbers"),
    "half a change": (_raw(HELD + bytes(4), flags=CHANGES), "wrong-length", "gaps and codes of one count"),
    "a change beyond the end": (_raw(HELD + _ONE_CHANGE, flags=CHANGES), "wrong-length", "stay below 50"),
    "a change to no class": (_raw(HELD + bytes(4) + b"\7", flags=CHANGES), "class-out-of-range", "at most 4, got 7"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_payload_is_refused_with_a_reason(case):
    payload, reason, message = REFUSED[case]
    with pytest.raises(PayloadError, match=message) as caught:
        decode_labels(payload, public=spec(), server_round=1, base=None if case == "unknown base" else ZEROS)
    assert caught.value.reason == reason


@settings(max_examples=200)
@given(st.integers(2, 10_000), st.binary(min_size=1, max_size=30), st.booleans())
def test_a_changed_payload_is_refused_or_still_valid_labels(position, patch, based):
    base = ZEROS if based else None
    data = bytearray(encode_labels(np.arange(50, dtype=np.int16) % 5, public=spec(), server_round=1, base=base))
    start = position % len(data)
    data[start : start + len(patch)] = patch
    try:
        labels = decode_labels(np.frombuffer(bytes(data), np.uint8), public=spec(), server_round=1, base=base)
    except PayloadError:
        return
    assert labels.shape[1] == 50
    assert labels.min() >= ABSTAIN
    assert labels.max() < 5


def test_labels_that_do_not_fit_and_a_base_of_another_shape_are_never_encoded():
    with pytest.raises(DataError, match=r"labels must lie within -1..4, got 5"):
        encode_labels(np.full(50, 5, dtype=np.int16), public=spec(), server_round=1)
    with pytest.raises(DataError, match="base must have shape"):
        encode_labels(ZEROS, public=spec(), server_round=1, base=np.zeros((2, 50), dtype=np.int16))


AT = {"public": spec(4, 3), "server_round": 2, "base": {}}
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
    assert len(sent["labels"]) == ANSWER_HEADER + 1
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
    with pytest.raises(PayloadError, match="no labels in the reply"):
        decode_answer({"first": np.ones(4)}, rule=rule, num_arrays=1, **AT)


@pytest.mark.parametrize("rule", [TwoNeeds(), RULES["density-ratio"]])
def test_without_the_first_of_a_rule_s_needs_an_answer_is_one_of_labels_alone(rule):
    sent = encode_answer({"labels": LABELS}, **AT)
    odd = {name: np.ones(3) for name in rule.needs[1:]}
    assert list(decode_answer({**sent, **odd}, rule=rule, num_arrays=1, **AT)) == ["labels"]
