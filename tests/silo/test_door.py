"""The door: what leaves a party, what is held, what a decision is about, and what is written down."""

import faulthandler
import os
import threading
import time
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from federation import fedct_grid, held_by_server, party, rows
from flwr.app import Context, RecordDict
from visits import CONFIG, WIRE, code, fit

from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.algorithms.fedmd import FedMDConfig
from fedkd_flwr.app.client_app import client_of
from fedkd_flwr.clients import FedCTClient, FedKTClient, FedMDClient, RefusingClient
from fedkd_flwr.clients.party import OPEN, Ask, Leaving
from fedkd_flwr.errors import Code, DataError, RefusalError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.processes import alive
from fedkd_flwr.settings.config import parse_node_config, parse_run_config
from fedkd_flwr.silo import door as silo_door
from fedkd_flwr.silo.door import SiloDoor, door_of
from fedkd_flwr.silo.review import decide, log_text, pending
from fedkd_flwr.silo.site_rules import SiteRules, parse_setting_rules
from fedkd_flwr.stores.egress_log import EgressLog, read_log
from fedkd_flwr.stores.ledger import NO_NOISE, LedgerStore
from fedkd_flwr.stores.party_state import PartyState, StoredReply
from fedkd_flwr.strategies import FedCT
from fedkd_flwr.wire.label_codec import decode_labels, digests
from fedkd_flwr.wire.score_codec import encode_rows

LABELS = StoredReply(arrays={"labels": np.zeros(3)})
NOISY = FedCTConfig(noise_strength=1.0, label_mechanism="randomized-response")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(silo_door, "POLL_S", 0.02)


def _guarded(folder, name="a", *, run="1", counts=20, ledger=True, **changes):
    """A party with a door, a ledger and a state of its own."""
    own = folder / name
    asks = {key: changes.pop(key) for key in ("approve", "within_s", "rules") if key in changes}
    X, y = changes.pop("rows", rows(counts, seed=ord(name[0])))
    settings = {
        "run_id": run,
        "state": PartyState(own, run_id=run, party=name),
        "door": SiloDoor(EgressLog(own, party=name), run_id=run, **asks),
        "share_metrics": (),
        **changes,
    }
    if ledger:
        settings["ledger"] = LedgerStore(own, party=name, data_digest="ab" * 16)
    return party(name, X, y, **settings)


def _run(members, config=None, rounds=1, **keywords):
    grid = fedct_grid(members, **keywords)
    strategy = FedCT(config=config or FedCTConfig(), public=members[0].public, min_train_nodes=1, min_available_nodes=2)
    strategy.start(grid, num_rounds=rounds)
    return grid, strategy.record


def _door(folder, **asks):
    return SiloDoor(EgressLog(folder, party="a"), run_id="1", **asks)


def _asked(server_round=1, **changes):
    return Ask(**{"server_round": server_round, "algorithm": "fedct", "told": {}, **changes})


def _log(member):
    found = read_log(member.door.log.path)
    assert found.problems == []
    return found.lines


def _steward(member, *decisions):
    """Decide about one reply after the other, in a thread, as a person would at another terminal."""

    def work():
        for verdict in decisions:
            while not (waits := pending(state) if state.is_dir() else []):
                time.sleep(0.01)
            tables.append((dict(waits[0].facts), waits[0].table))
            decide("last", state, approved=verdict, reason="seen", by="Ada")

    tables, state = [], member.door.log.directory.parents[1]
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, tables


def _arrays(grid, node):
    return [
        reply.content.array_records["arrays"]
        for reply in grid.replies
        if reply.metadata.src_node_id == node and "arrays" in reply.content
    ]


# ------------------------------------------------------------------------------------------------- what is written


