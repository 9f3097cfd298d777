"""Which model files this user wrote: one secret, whoever asks first, and a digest of what the file says."""

import json
from concurrent.futures import ThreadPoolExecutor

from fedkd_flwr.models import own_files


def test_processes_that_start_at_once_make_one_secret(monkeypatch, tmp_path):
    monkeypatch.setattr(own_files, "SECRET", tmp_path / "secret")
    with ThreadPoolExecutor(8) as pool:
        marks = set(pool.map(lambda _: own_files.marked({"a": 1})["own"], range(8)))
    assert len(marks) == 1


def test_keys_that_are_numbers_are_the_same_keys_in_the_file():
    assert own_files.is_own(json.loads(json.dumps(own_files.marked({"weights": {2: 1.0, 10: 2.0}}))))


def test_a_changed_description_is_nobody_s(monkeypatch, tmp_path):
    monkeypatch.setattr(own_files, "SECRET", tmp_path / "secret")
    meta = own_files.marked({"sha256": "ab", "kind": "sklearn"})
    assert own_files.is_own(meta)
    assert own_files.marked(meta) == meta
    assert not own_files.is_own({**meta, "sha256": "ac"})
    assert not own_files.is_own({**meta, "more": 1})
    (tmp_path / "secret").write_bytes(b"")
    assert not own_files.is_own(meta)
