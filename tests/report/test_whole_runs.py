"""Complete small runs at every privacy level, and what their pages and publishable records say."""

import dataclasses
from functools import cache

import pytest
from federation import parties
from pages import check_safe_and_alone, written
from rounds import run

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import summary_table

RUNS = {
    "fedkt L0": ("fedkt", {}),
    "fedkt L1, Laplace": ("fedkt", {"level": "L1", "noise": "laplace", "noise_strength": 1.0, "num_queries": 40}),
    "fedkt L2": ("fedkt", {"level": "L2", "noise": "gaussian", "epsilon": 8.0, "num_queries": 40}),
    "fedct": ("fedct", {}),
    "fedct, bits": ("fedct", {"label_mechanism": "xor", "noise_strength": 3.0}),
}


@cache
def _run(name, *, flipped=False):
    """Run one level; ``flipped``: on private rows that say the opposite."""
    algorithm, settings = RUNS[name]
    facts = {"sends": "labels", "one_shot": algorithm != "fedct", "simulation": True, "num_public": 60}
    record = RunRecord(run_id="7", algorithm=algorithm, config={"num-rounds": 3}, **facts)
    members = parties(6, simulated=True)
    for party in members if flipped else []:
        party.y[:] = 0
    run(algorithm, members, rounds=3 if algorithm == "fedct" else 1, record=record, **settings)
    return record


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.usefixtures("no_pictures")
def test_every_level_has_a_whole_page_a_table_and_a_publishable_page(name, tmp_path):
    record = _run(name)
    page = check_safe_and_alone(written(record, tmp_path))
    table = summary_table(record)
    public = check_safe_and_alone(written(record, tmp_path, publishable=True))
    for text in (page.text, table, public.text):
        assert "nan" not in text.split()
        assert "None" not in text
        assert ("shared as they are" in text) is not bool(record.claims)
    assert ("simulation only" in table) is any(c["adversary"] == "server" for c in record.claims)
    assert "NO GUARANTEE" not in public.text
    assert "for the operator only" not in public.text.lower()
    for r in record.rounds:
        if r.consensus_accuracy is not None and 0.0 < r.consensus_accuracy < 1.0:
            assert f"{r.consensus_accuracy:.3f}" in page.text


@pytest.mark.parametrize("name", ["fedkt L0", "fedkt L1, Laplace", "fedct"])
def test_publishable_records_of_other_private_rows_are_the_same(name):
    # Without noise nothing that depends on private rows stays; with noise at the server only settings do.
    one, other = _run(name), _run(name, flipped=True)
    shown = [record.publishable() for record in (one, other)]
    if one.claims:
        # The size of the final labels depends on the noise, which differs between the two runs.
        shown = [dataclasses.replace(record, final_bytes_down=0) for record in shown]
    assert shown[0] == shown[1]
    assert [p.solo for p in one.parties] != [p.solo for p in other.parties]