def test_each_reply_is_in_the_log_with_the_digest_of_what_arrived(tmp_path):
    members = [_guarded(tmp_path, name) for name in "ab"]
    grid, record = _run(members, rounds=2)
    lines = _log(members[0])
    left = [(line["round"], line["left"], line["code"]) for line in lines]
    assert left == [(1, True, ""), (2, True, ""), ("final", True, "")]
    for line, sent in zip(lines, _arrays(grid, 1000), strict=False):
        (array,) = sent.values()
        assert line["output"]["arrays"][0]["sha256"] == sha256(array.numpy().tobytes()).hexdigest()
    assert lines[0]["settings"]["steps-per-round"] == 200
    assert lines[0]["claim"] is None
    assert lines[0]["approval"] == {"policy": "never", "verdict": "not asked"}  # nobody has approved it
    assert record.rounds[0].rejected == []
    _run(noisy := [_guarded(tmp_path, name) for name in "cd"], NOISY)
    line, entry = _log(noisy[0])[0], noisy[0].ledger.load().entries[0]
    assert line["output"]["sha256"] == entry.reply_digest  # the log and the ledger name one reply by one digest
    assert line["claim"]["mechanism"] == entry.mechanism
    assert line["claim"]["events"] == [[event, count] for event, count in entry.events]


# ---------------------------------------------------------------------------------------------------------- approval


def test_each_code_that_leaves_has_a_line_also_where_no_party_could_be_set_up(tmp_path, caplog):
    member = _guarded(tmp_path, "a", allow=frozenset())
    for client in (FedCTClient(member), RefusingClient("a", RefusalError("no"), door=member.door)):
        assert code(client.fit([], WIRE | {"algorithm": "fedct"})) == "not-allowed"
    assert [(line["left"], line["code"]) for line in _log(member)] == [(False, "not-allowed")] * 2
    assert caplog.text.count("leaves this round out") == 2
    assert "only the code not-allowed" in log_text(_log(member))


def test_the_log_names_what_made_the_reply_and_what_was_told_beside_it_and_no_visit_speaks_for_the_next(tmp_path):
    door = _door(tmp_path, versions={"fedkd-flwr": "1.2"})
    door.before_rows(_asked())
    door.let_out(Leaving(reply=StoredReply(), num_examples=3, sender={"reply-every-s": 7}))
    door.before_rows(_asked(2))
    door.refused("internal")
    door.refused("internal")  # of a visit that ended before it had said its round
    lines = read_log(door.log.path).lines
    assert lines[0]["output"]["sender"] == {"reply-every-s": 7}
    assert [line["versions"] for line in lines] == [{"fedkd-flwr": "1.2"}] * 3
    assert [line["round"] for line in lines] == [1, 2, None]


def test_with_a_full_disk_an_answer_is_held_back_all_the_same_and_the_next_is_no_change_to_it(tmp_path, monkeypatch):
    """Changes to what never left would show whether a guess at it is right."""
    member = _guarded(tmp_path, approve="always", within_s=0.05)
    save = PartyState.save

    def full(self, saved):
        if saved.meta.get("held-back"):
            raise OSError(28, "No space left on device")
        save(self, saved)

    monkeypatch.setattr(PartyState, "save", full)
    assert code(fit(member)) == "held-back"
    assert member.state.load() is None


def test_what_was_approved_is_what_leaves_and_the_table_says_what_the_bytes_say(tmp_path):
    members = [_guarded(tmp_path, "a", approve="always"), _guarded(tmp_path, "b")]
    thread, shown = _steward(members[0], True)
    grid, record = _run(members)
    thread.join(5)
    ((facts, table),) = shown
    (sent,) = _arrays(grid, 1000)[0].values()
    labels = decode_labels(sent.numpy(), public=members[0].spec, server_round=1)[0]
    assert table[0] == ["public row", "label"]
    assert [row[1] for row in table[1:]] == [("red", "green", "blue")[label] for label in labels]
    line = _log(members[0])[0]
    assert line["output"] == facts["output"]
    assert [line["approval"][key] for key in ("verdict", "by", "reason")] == ["approved", "Ada", "seen"]
    assert record.rounds[0].answered == ["a", "b"]
    assert pending(tmp_path / "a") == []
    assert not list((tmp_path / "a").rglob("held/*.npz"))


