"""examples/hardened-node.toml answers FedKT at level L2, within a budget, and nothing else."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from fedkd_flwr.app.client_app import client_of
from fedkd_flwr.app.server_app import first_settings
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.settings.config import parse_node_config, parse_run_config

NODE = tomllib.loads((Path(__file__).parents[2] / "examples" / "hardened-node.toml").read_text(encoding="utf-8"))
L2 = {"algorithm": "fedkt", "fedkt.level": "L2", "noise": "gaussian", "epsilon": 2.0, "num-queries": 20}
REFUSED = {
    "labels without noise": {"algorithm": "fedct"},
    "FedKT without noise": {"algorithm": "fedkt"},
    "noise at the server": L2 | {"fedkt.level": "L1"},
    "scores": {"algorithm": "fedmd"},
    "weights": {"algorithm": "fedavg", "model": "mlp"},
    "less noise than a reply needs": L2 | {"epsilon": 2.9},
    "more queries": L2 | {"num-queries": 201},
    "two students": L2 | {"fedkt.students-per-party": 2},
}

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def silo(tmp_path):
    """Return the settings of the file, with files that are there."""
    rng = np.random.default_rng(1)
    columns = (Column(name="age", kind="numeric"), Column(name="bmi", kind="numeric"))
    Schema(columns=columns, classes=("low", "high"), label="risk").write(tmp_path / "schema.toml")
    rows = rng.normal(50, 9, (300, 2)).round(1)
    text = [f"{age},{bmi}" for age, bmi in rows]
    (tmp_path / "public.csv").write_text("\n".join(["age,bmi", *text[:220]]) + "\n")
    own = [f"{line},{'high' if age > 50 else 'low'}" for line, (age, _) in zip(text[220:], rows[220:], strict=True)]
    (tmp_path / "patients.csv").write_text("\n".join(["age,bmi,risk", *own]) + "\n")
    places = {"data-path": "patients.csv", "public-path": "public.csv", "state-dir": "state"}
    return NODE | {key: str(tmp_path / name) for key, name in places.items()} | {"model": "decision-tree"}


def _asked(silo, run):
    """Return the code with which the silo would refuse a run's first round; "ready" where it would answer."""
    run = {"num-parties": 2, "public-path": silo["public-path"], **run}
    told = first_settings(parse_run_config(run), load_public(run["public-path"]))
    return client_of(Context(1, 1, silo, RecordDict(), run)).ready(told).get("code", "ready")


def test_it_is_a_node_config_in_which_a_person_looks_at_each_reply():
    config = parse_node_config(NODE)
    assert (config.approve, config.allow_code, config.require_privacy) == ("always", False, True)
    assert config.share_metrics == ""


def test_it_answers_fedkt_at_level_l2(silo):
    assert _asked(silo, L2) == "ready"


@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses(silo, what):
    assert _asked(silo, REFUSED[what]) == "not-allowed"


def test_without_its_rules_it_still_refuses_noise_of_others(silo):
    for run in (REFUSED["FedKT without noise"], REFUSED["noise at the server"]):
        assert _asked(silo | {"run-rules": "", "reply-epsilon": float("inf")}, run) == "privacy-required"


def test_what_it_has_spent_keeps_a_later_run_out(silo):
    assert _asked(silo | {"epsilon-budget": 1.0}, L2) == "budget-exceeded"
