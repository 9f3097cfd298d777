"""A server's state after a round: read back as it was written, or said to be missing or damaged."""

import stat

import numpy as np
import pytest

from fedkd_flwr.errors import Code, DataError
from fedkd_flwr.files import write_sealed
from fedkd_flwr.stores.checkpoints import Lineage, load_checkpoint, save_checkpoint


def test_a_checkpoint_is_read_back_as_it_was_written(tmp_path):
    arrays = {"model.0": np.eye(2, dtype=np.float32), "rows": np.array([3, 1])}
    path = save_checkpoint(tmp_path / "new", arrays, {"round": 2, "share": 0.1})
    found, meta = load_checkpoint(tmp_path / "new")
    assert meta == {"round": 2, "share": 0.1}
    assert list(found) == ["model.0", "rows"]
    assert all((found[name] == array).all() and found[name].dtype == array.dtype for name, array in arrays.items())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_missing_and_a_damaged_checkpoint_are_told_apart(tmp_path):
    with pytest.raises(DataError, match="must be there, got no such file") as caught:
        load_checkpoint(tmp_path)
    assert caught.value.code == Code.MISSING_FILE
    path = save_checkpoint(tmp_path, {"x": np.arange(100)}, {})
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="must be whole, got") as caught:
        load_checkpoint(tmp_path)
    assert caught.value.code == Code.STATE_LOST


def test_a_lineage_is_read_back_and_a_damaged_one_refused(tmp_path):
    second = Lineage.new("7").then("8")
    second.save(tmp_path)
    assert Lineage.load(tmp_path) == second
    path = tmp_path / "lineage.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(path.read_bytes().replace(b'"finished":false', b'"finished":true '))
    with pytest.raises(DataError, match=r"lineage .* must be whole, got other content than its digest was made of"):
        Lineage.load(tmp_path)
    write_sealed(path, {"version": 2, "runs": ["7"], "secret": "00" * 32, "finished": False, "released": False})
    with pytest.raises(DataError, match=r"lineage .* must be whole.*Restore it beside the checkpoint"):
        Lineage.load(tmp_path)
