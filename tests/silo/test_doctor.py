"""`fedkd doctor`: planted faults, each named with cause and way out, and the right exit code."""

import re
import sys

import pandas as pd
import pytest
from ledgers import charge
from schemas import column, schema_of
from silo_files import MIXED, node_of, people, write_public

from fedkd_flwr.data.public import short_fingerprint
from fedkd_flwr.data.shift import Shift
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.silo import check as common
from fedkd_flwr.silo import doctor as module
from fedkd_flwr.silo.check import Level, as_text, exit_code
from fedkd_flwr.silo.doctor import check_server, check_silo, may_start


@pytest.fixture
def silo(tmp_path):
    """A silo that is ready: its node config, by key."""
    public = write_public(tmp_path, people(150, 1, schema=MIXED), MIXED)
    node = node_of("north", people(120, 2, schema=MIXED), tmp_path / "own.csv", public, tmp_path / "state")
    return {**node, "model": "decision-tree"}


@pytest.fixture(autouse=True)
def _no_forest(request, monkeypatch):
    """The shift takes most of a look's time: it is computed where a test is about it."""
    if "elsewhere" not in request.node.name:
        monkeypatch.setattr("fedkd_flwr.silo.doctor.find_shift", lambda *rows, rng: Shift(auc=0.5, fit=1.0))


def _edit(silo, change):
    path = silo["data-path"]
    change(pd.read_csv(path)).to_csv(path, index=False)


def _spent(silo, folder):
    """Charge a reply of epsilon 2 to these very rows, of a budget of 2."""
    from fedkd_flwr.app.assembly import make_client
    from fedkd_flwr.settings.config import parse_node_config, parse_run_config

    silo |= {"epsilon-budget": 2.0, "model": "decision-tree"}
    run = parse_run_config({"public-path": silo["public-path"]})
    party = make_client(run, parse_node_config(silo), "old").party
    charge(party.ledger, run_id="old", epsilon=2.0, budget=party.budget)


def _model_that_raises(silo, folder):
    (folder / "raising_model.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier\n\n\nclass Raises(DecisionTreeClassifier):\n"
        "    def fit(self, X, y):\n        raise RuntimeError('no licence')\n",
        encoding="utf-8",
    )
    silo["model"] = "raising_model:Raises"


def _from_elsewhere(silo, folder):
    public = people(150, 1, schema=MIXED).drop(columns="income")
    public.assign(age=public.age + 300, hours=public.hours * 60).to_csv(silo["public-path"], index=False)


