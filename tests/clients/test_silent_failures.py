"""Failure is an output: beside a claim, nothing that private rows cause shows but the mechanism's output.

The cases are those of ``benchmarks/silent_failures.py``, which runs many more of them.
"""

import logging
from pathlib import Path

import numpy as np
import pytest
import scripts

from fedkd_flwr.clients.visit import Visit
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_usable_rows
from fedkd_flwr.privacy.noise.votes import GaussianMax
from fedkd_flwr.stores.ledger import LedgerStore

L2 = {"level": "L2", "noise": "gaussian", "noise_strength": 1e9, "num_queries": 5, "teachers_per_student": 4}
NFDP = {"answer_form": "argmax", "initial_epochs": 1, "distillation_epochs": 1, "subset_replacement": False}
RESPONSE = {"label_mechanism": "randomized-response", "noise_strength": 1e-9, "steps_per_round": 2}
TREE = {"party": "a", "model": "decision-tree", "require-privacy": True}


@pytest.fixture(scope="module")
def script():
    module = scripts.script("benchmarks/silent_failures.py")
    module._warm_up = lambda: None  # these models need no library that is not there yet
    return module


@pytest.fixture
def laboratory(script):
    with script.laboratory() as folder:
        yield folder, script.write_public(folder)


@pytest.fixture
def silo(script, laboratory, tmp_path, in_this_process):
    """Return ``ask(text, algorithm, settings, **node)``: what a node with this private file says to it."""
    _, public_path = laboratory

    def ask(text, algorithm, settings, *, path=None, **node):
        case = {"algorithm": algorithm, "settings": settings, "seed": 1, "net": script.NET % "", "whose": "node"}
        config = {**TREE, "allow-algorithms": script.ALLOW, "public-path": public_path, **node}
        own = tmp_path / str(len(list(tmp_path.iterdir())))
        own.mkdir()
        made = script.Silo(own, text, config, script.run_config(case, public_path))
        if path is not None:
            made.context.node_config["data-path"] = str(own / path)
        return script.trace(made, case, script.load_public(public_path))

    return ask


def _code(trace):
    return next((value.strip("'") for key, value in trace[0] if key == "code"), "")


def test_replies_to_a_hostile_server_are_the_same_whatever_the_private_file_holds(script, laboratory):
    folder, public_path = laboratory
    for seed in (0, 2, 4, 5, 7):  # three algorithms and two formats, with models that learn fast
        case, found = script.differences(seed, public_path, folder, most_files=2)
        assert found == [], case


def test_the_check_finds_a_failure_that_shows(script, laboratory, monkeypatch):
    """Else the cases above might all succeed, or compare refusals with refusals."""
    learn = lambda self: self._made(self.exchange.learn(self.instruction), self.instruction)  # noqa: E731
    monkeypatch.setattr(Visit, "learn", learn)
    folder, public_path = laboratory
    assert script.differences(4, public_path, folder, most_files=1)[1] == ["all values missing"]


CHANGED_ROW = {
    "one label changed",
    *("an unknown class", "no label", "no number", "a missing value", "an infinite value", "a huge value"),
    *("a value beyond float32", "an unknown category"),
    *("a quote that nobody closes", "a quote within a value", "a cell over two lines", "a comma in quotes"),
    *("a long text", "bytes that are no UTF-8", "a byte of 0"),
    *("an index too large", "a huge index", "an index below 1", "indexes in disorder", "no colon", "two labels"),
    *("bytes that are no text", "a label alone", "float labels, one missing", "whole labels, one unknown"),
}
"""Files that are the first one but for one row."""
CHANGED_COLUMN = {
    *("whole numbers, one missing", "one list", "yes and no", "bytes", "decimals"),
    *("whole labels", "half floats"),
}
"""Files whose column is of another type, and cannot be read in one row at most."""


@pytest.mark.parametrize("form", ["csv", "quoted csv", "parquet", "npz"])
def test_a_row_that_cannot_be_read_costs_no_other_row_in_any_format(script, laboratory, form):
    """A claim for records stands on this; which row is at fault is drawn."""
    folder, public_path = laboratory
    public = script.load_public(Path(public_path).parent / (form if form in script.SCHEMAS else "") / "public.csv")
    path = folder / f"private.{form.rpartition(' ')[2]}"
    for seed in range(3):
        usable = {}
        for name, content in script.private_files(np.random.default_rng(seed), 99, form).items():
            path.write_bytes(content)
            usable[name] = load_usable_rows(path, public)
        whole = usable["rows"]
        for name in CHANGED_ROW & usable.keys():
            other = usable[name]
            assert other.num_rows == whole.num_rows, name
            assert ((other.X != whole.X).any(axis=1) | (other.y != whole.y)).sum() <= 1, name
        for name in CHANGED_COLUMN & usable.keys():
            assert (usable[name].y >= 0).sum() >= whole.num_rows - 1, name


def _rows(script, count=20):
    return script._rows(np.random.default_rng(3), count)


