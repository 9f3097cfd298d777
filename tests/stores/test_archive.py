"""Arrays and values in one archive: always the same bytes, and nothing in it is executed."""

import json
from io import BytesIO

import numpy as np
import pytest

from fedkd_flwr.stores.archive import packed, unpacked

ARRAYS = {"z": np.array([[0, 2, -1]], dtype=np.int16), "": np.zeros(0, dtype=np.uint8), "a/../b": np.eye(2)}
VALUES = {"server_round": 3, "party": "a\ud800", "meta": {"alone": {"own": 0.5}}}


def test_what_is_packed_comes_back_in_its_order_and_gives_the_same_bytes_again():
    arrays, values = unpacked(packed(ARRAYS, VALUES))
    assert (list(arrays), values) == (list(ARRAYS), VALUES)
    assert all(arrays[name].dtype == array.dtype and (arrays[name] == array).all() for name, array in ARRAYS.items())
    assert packed(arrays, values) == packed(ARRAYS, VALUES)


def test_a_flipped_bit_anywhere_is_noticed_or_harmless():
    data, noticed = packed(ARRAYS, VALUES), 0
    for at in range(len(data)):
        try:
            arrays, values = unpacked(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        except ValueError:
            noticed += 1
        else:
            assert (list(arrays), values) == (list(ARRAYS), VALUES)
            assert all((arrays[name] == array).all() for name, array in ARRAYS.items())
    assert noticed > len(data) // 3


class _Trap:
    """Unpickling this would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_python_objects_are_neither_written_nor_run(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        packed({"labels": np.array([{}])}, {})
    trap = np.array([_Trap(tmp_path / "bait")], dtype=object)
    meta = np.frombuffer(json.dumps({"arrays": ["labels"], "values": {}}).encode(), dtype=np.uint8)
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=True, **{"meta": meta, "array.0": trap})
    with pytest.raises(ValueError, match="allow_pickle"):
        unpacked(buffer.getvalue())
    assert not (tmp_path / "bait").exists()
