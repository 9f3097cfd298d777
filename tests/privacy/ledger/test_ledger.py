"""A party's account: what is added up, who refuses, what is believed when it is read again, and how it is printed."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkd_flwr.apps.ledger import event_words, ledger_text, main
from fedkd_flwr.errors import Code, ConfigError, DataError, RefusalError
from fedkd_flwr.privacy.cost.accountant import Accountant, ApproximateEvent, PureEvent
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.privacy.ledger.ledger import Budget, Entry, Head, Ledger

ROOT = Path(__file__).parents[3]
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
DIGEST = "ab" * 32
ONE_LABEL = ((PureEvent(0.4), 1),)


def _entry(server_round=1, *, run_id="r1", events=ONE_LABEL, **changes):
    values = {
        "run_id": run_id,
        "server_round": server_round,
        "algorithm": "fedct",
        "mechanism": "randomised response, epsilon 0.4 a label",
        "unit": "record",
        "adversary": "server",
        "neighbouring_relation": "replace one record",
        "events": plain_events(events),
        "when": "2029-12-31T10:00:00+00:00",
        "reply_digest": "0" * 64,
    }
    return Entry(**{**values, **changes})


def _ledger(*entries, party="party-000"):
    return Ledger(party=party, data_digest=DIGEST, entries=entries)


def _read(data, now=NOW):
    return Ledger.from_json(data, now=now, source="ledger x.json")


def _gaussian(noise):
    import dp_accounting as dp

    return dp.GaussianDpEvent(noise)


def _non_private():
    import dp_accounting as dp

    return dp.NonPrivateDpEvent()


# -------------------------------------------------------------------------------------------------------- budgets


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, -math.inf, True, "1", None])
def test_an_epsilon_budget_that_is_no_number_from_zero_up_is_refused(epsilon):
    with pytest.raises(ConfigError, match=r"epsilon-budget must be a number >= 0"):
        Budget(epsilon=epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, math.inf, False, "x"])
def test_a_delta_budget_outside_zero_to_one_is_refused(delta):
    with pytest.raises(ConfigError, match=r"delta-budget must be a number within \[0, 1\)"):
        Budget(delta=delta)


def test_a_budget_of_zero_refuses_everything_that_costs():
    import dp_accounting as dp

    budget = Budget(epsilon=0)
    assert _ledger().would_exceed([(PureEvent(0.01), 1)], budget)
    assert not _ledger().would_exceed([(dp.NoOpDpEvent(), 1)], budget)


# ---------------------------------------------------------------------------------------------------- adding up


def test_an_empty_ledger_has_spent_nothing():
    assert _ledger().spent(1e-5) == 0.0


def test_all_entries_of_all_runs_are_composed():
    ledger = _ledger(_entry(1), _entry(2), _entry(1, run_id="r2"))
    assert ledger.spent(0.0) == pytest.approx(1.2)


def test_what_is_spent_is_the_tight_composition_not_the_sum():
    label = PureEvent(0.05)
    ledger = _ledger(*(_entry(i, events=[(label, 100)]) for i in range(1, 5)))
    spent = ledger.spent(1e-5)
    assert spent == Accountant().compose(label, 400).epsilon(1e-5)
    assert spent < 0.5 * 400 * 0.05


def test_the_order_of_entries_and_how_releases_are_grouped_change_nothing():
    one = _ledger(_entry(1, events=[(PureEvent(0.1), 3), (_gaussian(9.0), 1)]))
    other = _ledger(_entry(1, events=[(_gaussian(9.0), 1)]), _entry(2, events=[(PureEvent(0.1), 2)]))
    other = other.charge(_entry(3, events=[(PureEvent(0.1), 1)]))
    assert one.spent(1e-6) == other.spent(1e-6)


def test_a_release_without_noise_costs_infinitely_much():
    assert _ledger(_entry(events=[(_non_private(), 1)])).spent(1e-5) == math.inf


@pytest.mark.parametrize("delta", [1.0, -1.0, math.nan, True])
def test_a_delta_that_is_none_is_refused(delta):
    with pytest.raises(ConfigError, match=r"delta must be a number within \[0, 1\)"):
        _ledger().spent(delta)


# ------------------------------------------------------------------------------------------------------- refusing


def test_a_budget_of_one_lets_two_rounds_pass_and_refuses_the_third_with_the_numbers():
    budget, ledger, asked = Budget(epsilon=1.0, delta=0.0), _ledger(), [(PureEvent(0.4), 1)]
    for server_round in (1, 2):
        ledger.ask(asked, budget)
        ledger = ledger.charge(_entry(server_round))
    numbers = (
        r"privacy budget of party-000 must cover what is asked: epsilon <= 1 at delta 0, got epsilon 0\.8 spent "
        r"before, 0\.4 asked, 1\.2 together\. .*epsilon-budget or delta-budget"
    )
    with pytest.raises(RefusalError, match=numbers) as caught:
        ledger.ask(asked, budget)
    assert caught.value.code is Code.BUDGET_EXCEEDED


def test_another_run_does_not_start_at_nothing():
    ledger = _ledger(_entry(1), _entry(2))
    with pytest.raises(RefusalError, match=r"0\.8 spent before"):
        ledger.ask([(PureEvent(0.4), 1)], Budget(epsilon=1.0, delta=0.0))


def test_a_budget_that_is_met_exactly_is_not_exceeded_and_one_a_hair_below_is():
    ledger, asked = _ledger(_entry(1, events=[(PureEvent(0.5), 1)])), [(PureEvent(0.5), 1)]
    assert not ledger.would_exceed(asked, Budget(epsilon=1.0, delta=0.0))
    below = 1.0 - 1e-8  # more than the rounding of sums, which a budget forgives
    with pytest.raises(RefusalError, match=r"1\.0 together"):
        ledger.ask(asked, Budget(epsilon=below, delta=0.0))


def test_tight_composition_lets_pass_what_the_plain_sum_would_refuse():
    asked = [(PureEvent(0.01), 500)]
    assert not _ledger().would_exceed(asked, Budget(epsilon=1.2, delta=1e-5))
    assert _ledger().would_exceed(asked, Budget(epsilon=1.2, delta=0.0))


@pytest.mark.parametrize("spent", [[], [(PureEvent(0.1), 1)]])
def test_a_finite_budget_refuses_a_release_without_noise(spent):
    ledger = _ledger(_entry(events=spent)) if spent else _ledger()
    with pytest.raises(RefusalError, match=r"infinite asked, infinite together"):
        ledger.ask([(_non_private(), 1)], Budget(epsilon=1e9))


def test_after_a_release_without_noise_a_finite_budget_refuses_everything():
    ledger = _ledger(_entry(events=[(_non_private(), 1)]))
    with pytest.raises(RefusalError, match=r"epsilon infinite spent before, 0\.001 asked, infinite"):
        ledger.ask([(PureEvent(0.001), 1)], Budget(epsilon=1e9, delta=0.0))


def test_a_delta_budget_below_the_deltas_of_what_was_released_refuses_whatever_the_epsilon():
    half = ApproximateEvent(0.1, 6e-6)
    ledger, budget = _ledger(_entry(events=[(half, 1)])), Budget(epsilon=100.0, delta=1e-5)
    assert not _ledger().would_exceed([(half, 1)], budget)
    assert ledger.would_exceed([(half, 1)], budget)


def test_an_infinite_budget_composes_nothing(monkeypatch):
    from fedkd_flwr.privacy.cost import accountant as accounting

    monkeypatch.delattr(accounting, "Accountant")
    _ledger(_entry()).ask([(PureEvent(0.4), 10**6), (_non_private(), 1)], Budget())
    with pytest.raises(ImportError):
        _ledger(_entry()).ask([(PureEvent(0.4), 1)], Budget(epsilon=5.0))


@pytest.mark.parametrize("budget", [Budget(), Budget(epsilon=1.0)])
@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "events must hold at least one event"),
        ([(PureEvent(0.1), 0)], "events must pair an event with a whole number >= 1"),
        ([(PureEvent(0.1), 1.0)], "events must pair an event with a whole number >= 1"),
        ([(PureEvent(0.1), True)], "events must pair an event with a whole number >= 1"),
        ([({"kind": "free"}, 1)], "event must be of a kind among"),
        ([({"kind": "pure", "epsilon": -1.0}, 1)], "epsilon must be a number within"),
    ],
)
def test_events_that_cannot_be_accounted_for_are_refused_whatever_the_budget(events, message, budget):
    with pytest.raises((ConfigError, DataError), match=message):
        _ledger().ask(events, budget)


def test_events_may_be_given_as_plain_json_too():
    asked = plain_events([(PureEvent(0.4), 3)])
    assert _ledger().would_exceed(asked, Budget(epsilon=1.0, delta=0.0))
    assert plain_events(asked) == asked


# -------------------------------------------------------------------------------------------------------- charging


def test_a_charge_gives_a_new_ledger_and_leaves_the_old_one():
    old = _ledger(_entry(1))
    new = old.charge(_entry(2))
    assert (len(old.entries), len(new.entries)) == (1, 2)
    assert new.links[:2] == old.links


def test_a_request_is_charged_once():
    with pytest.raises(ConfigError, match=r"must charge a request once, got run r1 round 1 again"):
        _ledger(_entry(1)).charge(_entry(1))


def test_an_entry_is_found_by_its_request():
    ledger = _ledger(_entry(1), _entry(1, run_id="r2"))
    assert ledger.entry("r2", 1) is ledger.entries[1]
    assert ledger.entry("r2", 2) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run_id": ""}, "run_id must be a text"),
        ({"mechanism": " "}, "mechanism must be a text"),
        ({"adversary": None}, "adversary must be a text"),
        ({"server_round": -1}, "server_round must be a whole number >= 0"),
        ({"server_round": True}, "server_round must be a whole number >= 0"),
        ({"unit": "label"}, "unit must be record or party"),
        ({"events": ()}, "events must hold at least one event"),
        ({"when": "yesterday"}, "when must be a date and time in UTC"),
        ({"when": "2029-12-31T10:00:00"}, "when must be a date and time in UTC"),
        ({"when": "2029-12-31T10:00:00+02:00"}, "when must be a date and time in UTC"),
        ({"reply_digest": "abc"}, "reply_digest must be a SHA-256"),
    ],
)
def test_an_entry_that_says_nothing_useful_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        _entry(**changes)


@pytest.mark.parametrize(("party", "digest"), [("", DIGEST), ("a", ""), ("a", "xyz" * 8), ("a", "../../../etc/passwd")])
def test_a_ledger_has_an_owner_and_a_digest(party, digest):
    with pytest.raises(ConfigError, match=r"(party|data digest) must be"):
        Ledger(party=party, data_digest=digest)


# -------------------------------------------------------------------------------------------------- reading again


def _full():
    return _ledger(_entry(1, events=[(PureEvent(0.1), 3), (_gaussian(7.5), 2)]), _entry(2), _entry(1, run_id="r2"))


def _lost(data, message, now=NOW):
    with pytest.raises(DataError, match=message) as caught:
        _read(data, now)
    assert caught.value.code is Code.LEDGER_LOST


@pytest.mark.parametrize("ledger", [_ledger(), _full(), _ledger(_entry(), party="St. Märy\ud800 \n")])
def test_what_is_written_is_read(ledger):
    assert _read(ledger.to_json()) == ledger
    assert Head.from_json(ledger.head.to_json()) == ledger.head


@settings(max_examples=30, deadline=None)
@given(noise=st.floats(1e-3, 1e6), epsilon=st.floats(0, 1e3), count=st.integers(1, 10**9))
def test_numbers_survive_exactly(noise, epsilon, count):
    ledger = _ledger(_entry(events=[(_gaussian(noise), count), (PureEvent(epsilon), 1)]))
    assert _read(ledger.to_json()) == ledger


def test_the_file_can_be_read_by_a_person_and_holds_no_pickle():
    raw = json.loads(_full().to_json())
    assert raw["party"] == "party-000"
    assert raw["entries"][0]["events"][0] == [{"kind": "pure", "epsilon": 0.1}, 3]


def test_any_flipped_bit_is_noticed_or_harmless():
    ledger, codes = _ledger(_entry(1), _entry(2)), []
    data = ledger.to_json()
    for at in range(len(data)):
        try:
            assert _read(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]) == ledger
        except DataError as error:
            codes.append(error.code)
    assert set(codes) == {Code.LEDGER_LOST}
    assert len(codes) > len(data) / 2


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"\xff", b'{"version": 1}', b"[" * 100_000, _full().to_json()[:-20]],
    ids=["empty", "half", "list", "null", "no text", "keys", "deep", "cut"],
)
def test_a_damaged_ledger_is_refused_and_the_way_out_said(data):
    _lost(data, r"ledger x\.json must be whole, got this: .*Restore the newest backup .*remove the folder by hand")


def _changed(change):
    raw = json.loads(_full().to_json())
    change(raw)
    return json.dumps(raw).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.update(party="party-001"), "another link at entry 1 of 3"),
        (lambda raw: raw.update(data_digest="cd" * 32), "another link at entry 1 of 3"),
        (lambda raw: raw["entries"].pop(0), "another link at entry 1 of 2"),
        (lambda raw: raw["entries"].reverse(), "another link at entry 1 of 3"),
        (lambda raw: raw["entries"][1].update(when="2028-01-01T00:00:00+00:00"), "another link at entry 2 of 3"),
        (lambda raw: raw["entries"][0]["events"][0].__setitem__(1, 2), "another link at entry 1 of 3"),
        (lambda raw: raw["entries"][0]["events"][0][0].update(epsilon=math.nan), "be a whole ledger"),
        (lambda raw: raw["entries"][2].update(link="0" * 64), "another link at entry 3 of 3"),
        (lambda raw: raw["entries"].append(raw["entries"][0]), "be a whole ledger"),
        (lambda raw: raw["entries"][0].pop("unit"), "be a whole ledger"),
        (lambda raw: raw["entries"][0].update(more=1), "be a whole ledger"),
        (lambda raw: raw.update(entries=3), "be a whole ledger"),
        (lambda raw: raw.update(more=1), "must be whole"),
        (lambda raw: raw.update(version="1"), "must be whole"),
        (lambda raw: raw.update(version=2), r"be of version <= 1, got 2\. Install a newer release"),
    ],
)
def test_a_ledger_that_was_changed_is_refused(change, message):
    _lost(_changed(change), message)


def test_a_ledger_that_was_written_again_unchanged_is_read_so_that_the_changes_above_are_the_reason():
    assert _read(_changed(lambda raw: None)) == _full()


def test_an_event_of_an_unknown_kind_is_not_skipped():
    values = {f.name: getattr(_entry(), f.name) for f in fields(Entry)}
    ledger = _ledger(Entry(**{**values, "events": (({"kind": "novel"}, 1),)}))
    with pytest.raises(DataError, match=r"hold events that this release can account for") as caught:
        _read(ledger.to_json()).spent(1e-5)
    assert caught.value.code is Code.LEDGER_LOST


def test_an_entry_from_the_future_is_refused_beyond_a_day_of_clock_skew():
    data = _ledger(_entry(when=NOW.isoformat())).to_json()
    assert _read(data, NOW - timedelta(hours=23)).entries
    _lost(data, r"hold no entry from after .*, got entry 1 of .*Set this machine's clock", NOW - timedelta(hours=25))


def test_the_ledger_of_another_party_or_of_other_rows_is_refused():
    ledger = _full()
    ledger.check_owner("party-000", DIGEST)
    for party, digest in (("party-001", DIGEST), ("party-000", "cd" * 32)):
        with pytest.raises(DataError, match=rf"must belong to party {party}.*, got party party-000") as caught:
            ledger.check_owner(party, digest)
        assert caught.value.code is Code.LEDGER_LOST


def test_a_ledger_shorter_than_its_head_or_of_another_chain_is_refused_and_a_longer_one_is_not():
    ledger = _full()
    shorter = _ledger(*ledger.entries[:2])
    ledger.check_head(shorter.head)
    with pytest.raises(DataError, match=r"hold the 3 entries its head counts, got 2 entries: an older copy"):
        shorter.check_head(ledger.head)
    with pytest.raises(DataError, match=r"agree with its head after 2 entries, got another chain"):
        ledger.check_head(_ledger(_entry(5), _entry(6)).head)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"version":1,"entries":-1,"link":""}', b'{"version":1,"entries":true,"link":""}']
)
def test_a_damaged_head_is_refused(data):
    with pytest.raises(DataError, match="head must") as caught:
        Head.from_json(data)
    assert caught.value.code is Code.LEDGER_LOST


# ------------------------------------------------------------------------------------------------------- printing


def _folder(folder, ledger, head=None):
    folder.mkdir(parents=True)
    (folder / "ledger.json").write_bytes(ledger.to_json())
    (folder / "head.json").write_bytes((head or ledger.head).to_json())
    return folder


def _past(*rounds, party="party-000", **changes):
    return _ledger(*(_entry(i, when="2020-01-01T10:00:00+00:00", **changes) for i in rounds), party=party)


def test_each_kind_of_event_has_words():
    import dp_accounting as dp

    events = [
        dp.SelfComposedDpEvent(dp.LaplaceDpEvent(12.5), 2),
        dp.ComposedDpEvent([_gaussian(40.0), _gaussian(20.0)]),
        dp.RandomizedResponseDpEvent(0.25, 10),
        PureEvent(0.5),
        ApproximateEvent(0.5, 1e-3),
        _non_private(),
        dp.NoOpDpEvent(),
    ]
    assert [event_words(event) for event, _ in plain_events([(event, 1) for event in events])] == [
        "2 x Laplace noise of 12.5 sensitivities (epsilon 0.08)",
        "Gaussian noise of 40 sensitivities + Gaussian noise of 20 sensitivities",
        "randomised response, 0.25 at random among 10",
        "epsilon 0.5",
        "epsilon 0.5 with delta 0.001",
        "no noise",
        "nothing",
    ]


def test_the_print_says_what_was_spent_when_on_what_and_what_is_left():
    text = ledger_text(_full(), delta=0.0, budget=3.0)
    assert "no finite epsilon at delta 0, 3 replies, all runs together" in text
    assert "nothing of epsilon 3" in text
    text = ledger_text(_past(1, 2), delta=0.0, budget=1.0)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "2020-01-01 10:00:00 UTC r1 1 fedct randomised response, epsilon 0.4 a label 1 x epsilon 0.4" in lines
    assert "spent epsilon 0.8 at delta 0, 2 replies, all runs together" in lines
    assert any(line.startswith("left epsilon 0.2 of 1") for line in lines)
    assert "protects one record against server; data sets compared: replace one record" in lines


def test_entries_that_say_different_things_are_not_summed_into_one_claim():
    party = _entry(2, unit="party", neighbouring_relation="replace one party's rows")
    assert "the sum speaks of one record" in ledger_text(_ledger(_entry(1), party), delta=0.0)
    assert "is no claim" not in ledger_text(_ledger(_entry(1), party), delta=0.0)
    other = _entry(2, neighbouring_relation="add or remove one record")
    assert "compare different data sets: the sum serves the budget and is no claim" in ledger_text(
        _ledger(_entry(1), other), delta=0.0
    )
    seen = _entry(2, adversary="everyone who sees the result")
    assert "against the one that sees least" in ledger_text(_ledger(_entry(1), seen), delta=0.0)
    assert "note" not in ledger_text(_ledger(_entry(1)), delta=0.0)


def test_a_name_cannot_move_the_cursor_or_forge_a_line():
    text = ledger_text(_past(1, party="a\x1b[2Jb\nspent 0", run_id="r\nr"), delta=0.0)
    assert "\x1b" not in text
    assert "party        a?[2Jb?spent 0" in text.splitlines()


@pytest.mark.parametrize("path", ["ledger.json", "", "../.."])
def test_the_command_takes_a_file_its_folder_or_a_state_dir(tmp_path, capsys, path):
    folder = _folder(tmp_path / "ledgers" / "party-000-abababababababab", _past(1))
    assert main([str(folder / path), "--delta", "0"]) == 0
    assert "epsilon 0.4 at delta 0" in capsys.readouterr().out


def test_of_several_ledgers_a_damaged_one_is_an_error_and_the_others_are_printed(tmp_path, capsys):
    for party in ("a", "b", "c"):
        _folder(tmp_path / "ledgers" / party, _past(1, party=party))
    (tmp_path / "ledgers" / "b" / "ledger.json").write_text("{")
    assert main([str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert "party        a" in printed.out
    assert "party        c" in printed.out
    assert "have paid in each" in printed.out
    assert "ledgers/b/ledger.json must be whole" in printed.err


def test_an_older_copy_or_a_missing_file_is_not_printed(tmp_path, capsys):
    older = _folder(tmp_path / "older", _past(1), head=_past(1, 2).head)
    headless = _folder(tmp_path / "headless", _past(1))
    (headless / "head.json").unlink()
    gone = _folder(tmp_path / "gone", _past(1))
    (gone / "ledger.json").unlink()
    for folder, message in ((older, "an older copy"), (headless, "a ledger with charges"), (gone, "no such file")):
        assert main([str(folder)]) == 2
        printed = capsys.readouterr()
        assert message in printed.err
        assert not printed.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--delta", "2"], "delta-budget must be"),
        (["--epsilon-budget", "nan"], "epsilon-budget must be"),
        ([], "must hold a ledger"),
    ],
)
def test_wrong_settings_and_empty_places_are_errors(tmp_path, capsys, arguments, message):
    assert main([str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_command_runs_as_a_module_without_a_warning_and_writes_nothing(tmp_path):
    folder = _folder(tmp_path / "x", _past(1))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "fedkd_flwr.apps.ledger",
        str(folder),
        "--epsilon-budget",
        "1",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "left         epsilon 0.6" in done.stdout
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
