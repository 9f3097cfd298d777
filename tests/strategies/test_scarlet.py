"""SCARLET in whole rounds through the real door: what travels, and that all parties keep one cache."""

import numpy as np
import pytest
from federation import model
from score_runs import members, payload, run

from fedkd_flwr.wire.row_codec import decode_rows


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
def test_fewer_bits_and_changes_alone_take_fewer_bytes_and_end_in_much_the_same(tmp_path, name):
    floats, _ = _run(name, _members(tmp_path / "a", name), score_bits=16)
    for bits in (8, 1):
        steps, _ = _run(name, _members(tmp_path / f"b{bits}", name), score_bits=bits, average_bits=16)
        folder = tmp_path / f"c{bits}"
        changes, _ = _run(name, _members(folder, name), score_bits=bits, average_bits=16, send_changes=True)
        up = [sum(r.bytes_up for r in s.record.rounds) for s in (floats, steps, changes)]
        assert up[1] < up[0]
        # coding changes the bytes and nothing else
        assert np.array_equal(steps.exchange.average, changes.exchange.average)
        assert steps.record.mean_accuracies()["federated-common"] > 0.8
        if name != "scarlet" and bits == 8:  # fewer bits are fewer than a base's name
            assert up[2] < up[1]


def test_a_party_that_lost_its_state_sends_full_answers_and_both_ends_begin_anew(tmp_path):
    members = _members(tmp_path, "fedmd")
    asked = []

    def forget(node, reply):
        if node == 1 and reply.metadata.message_type == "train":
            asked.append(reply)
            if len(asked) == 2:
                members[1].state.remove()
        return reply

    strategy, _ = _run("fedmd", members, score_bits=4, average_bits=16, send_changes=True, tamper=forget)
    plain, _ = _run("fedmd", _members(tmp_path / "b", "fedmd"), score_bits=4, average_bits=16)
    assert all(r.rejected == [] for r in strategy.record.rounds)
    assert np.array_equal(strategy.exchange.average, plain.exchange.average)