@pytest.mark.parametrize("rejected", [True, False], ids=["rejected", "expired"])
@pytest.mark.parametrize("config", [FedCTConfig(), NOISY], ids=["without noise", "with noise"])
def test_nothing_of_an_answer_that_nobody_approves_leaves_and_the_run_names_the_party(tmp_path, rejected, config):
    members = [_guarded(tmp_path, "a", approve="always", within_s=5.0 if rejected else 0.05), _guarded(tmp_path, "b")]
    if rejected:
        _steward(members[0], False)
    grid, record = _run(members, config)
    assert [(one.party, one.code) for one in record.rounds[0].rejected] == [("a", "held-back")]
    assert _arrays(grid, 1000) == []
    assert record.status == "completed"
    line, verdict = _log(members[0])[0], "rejected" if rejected else "expired"
    assert (line["left"], line["code"], line["approval"]["verdict"]) == (False, "held-back", verdict)
    assert line["output"]["bytes"] > 0  # what was held back
    # noise that was drawn is paid for, whatever the steward decides; without noise nothing was told
    assert len(members[0].ledger.load().entries) == (config is NOISY)


def test_a_rejected_answer_that_is_asked_for_again_is_neither_drawn_nor_charged_nor_shown_again(tmp_path):
    member = _guarded(tmp_path, "a", approve="always", within_s=5.0)
    thread, _ = _steward(member, False)
    _run([member, _guarded(tmp_path, "b")], NOISY)
    thread.join(5)
    first = member.ledger.load().entries
    again = _guarded(tmp_path, "a", approve="always", within_s=5.0)
    began = time.monotonic()
    _, record = _run([again, _guarded(tmp_path, "b")], NOISY)
    assert time.monotonic() - began < 4.0
    assert [(one.party, one.code) for one in record.rounds[0].rejected] == [("a", "held-back")]
    assert again.ledger.load().entries == first
    lines = [line for line in _log(again) if line["round"] == 1]
    assert [(line["left"], line["approval"]["verdict"]) for line in lines] == [(False, "rejected")] * 2
    assert [line["output"] is None for line in lines] == [False, True]  # the second time nothing was made


def test_the_final_visit_discloses_no_metrics_that_nobody_approved(tmp_path):
    keys = {"approve": "always", "share_metrics": ("accuracy",), "min_support": 0}
    never_asked = _guarded(tmp_path, "c", within_s=0.0, **keys)
    assert FedCTClient(never_asked).evaluate([], {**CONFIG, "privacy": "none"})[2]["code"] == "held-back"
    for verdict, codes in ((False, {"held-back"}), (True, {None})):
        member = _guarded(tmp_path / str(verdict), "a", within_s=5.0, **keys)
        thread, _ = _steward(member, verdict, verdict)
        grid, _ = _run([member, _guarded(tmp_path / str(verdict), "b")])
        thread.join(5)
        said = [one.content["reply"] for one in grid.replies if one.metadata.message_type == "evaluate"]
        assert {one.get("code") for one in said if one["party"] == "a"} == codes


@pytest.mark.parametrize("config", [FedCTConfig(), NOISY], ids=["without noise", "with noise"])
def test_later_replies_do_not_tell_whether_a_guess_at_an_answer_that_was_held_back_is_right(tmp_path, config):
    held = _guarded(tmp_path, "a", approve="always", within_s=0.0)
    assert code(fit(held, **config.told())) == "held-back"
    right = {"server-round": 2, "base": digests([held.state.load().arrays["value.labels"]])}
    assert held_by_server(FedCTClient(_guarded(tmp_path, "a")), [], {**CONFIG, **config.told(), **right}) == {}


# ------------------------------------------------------------------------------------------------------------- rules


