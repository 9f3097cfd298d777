"""Row numbers on the wire: ascending, in a fraction of their size, checked."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.errors import DataError, PayloadError
from fedkd_flwr.wire.row_codec import decode_rows, encode_rows


@pytest.mark.parametrize(("count", "total"), [(1, 1), (1, 9), (9, 9), (5000, 60000)])
def test_rows_come_back_ascending(count, total):
    rows = np.sort(np.random.default_rng(count).permutation(total)[:count])
    assert np.array_equal(decode_rows(encode_rows(rows, num_public=total), num_public=total), rows)


def test_rows_take_a_fifth_of_their_numbers():
    rows = np.sort(np.random.default_rng(1).permutation(60000)[:5000])
    assert len(encode_rows(rows, num_public=60000)) < 5000 * 4 / 4


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
