"""What an instruction must say, and what a party has kept for it."""

from dataclasses import replace

import numpy as np
import pytest
from federation import party, rows
from visits import CONFIG, RESPONSE, code, fit, of_run

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.clients import FedCTClient, FedKTClient, FedMDClient, PrivateKTClient
from fedkd_flwr.clients.instruction import kept_state, withholds
from fedkd_flwr.errors import Code
from fedkd_flwr.stores.party_state import PartyState, Saved


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wire-version": 2}, Code.BAD_INSTRUCTION),
        ({"algorithm": "fedmd"}, Code.BAD_INSTRUCTION),
        ({"server-round": 0}, Code.BAD_INSTRUCTION),
        ({"server-round": True}, Code.BAD_INSTRUCTION),
        ({"rounds-left": 2**62}, Code.BAD_INSTRUCTION),
        ({"steps-per-round": "many"}, Code.BAD_INSTRUCTION),
        ({"payload": "labels"}, Code.BAD_INSTRUCTION),
        ({"fingerprint": "cd" * 32}, Code.PUBLIC_SET_MISMATCH),
    ],
)
def test_a_bad_instruction_is_answered_with_a_code(changes, said):
    assert code(fit(party("a", *rows(20, seed=0)), **changes)) == said


def test_privacy_that_the_settings_do_not_amount_to_is_refused():
    assert code(fit(party("a", *rows(20, seed=0)), privacy="party")) == Code.BAD_INSTRUCTION


def test_every_setting_that_parties_are_told_must_be_there():
    for name in FedCTConfig().told():
        short = {key: value for key, value in CONFIG.items() if key != name}
        assert code(FedCTClient(party("a", *rows(20, seed=0))).fit([], short)) == Code.BAD_INSTRUCTION


def test_what_the_server_knows_stays_where_the_file_alone_changed_and_nothing_that_rows_made(tmp_path):
    kept = ("value.labels", "payload.labels", "kept.cached", "kept.ratios")
    for client, stays in ((FedCTClient, {"value.labels", "payload.labels"}), (FedMDClient, {*kept} - {"kept.ratios"})):
        member = of_run(tmp_path, *rows(20, seed=0))
        meta = {
            "algorithm": client.card.name,
            "data": "another",
            "charge": "c",
            "values": ["labels"],
            "payload": ["labels"],
        }
        arrays = {name: np.zeros((1, 60), np.int16) for name in kept}
        member.state.save(Saved(server_round=3, arrays=arrays, model=b"net", meta={**meta, "alone": 1, "reply": {}}))
        saved = kept_state(member, client.card, heard=client.heard)
        assert (saved.server_round, saved.model, set(saved.arrays)) == (3, b"", stays)
        assert {**saved.meta} == {
            name: meta.get(name, {}) for name in ("algorithm", "reply", "values", "payload", "charge")
        }
        member.state.save(replace(saved, meta={**meta, "algorithm": "another"}))
        assert kept_state(member, client.card, heard=client.heard).arrays == {}


def test_an_answer_kept_without_a_ledger_is_not_that_of_other_rows(tmp_path):
    """A run id that is used again, as by Flower's old API, must not bring back the answers of a run that was mended."""
    X, y = rows(20, seed=1)
    state = PartyState(tmp_path, party="a", run_id="1")
    first, mended = (party("a", X, labels, state=state) for labels in (y, (y + 1) % 3))
    meta = {"algorithm": "fedkt", "data": first.rows_digest, "values": [], "payload": [], "reply": {}, "charge": ""}
    state.save(Saved(server_round=1, arrays={}, model=b"net", meta=meta))
    assert kept_state(first, FedKTClient.card).model == b"net"
    assert kept_state(mended, FedKTClient.card).model == b""


@pytest.mark.parametrize(
    ("changes", "demands", "stay"),
    [({}, False, False), ({}, True, True), ({"privacy": "party"}, False, True), (RESPONSE, False, True)],
)
def test_codes_that_private_rows_may_decide_stay_where_a_claim_may_cover_the_reply(changes, demands, stay):
    member = party("a", *rows(9, seed=0), require_privacy=demands)
    assert withholds(member, FedCTClient.card, {**CONFIG, **changes}) is stay
    assert withholds(member, PrivateKTClient.card, CONFIG)  # whatever its settings are
