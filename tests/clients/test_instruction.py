"""What an instruction must say, and what a party has kept for it."""

from dataclasses import replace

import numpy as np
import pytest
from federation import party, rows
from visits import CONFIG, RESPONSE, WIRE, code, fit, later, of_run

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.clients import FedCTClient, FedKTClient, FedMDClient, PrivateKTClient
from fedkd_flwr.clients.instruction import earlier_runs, kept_state, mark_of, node_proof, went_on_from, withholds
from fedkd_flwr.errors import Code
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import NO_LEDGER, PartyState, Saved, runs_gone_on_from


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
        ({"privacy": "party"}, Code.BAD_INSTRUCTION),  # the settings amount to none
    ],
)
def test_a_bad_instruction_is_answered_with_a_code(changes, said):
    assert code(fit(party("a", *rows(20, seed=0)), **changes)) == said


def test_every_setting_that_parties_are_told_must_be_there():
    for name in FedCTConfig().told():
        short = {key: value for key, value in CONFIG.items() if key != name}
        assert code(FedCTClient(party("a", *rows(20, seed=0))).fit([], short)) == Code.BAD_INSTRUCTION


def test_what_the_server_knows_stays_where_the_file_alone_changed_and_nothing_that_rows_made(tmp_path):
    kept = ("value.labels", "payload.labels", "kept.cached", "kept.ratios")
    for client, stays in ((FedCTClient, {"value.labels", "payload.labels"}), (FedMDClient, {*kept} - {"kept.ratios"})):
        member = of_run(tmp_path, *rows(20, seed=0))
        meta = {"algorithm": client.card.name, "data": "another", "charge": "c", "values": ["labels"]}
        arrays = {name: np.zeros((1, 60), np.int16) for name in kept}
        member.state.save(Saved(server_round=3, arrays=arrays, model=b"net", meta={**meta, "alone": 1, "reply": {}}))
        saved = kept_state(member, client.card, heard=client.heard)
        assert (saved.server_round, saved.model, set(saved.arrays)) == (3, b"", stays)
        assert {**saved.meta} == {name: meta.get(name, {}) for name in ("algorithm", "reply", "values", "charge")}
        member.state.save(replace(saved, meta={**meta, "algorithm": "another"}))
        assert kept_state(member, client.card, heard=client.heard).arrays == {}


def test_an_answer_kept_without_a_ledger_is_not_that_of_other_rows(tmp_path):
    """A run id that is used again, as by Flower's old API, must not bring back the answers of a run that was mended."""
    X, y = rows(20, seed=1)
    state = PartyState(tmp_path, party="a", run_id="1")
    first, mended = (party("a", X, labels, state=state) for labels in (y, (y + 1) % 3))
    meta = {"algorithm": "fedkt", "data": first.rows_digest, "values": [], "reply": {}, "charge": ""}
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


NOISE = FedCTConfig(label_mechanism="randomized-response", noise_strength=1.0)
FIRST = Lineage.new("7")
AGAIN = FIRST.then("8")
SECOND = later(2)


def _member(folder, run_id, *, secret=b""):
    return party(
        "a",
        *rows(20, seed=0),
        state=PartyState(folder, run_id=run_id, party="a"),
        ledger=LedgerStore(folder, party="a", data_digest="cd" * 32),
        run_id=run_id,
        node_secret=(lambda: secret) if secret else None,
    )


def _asked(lineage, config=NOISE, **changes):
    told = {"run-seal": lineage.seal, "algorithm": "fedct", "privacy": config.privacy}
    if lineage.earlier:
        told |= {"continues": ",".join(lineage.earlier), "run-proof": lineage.proof}
    return {**config.told(), **WIRE, **told, **changes}


def _answer(member, lineage, config=NOISE, **changes):
    """Return the bytes of a party's labels, and of which run it says that it went on from there."""
    (sent,), _, said = FedCTClient(member).fit([], _asked(lineage, config, **changes))
    return sent.tobytes(), said.get("went-on-from", "")


def _charges(member):
    return [(entry.run_id, entry.server_round) for entry in member.ledger.load().entries]


def test_the_same_round_of_the_same_exchange_has_the_same_noisy_answer_and_one_charge(tmp_path):
    first, before = _answer(_member(tmp_path, "7"), FIRST)
    member = _member(tmp_path, "8")
    assert (before, _answer(member, AGAIN)) == ("", (first, "7"))
    _answer(member, AGAIN, **SECOND)
    assert _charges(member) == [("7", 1), ("7", 2)]


