"""The header all payloads share, and the bounded way to unpack what anybody may have sent."""

import struct
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.errors import PayloadError
from fedkd_flwr.wire.envelope import (
    DEFLATED,
    Opened,
    PublicSpec,
    deflate,
    seal,
    seal_answer,
    unpack,
    unseal,
    unseal_answer,
)

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


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_random_bytes_never_do_worse_than_a_payload_error(data):
    with pytest.raises(PayloadError):
        _open_answer(np.frombuffer(data, dtype=np.uint8))
