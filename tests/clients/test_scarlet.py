"""SCARLET at a party: the averages it keeps."""

import numpy as np
from federation import model
from score_runs import members, payload, run


def test_a_party_that_missed_a_round_gets_the_whole_cache_and_all_parties_caches_are_the_server_s(tmp_path, caplog):
    held, lost = members(3, name="scarlet", state=tmp_path, make=model, keep_model=True), {"round": 0}

    def lose_one(node, reply):
        if node != 2 or reply.metadata.message_type != "train":
            return reply
        lost["round"] += 1
        return None if lost["round"] == 2 else reply

    strategy, grid = run(held, "scarlet", rounds=4, cache_rounds=3, grid={"tamper": lose_one}, timeout=0.5)
    assert [r.code for r in strategy.record.rounds[1].rejected] == ["no-reply"]
    third = [payload(m) for m in grid.sent if m.metadata.message_type == "train"][6:9]
    assert ["cached" in payload for payload in third] == [False, False, True]
    assert "were not kept here" not in caplog.text
    for one in held:
        assert np.array_equal(one.state.load().arrays["kept.cached"], strategy.exchange.cache.rows)


def test_a_party_without_memory_learns_what_comes_and_goes_on(caplog):
    strategy, _ = run(members(3, name="scarlet", state=None, make=model), "scarlet", rounds=4, cache_rounds=10)
    assert strategy.record.status == "completed"
    assert "were not kept here" in caplog.text