@pytest.mark.parametrize("simulated", [False, True])
def test_a_silo_writes_down_which_run_s_folder_holds_what_it_keeps(tmp_path, simulated):
    _answer(_member(tmp_path, "7"), FIRST)
    assert not runs_gone_on_from(tmp_path / "runs" / "7")
    member = replace(_member(tmp_path, "8"), simulated=simulated)
    FedCTClient(member).ready(_asked(AGAIN))
    assert not runs_gone_on_from(tmp_path / "runs" / "8")  # nothing is kept yet
    _answer(member, AGAIN)
    assert runs_gone_on_from(tmp_path / "runs" / "8") == ([] if simulated else ["7"])
    assert runs_gone_on_from(tmp_path / "runs" / "8", "b") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"run-proof": "00" * 32},  # somebody who knows the run's id and not its secret, or brings one of its own
        {"run-proof": "00" * 32, "run-seal": Lineage(runs=("x",), secret="00" * 32).seal},
        {"run-proof": ""},
        {"run-seal": ""},
        {"noise-strength": 9.0},  # the right server, with other settings
        {"seed": 5},
    ],
)
def test_whoever_cannot_show_that_it_is_the_same_exchange_finds_nothing_and_pays_anew(tmp_path, changes):
    first, _ = _answer(_member(tmp_path, "7"), FIRST)
    member = _member(tmp_path, "8")
    other, went_on = _answer(member, AGAIN, **changes)
    assert (first != other, went_on) == (True, "")
    assert _charges(member) == [("7", 1), ("8", 1)]
    assert member.state.of_run("7").load().server_round == 1  # and it is as it was


def test_a_forgotten_state_is_not_made_up_for_by_the_ledger(tmp_path):
    first, _ = _answer(_member(tmp_path, "7"), FIRST)
    member = _member(tmp_path, "8")
    member.state.of_run("7").remove()
    other, went_on = _answer(member, AGAIN, **SECOND)
    assert (first != other, went_on) == (True, "")
    assert _charges(member) == [("7", 1), ("8", 2)]


def test_a_party_that_no_run_has_reached_answers_once_whichever_run_of_the_exchange_comes_then(tmp_path):
    first, _ = _answer(_member(tmp_path, "8"), AGAIN)
    for run_id, lineage in (("9", AGAIN.then("9")), ("8", AGAIN), ("7", FIRST)):
        member = _member(tmp_path, run_id)
        assert _answer(member, lineage) == (first, "7" if lineage.earlier else "")
    ((name, server_round),) = _charges(member)
    assert (name[:2], server_round) == ("7-", 1)


def test_other_settings_find_nothing_of_what_is_kept_where_no_run_had_reached_the_party(tmp_path):
    """Else what was drawn under the first settings would be sent as the answer to others."""
    first, _ = _answer(_member(tmp_path, "8"), AGAIN)
    member = _member(tmp_path, "9")
    other, went_on = _answer(member, AGAIN.then("9"), **{"noise-strength": 9.0})
    assert (first != other, went_on) == (True, "")
    (before, _), (after, _) = _charges(member)
    assert (before[:2], after) == ("7-", "9")


@pytest.mark.parametrize("simulated", [False, True])
def test_other_settings_find_nothing_of_a_run_without_noise_and_leave_it_as_it_is(tmp_path, simulated):
    """No charge tells that it reached the party; what it kept does."""
    plain = FedCTConfig()
    _answer(replace(_member(tmp_path, "7"), simulated=simulated), FIRST, plain)
    member = replace(_member(tmp_path, "8"), simulated=simulated)
    assert _answer(member, AGAIN, plain.changed(steps_per_round=7), **SECOND)[1] == ""
    assert member.state.of_run("7").load().server_round == 1
    assert member.state.of_run("8").load().server_round == 2


def test_a_simulated_party_that_no_run_has_reached_keeps_what_it_keeps_in_the_first_run_s_folder(tmp_path):
    """The server removes what lies there; a folder of another name would stay, and look like a run."""
    member = replace(_member(tmp_path, "8"), simulated=True)
    assert _answer(member, AGAIN)[1] == "7"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["7"]


def test_a_ledger_that_lost_the_round_the_server_has_is_still_refused(tmp_path):
    member = _member(tmp_path, "8")
    assert code(FedCTClient(member).fit([], _asked(AGAIN, **SECOND))) == Code.LEDGER_LOST