# what is planted; subject of the finding, words of its cause and of its way out, whether a private row decides it
FAULTS = {
    "missing label": (
        lambda s, f: _edit(s, lambda t: t.assign(income=t.income.where(t.index != 3))), "private file",
        "1 of 120 rows without one (first: row 4)", "Leave out rows without a label", True,
    ),
    "unknown class": (
        lambda s, f: _edit(s, lambda t: t.replace({"income": {">50K": ">50k."}})), "class outside schema",
        "must hold only the schema's classes (<=50K, >50K), got '>50k.'",
        "name the class in schema.toml at every party and the server", True,
    ),
    "wrong fingerprint": (
        lambda s, f: s.update({"public-fingerprint": "1234 5678 9012 3456 7890"}), "public set mismatch",
        "must be the one that was agreed on, 1234 5678 9012 3456 7890",
        "Copy the public file and schema.toml from the coordinator", False,
    ),
    "no public file": (
        lambda s, f: s.update({"public-path": f"{f}/pubic.csv"}), "public file",
        "pubic.csv", "Correct public-path", False,
    ),
    "full disk": (None, "disk", "cannot be written: No space left on device", "Make room there", False),
    "spent budget": (_spent, "budget", "privacy budget of north", "can raise epsilon-budget", False),
    "model that raises": (
        _model_that_raises, "model",
        "RuntimeError: no licence (raising_model.py, line 6", 'model="random-forest"', False,
    ),
    "extra missing": (None, "missing extra", "pip install", "pip install", False),
    "too few rows": (
        lambda s, f: _edit(s, lambda t: t.head(7)), "rows", "6 rows to learn from", "20 at the least", True,
    ),
    "public set from elsewhere": (
        _from_elsewhere, "shift",
        "most different columns: 'age' 1.00, 'hours' 1.00", "elsewhere: agree on public rows like yours", True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_planted_fault_is_named_with_its_cause_and_its_way_out(silo, tmp_path, monkeypatch, case):
    plant, subject, cause, way_out, private = FAULTS[case]
    monkeypatch.syspath_prepend(tmp_path)
    if plant is not None:
        plant(silo, tmp_path)
    elif case == "full disk":

        def full(path, *, timeout_s):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(common, "locked", full)
    else:
        silo["model"] = "xgboost"
        monkeypatch.setitem(sys.modules, "xgboost", None)
    findings = check_silo(silo)
    (fault,) = (one for one in findings if one.level == Level.FAULT)
    assert (fault.subject, fault.private) == (subject, private), fault
    assert cause in fault.what
    assert way_out in f"{fault.what} {fault.way_out}"
    assert exit_code(findings) == 3
    # what private rows decide must not show as a node that stays away
    assert may_start(findings) is private


def test_a_silo_that_lacks_columns_is_ready_without_them(silo):
    _edit(silo, lambda rows: rows.drop(columns="job"))
    assert exit_code(check_silo(silo)) == Level.FAULT
    found = check_silo(silo | {"lacks": "job"})
    assert exit_code(found) == 0
    assert "it lacks job, learns and votes without, and tells the server so" in [one.what for one in found]


def test_a_column_without_a_value_is_named_to_its_owner(silo):
    _edit(silo, lambda rows: rows.assign(job=None))
    (found,) = [one for one in check_silo(silo) if one.subject == "values"]
    assert (found.level, found.private) == (Level.WARNING, True)
    assert found.what == "column 'job' holds no value in any row"
    assert found.way_out.endswith('lacks="job"')


@pytest.mark.parametrize("kept", [1.0, 0.3])
def test_public_rows_that_are_private_rows_are_found_and_rows_that_are_equal_by_chance_are_not(silo, kept):
    public = pd.read_csv(silo["public-path"])
    _edit(silo, lambda rows: pd.concat([public.head(int(kept * len(public))).assign(income=">50K"), rows.tail(90)]))
    found = [one for one in check_silo(silo) if one.subject == "copies"]
    assert [(one.level, one.private) for one in found] == [(Level.WARNING, True)] * (kept == 1.0)
    assert all(re.match(r"1\d\d of 150 public rows are private rows too$", one.what) for one in found)
    public.assign(age=30, hours=40, job="cook").to_csv(silo["public-path"], index=False)
    _edit(silo, lambda rows: rows.assign(age=30, hours=40, job="cook"))
    assert "copies" not in [one.subject for one in check_silo(silo)]


def test_a_silo_that_is_ready_is_said_to_be(silo, tmp_path):
    public = load_public(silo["public-path"])
    silo["public-fingerprint"] = short_fingerprint(public.fingerprint)
    found = check_silo(silo)
    assert exit_code(found) == 0
    assert list(as_text(found))[-1] == f"Ready: 0 faults, 0 warnings; {len(found)} points were looked at."
    told = {one.subject: one.what for one in found}
    assert told["fingerprint"].endswith("as agreed")
    assert told["rows"].startswith("96 rows to learn from, of 2 classes")
    assert "most different columns" not in told["shift"]
    # nothing was kept
    assert not (tmp_path / "state").exists()


# ------------------------------------------------------------------------------------------------------ at a server


@pytest.fixture
def run(tmp_path):
    pd.DataFrame({"age": range(40)}).to_csv(tmp_path / "public.csv", index=False)
    schema_of(column("age"), label="y").write(tmp_path / "schema.toml")
    return {"public-path": str(tmp_path / "public.csv"), "output-dir": str(tmp_path / "out"), "num-parties": 3}


def test_a_server_that_is_ready_prints_the_digits_to_compare(run):
    findings = check_server(run)
    assert exit_code(findings) == 0
    (digits,) = (one for one in findings if one.subject == "fingerprint")
    assert digits.what == short_fingerprint(load_public(run["public-path"]).fingerprint)
    assert f'public-fingerprint="{digits.what}"' in digits.way_out


@pytest.mark.parametrize(
    ("change", "subject", "words"),
    [
        ({"num-rounds": -1}, "settings", "num-rounds must be"),
        ({"public-path": ""}, "settings", "public-path must be given for a check"),
        ({"output-dir": "here"}, "settings", "output-dir must be an absolute path"),
        ({"public-path": "/nowhere/public.csv"}, "public file", "no file /nowhere/public.csv"),
    ],
)
def test_what_is_wrong_at_a_server_is_named(run, change, subject, words):
    (fault,) = (one for one in check_server({**run, **change}) if one.level == Level.FAULT)
    assert fault.subject == subject
    assert words in fault.what


@pytest.mark.parametrize(("online", "level"), [(3, Level.READY), (1, Level.WARNING)])
def test_too_few_nodes_online_are_a_warning(run, monkeypatch, online, level):
    class Connection:
        address = ""

    nodes = [{"status": "online" if i < online else "offline"} for i in range(3)]
    monkeypatch.setattr("flwr.cli.flower_config.read_superlink_connection", lambda name: Connection)
    monkeypatch.setattr(module, "flower", lambda *words: {"nodes": nodes})
    (found,) = (one for one in check_server(run, superlink="ops") if one.subject == "nodes")
    assert found.level == level
    assert f"{online} of 3 registered nodes are online; the run waits for 3" in found.what