def _votes_of(monkeypatch, ask):
    seen = []

    def privatize(self, counts, /, *, rng=None):
        seen.append(np.array(counts))
        return np.zeros(len(counts), dtype=np.int16)

    monkeypatch.setattr(GaussianMax, "privatize", privatize)
    ask()
    return seen[0].astype(int)


def test_a_row_that_cannot_be_used_moves_one_vote_like_any_other(script, silo, monkeypatch):
    """Were the whole file dropped for it, all teachers would change their votes, at the price of one."""
    rows = _rows(script)
    whole = _votes_of(monkeypatch, lambda: silo(script._csv(rows), "fedkt", L2))
    assert whole.sum(axis=1).tolist() == [4] * 5
    for value in ("purple", "green", "red,more", '"red'):
        text = script._csv([[*row[:3], value] if i == 7 else row for i, row in enumerate(rows)])
        votes = _votes_of(monkeypatch, lambda t=text: silo(t, "fedkt", L2))
        assert np.abs(whole - votes).sum(axis=1).max() <= 2, value
        assert votes.sum(axis=1).tolist() == [4] * 5, value


def test_a_teacher_that_fails_votes_for_the_lowest_class_alone(script, silo, monkeypatch):
    rows = [[*row[:3], "blue"] for row in _rows(script)]
    votes = _votes_of(monkeypatch, lambda: silo(script._csv(rows), "fedkt", L2))
    assert votes.tolist() == [[0, 0, 4]] * 5
    votes = _votes_of(monkeypatch, lambda: silo(script._csv(rows[:3]), "fedkt", L2, **{"test-fraction": 0.0}))
    assert votes.tolist() == [[1, 0, 3]] * 5


def test_a_file_that_is_not_there_is_a_setting_and_what_is_in_it_is_not(script, silo, caplog):
    whole = silo(script._csv(_rows(script)), "fedct", RESPONSE)
    assert _code(whole) == ""
    assert _code(silo("", "fedct", RESPONSE, path="elsewhere.csv")) == "missing-file"
    logging.getLogger("flwr.party").setLevel(logging.ERROR)
    assert silo("no table at all", "fedct", RESPONSE) == whole
    assert "a: 0 of its 0 rows can be used: " in caplog.text
    assert "The server is not told" in caplog.text


def test_one_cell_that_is_no_number_does_not_show_where_another_column_holds_texts(script, laboratory, silo):
    folder, public_path = laboratory
    texts = Column(name="c", kind="text")
    Schema(columns=(*script.SCHEMA.columns[:2], texts), classes=script.CLASSES).write(folder / "schema.toml")
    rows = [[a, b, f"seen {c}{c}", label] for a, b, c, label in _rows(script)]
    Path(public_path).write_text(script._csv(rows))
    bad = [*rows[:-1], ["many", *rows[-1][1:]]]
    for algorithm, settings in (("fedkt", L2), ("fedct", RESPONSE)):
        code, also = (_code(silo(script._csv(one), algorithm, settings)) for one in (rows, bad))
        assert code == also == ""


def test_without_a_claim_a_file_that_does_not_fit_is_named_by_its_code(script, silo):
    rows = [*_rows(script), ["1", "2", "x", "purple"]]
    text = script._csv(rows)
    assert _code(silo(text, "fedct", {}, **{"require-privacy": False})) == "class-outside-schema"
    assert _code(silo(text, "fedct", {})) == "privacy-required"


def test_what_was_sent_is_charged_whatever_happened(script, silo, monkeypatch):
    charged = []
    charge = LedgerStore.charge
    monkeypatch.setattr(LedgerStore, "charge", lambda self, **w: charged.append(w["mechanism"]) or charge(self, **w))
    silo("no table at all", "fedct", RESPONSE)
    assert len(charged) == 1
    assert charged[0].endswith("on each of 24 labels")


@pytest.mark.parametrize(("privacy", "known"), [(False, 0), (True, 8), (True, 12)])
def test_nfdp_does_not_tell_how_many_rows_there_are(script, silo, privacy, known):
    rows = _rows(script)
    node = {"require-privacy": privacy, "rows-at-least": known}
    said = [silo(script._csv(rows[:n]), "fedmd", {**NFDP, "subset_rows": 10}, **node) for n in (1, 9, 10, 11, 20)]
    assert all(one == said[0] for one in said)
    assert _code(said[0]) == ("privacy-required" if privacy and known < 12 else "")


def test_privatekt_needs_the_run_s_net_in_the_config_of_a_node_that_demands_privacy(script, silo):
    settings = {"round_epsilon": 1e-6, "transfer_rows": 2, "local_epochs": 1, "solo_epochs": 1}
    rows = script._csv(_rows(script))
    named = {"model": f"mlp{script.NET % ''}"}
    assert _code(silo(rows, "privatekt", settings, **named)) == ""
    assert _code(silo(rows, "privatekt", settings, model="")) == "bad-instruction"  # the usual net has other sizes