def test_a_node_s_secret_shows_the_same_in_a_run_and_something_else_in_each_run_and_party(tmp_path):
    shown = {
        (secret, run): FedCTClient(_member(tmp_path / run, run, secret=secret))
        .fit([], _asked(Lineage.new(run)))[2]
        .get("node-proof", "")
        for secret in (b"", b"x" * 32, b"y" * 32)
        for run in ("1", "2")
    }
    assert shown[b"", "1"] == ""
    assert len({value for value in shown.values() if value}) == 4
    again = FedCTClient(_member(tmp_path / "1", "1", secret=b"x" * 32)).fit([], _asked(Lineage.new("1")))[2]
    assert again["node-proof"] == shown[b"x" * 32, "1"]


@pytest.mark.parametrize("name", ["draw 1", "7\n\x1b[2J", "x" * 65, "../7"])
def test_what_is_no_run_s_id_does_not_become_one_in_the_ledger(tmp_path, name):
    _answer(member := _member(tmp_path, "8"), AGAIN, continues=name)
    assert _charges(member) == [("8", 1)]


def test_what_is_kept_is_of_one_secret_algorithm_public_set_and_settings():
    def mark(seal="a", algorithm="fedct", fingerprint="ab", config=NOISE):
        return mark_of({"run-seal": seal}, config, algorithm=algorithm, fingerprint=fingerprint)

    other = FedCTConfig(label_mechanism="randomized-response", noise_strength=2.0)
    assert len({mark(), mark("b"), mark(algorithm="fedkt"), mark(fingerprint="cd"), mark(config=other)}) == 5
    assert mark(seal="") == ""


def test_each_setting_that_may_change_an_answer_parts_an_exchange():
    class Told:
        def __init__(self, **changes):
            self.settings = {**NOISE.told(), "solo-epochs": 1, **changes}

        def told(self):
            return self.settings

    def mark(**changes):
        return mark_of({"run-seal": "a"}, Told(**changes), algorithm="x", fingerprint="ab")

    apart = {name for name in Told().settings if mark(**{name: "changed"}) != mark()}
    assert Told().settings.keys() - apart == {"solo-epochs"}


def test_the_last_hundred_runs_that_one_continues_are_looked_at_and_what_is_no_id_is_not():
    runs = [str(number) for number in range(150)]
    assert earlier_runs({"continues": ",".join(runs)}) == runs[50:]
    assert earlier_runs({"continues": f"{'a' * 64},{'b' * 65},c d,,_-9"}) == ["a" * 64, "_-9"]
    assert earlier_runs({"continues": ""}) == earlier_runs({}) == []


def test_a_run_whose_id_looks_like_the_name_of_what_no_run_reached_is_known_by_its_id(tmp_path):
    name = f"7-{'0' * 16}"
    assert went_on_from(_member(tmp_path, name), ["7", name]) == "7"  # what no instruction of run 7 reached
    assert went_on_from(_member(tmp_path, name), [name]) == name
    assert went_on_from(_member(tmp_path, name), ["8"]) == ""


def test_two_parties_of_one_state_dir_show_different_proofs(tmp_path):
    one = _member(tmp_path, "1", secret=b"x" * 32)
    assert len(node_proof(one)) == 64
    assert node_proof(one) != node_proof(replace(one, name="b", ledger=NO_LEDGER))
    assert node_proof(replace(one, name="2a")) != node_proof(replace(one, run_id="12", name="a"))


def test_of_several_earlier_runs_the_latest_that_reached_the_party_is_gone_on_from(tmp_path):
    """Run 8 did not bring what it continues: for the party it was a new one, whose answers are newer."""
    _answer(_member(tmp_path, "7"), FIRST)
    second, _ = _answer(_member(tmp_path, "8"), FIRST)
    assert _answer(_member(tmp_path, "9"), AGAIN.then("9")) == (second, "8")


def test_a_run_that_has_not_come_yet_cannot_be_answered_in_by_another_one(tmp_path):
    """Else whoever knows a run's id would choose its noise before it comes, and learn what proves the node in it."""
    other = Lineage(runs=("9", "8"), secret="00" * 32)
    loud = FedCTConfig(label_mechanism="randomized-response", noise_strength=50.0)
    before, _, said = FedCTClient(_member(tmp_path, "8", secret=b"x" * 32)).fit([], _asked(other, loud))
    member = _member(tmp_path, "9", secret=b"x" * 32)
    after, _, shown = FedCTClient(member).fit([], _asked(Lineage.new("9")))
    (entry,) = member.ledger.entries("9", 1)
    assert "epsilon 1 a label" in entry.mechanism
    assert not np.array_equal(before[0], after[0])
    assert said["node-proof"] != shown["node-proof"]
    assert shown["node-proof"] == node_proof(member)