def test_rules_read_what_the_server_asks_for_and_not_what_its_run_config_says(tmp_path):
    limits = parse_setting_rules("num-rounds<=2, fedct.quorum>=0.5", {"num-rounds", "fedct.quorum"})
    door = _door(tmp_path, settings={"num-rounds": 1, "fedct.quorum": 0.9}, rules=SiteRules(settings=limits))
    door.before_rows(_asked(2))
    for server_round, told in ((3, {}), (1, {"fedct.quorum": 0.1})):
        with pytest.raises(RefusalError, match="run-rules of this site must be kept"):
            door.before_rows(_asked(server_round, told=told))


def test_a_reply_that_costs_more_than_the_site_lets_out_or_has_no_claim_is_refused(tmp_path):
    door = _door(tmp_path, rules=SiteRules(reply_epsilon=2.0, delta=0.0))
    ask = _asked(claim=NOISE, events=[(PureEvent(1.0), 2)])
    door.before_rows(ask)
    for changes, seen in (({"events": [(PureEvent(1.0), 3)]}, "3"), ({"events": None, "claim": None}, "infinite")):
        with pytest.raises(RefusalError, match=rf"reply-epsilon .* \(at most 2 at delta 0\), got '{seen}'"):
            door.before_rows(replace(ask, **changes))


def test_rules_about_numbers_of_rows_go_by_the_rows_that_are_asked(tmp_path):
    """The run config may say 5, and 0 may stand for all: what is asked decides."""
    limits = parse_setting_rules("public-rows-per-round<=10, num-queries<=10", {"public-rows-per-round", "num-queries"})

    def told_code(client, config, indices, **said):
        member = _guarded(tmp_path, f"a{len(list(tmp_path.iterdir()))}", rules=SiteRules(settings=limits))
        member = replace(member, allow=frozenset({"fedmd", "fedkt"}))
        member.door.settings = said
        told = {**config.told(), **WIRE, "algorithm": client.card.name, "payload": "indices"}
        return client(member).fit([indices], told)[2].get("code", "")

    noisy = FedMDConfig(answer_form="argmax", label_mechanism="randomized-response", noise_strength=1.0)
    level2 = FedKTConfig(level="L2", noise="gaussian", noise_strength=9.0, teachers_per_student=2)
    ten, eleven = (encode_rows(np.arange(count), num_public=60) for count in (10, 11))
    assert told_code(FedMDClient, noisy, ten, **{"public-rows-per-round": 5}) == ""
    assert told_code(FedMDClient, noisy, eleven, **{"public-rows-per-round": 5}) == "not-allowed"
    assert told_code(FedKTClient, level2.changed(num_queries=10), np.arange(10)) == ""
    assert told_code(FedKTClient, level2, np.arange(60)) == "not-allowed"


NOISE = {"unit": "party", "adversary": "server", "neighbouring_relation": "any", "mechanism": "noise on 10 labels"}


@pytest.mark.parametrize(("within_s", "until_s"), [(60.0, 0.05), (0.05, 60.0)])
def test_nobody_waits_for_a_steward_longer_than_the_server_waits_or_the_site_says(tmp_path, within_s, until_s):
    soon, until = time.monotonic() + 0.05, time.monotonic() + until_s
    door = _door(tmp_path, approve="always", within_s=within_s, until=until)
    door.before_rows(_asked())
    with pytest.raises(RefusalError, match="'expired'"):
        door.let_out(Leaving(reply=LABELS, num_examples=3))
    assert time.monotonic() < soon + 10.0


def test_a_visit_that_is_ended_while_it_waits_says_that_nobody_waits_for_an_approval_any_more(tmp_path, monkeypatch):
    """As when the run is stopped: the node ends the ClientApp's process, and it hears SIGTERM."""
    door = _door(tmp_path, approve="always")
    door.before_rows(_asked())

    def told(seconds):
        raise SystemExit(1)

    monkeypatch.setattr(silo_door.time, "sleep", told)
    with pytest.raises(SystemExit):
        door.let_out(Leaving(reply=LABELS, num_examples=3))
    assert pending(tmp_path) == []
    (line,) = read_log(door.log.path).lines
    assert (line["left"], line["code"], line["approval"]["verdict"]) == (False, "", "expired")
    assert line["approval"]["reason"] == "the run was stopped, or the node ended"


