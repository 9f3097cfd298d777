"""SCARLET in whole rounds through the real door: what travels, and that all parties keep one cache."""

import numpy as np
import pytest
from federation import model
from score_runs import members, payload, run

from fedkd_flwr.wire.score_codec import decode_rows


def _members(folder, name, count=3):
    return members(count, name=name, state=folder, make=model, keep_model=True)


def _run(name, held, *, rounds=4, tamper=None, **settings):
    settings = {"public_rows_per_round": 60, **settings}
    return run(held, name, rounds=rounds, grid={"tamper": tamper}, timeout=0.5, **settings)


def test_rows_in_the_cache_are_neither_asked_nor_sent(tmp_path):
    every, _ = _run("scarlet", _members(tmp_path / "a", "scarlet"), cache_rounds=1)
    cached, grid = _run("scarlet", _members(tmp_path / "b", "scarlet"), cache_rounds=10)
    first, *later = cached.record.rounds
    assert first.bytes_up == every.record.rounds[0].bytes_up
    # a round must ask for something: one row in the place of sixty
    assert all(r.bytes_up < first.bytes_up for r in later)  # most of it headers
    last = [m for m in grid.sent if m.metadata.message_type == "train"][-1]
    assert len(decode_rows(payload(last)["indices"], num_public=60)) == 1
    assert sum(r.bytes_down for r in later[1:]) < sum(r.bytes_down for r in every.record.rounds[2:])
    assert {name for m in grid.sent[:3] for name in payload(m)} == {"indices"}


def test_without_a_cache_and_an_exponent_scarlet_is_fedmd(tmp_path):
    plain, _ = _run("fedmd", _members(tmp_path / "a", "fedmd"))
    same, _ = _run("scarlet", _members(tmp_path / "b", "scarlet"), cache_rounds=1, exponent=1.0)
    assert np.allclose(plain.exchange.average, same.exchange.average, atol=1e-6)
    assert [p.federated for p in plain.record.parties] == [p.federated for p in same.record.parties]


@pytest.mark.parametrize("name", ["fedmd", "scarlet"])
def test_fewer_bits_take_fewer_bytes_and_end_in_much_the_same(tmp_path, name):
    floats, _ = _run(name, _members(tmp_path / "a", name), score_bits=16, rounds=2)
    for bits in (8, 1):
        steps, _ = _run(name, _members(tmp_path / f"b{bits}", name), score_bits=bits, rounds=2)
        up = [sum(r.bytes_up for r in s.record.rounds) for s in (floats, steps)]
        assert up[1] < up[0]
        assert steps.record.mean_accuracies()["federated-common"] > 0.8