def test_a_process_that_waits_for_a_person_does_not_count_as_one_that_hangs(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(alive, "_seconds", 5.0)
    monkeypatch.setattr(alive, "_process", os.getpid())
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: told.append("paused"))
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda *_, **__: told.append("begun anew"))
    _run([_guarded(tmp_path, "a", approve="always", within_s=0.05), _guarded(tmp_path, "b")], FedCTConfig())
    assert told[-2:] == ["paused", "begun anew"]


def _full(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_reply_that_cannot_be_written_down_does_not_leave_and_a_refusal_is_written_down_too(tmp_path, monkeypatch):
    members = [_guarded(tmp_path, "a"), _guarded(tmp_path, "b", allow=frozenset()), _guarded(tmp_path, "c")]
    monkeypatch.setattr(members[0].door.log, "append", _full)
    grid, record = _run(members)
    assert [(one.party, one.code) for one in record.rounds[0].rejected] == [("a", "internal"), ("b", "not-allowed")]
    assert _arrays(grid, 1000) == []
    assert [(line["left"], line["code"]) for line in _log(members[1])][:1] == [(False, "not-allowed")]


def test_what_a_full_disk_keeps_out_of_the_ledger_is_withheld_also_where_a_steward_is_asked(tmp_path, monkeypatch):
    wrong = DataError("a class", code=Code.CLASS_OUTSIDE_SCHEMA)
    member = _guarded(tmp_path, "a", approve="always", fault=wrong)
    assert code(fit(member)) == "class-outside-schema"
    assert [entry.mechanism for entry in member.ledger.load().entries] == [NO_NOISE]
    monkeypatch.setattr(member.ledger, "note_no_noise", _full)
    assert code(fit(member, **{"server-round": 2})) == "withheld"
    good = _guarded(tmp_path, "b", approve="always")
    monkeypatch.setattr(good.ledger, "note_no_noise", _full)
    _steward(good, True)
    assert code(fit(good)) == "withheld"
    (line,) = _log(good)
    assert (line["left"], line["code"], line["approval"]["verdict"]) == (False, "withheld", "approved")


# ------------------------------------------------------------------------------------------- by a node's config


def _node_config(folder, **changes):
    own = {"party": "a", "data-path": str(folder / "no.csv"), "public-path": str(folder / "no-public.csv")}
    return {**own, "state-dir": str(folder / "state"), **changes}


def test_a_rule_that_a_run_s_settings_break_is_refused_before_any_file_is_read(tmp_path):
    node = _node_config(tmp_path, **{"run-rules": "num-rounds<=2"})
    metrics = client_of(Context(7, 1, node, RecordDict(), {"algorithm": "fedct", "num-rounds": 3})).fit([], {})[2]
    assert (metrics["party"], metrics["code"]) == ("a", "not-allowed")
    (first,) = read_log(tmp_path / "state" / "egress" / "a" / "log.jsonl").lines
    assert (first["run"], first["left"], first["code"]) == ("7", False, "not-allowed")
    assert first["rules"] == [{"rule": "run-rules", "wanted": "num-rounds<=2", "seen": "3", "kept": False}]


def test_a_run_s_usual_number_of_rounds_counts_and_a_simulated_party_has_a_door_only_if_asked_for(tmp_path):
    config = parse_run_config({})
    egress = door_of(config, parse_node_config(_node_config(tmp_path)), "7")
    assert egress.settings["num-rounds"] == config.rounds > 0
    simulated = {"partition-id": 0, "num-partitions": 2}
    assert door_of(config, parse_node_config(simulated), "7") is OPEN
    for more in ({"approve": "always"}, {"run-rules": "num-rounds<=2"}, {"state-dir": str(tmp_path)}):
        assert door_of(config, parse_node_config({**simulated, **more}), "7") is not OPEN
