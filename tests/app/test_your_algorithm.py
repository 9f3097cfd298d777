"""examples/own_algorithm of docs/howto/your-algorithm.md: it runs as it stands, and a silo decides whether it does."""

import sys
import tomllib
from pathlib import Path

import pytest
from grid import run_apps

from fedkd_flwr.algorithms import find_card
from fedkd_flwr.app.assembly import refuse_foreign_algorithm
from fedkd_flwr.errors import ConfigError, RefusalError
from fedkd_flwr.settings.config import parse_node_config

FOLDER = Path(__file__).parents[2] / "examples" / "own_algorithm"
CODE = (FOLDER / "my_algorithm.py").read_text(encoding="utf-8")
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
SILO = {"party": "st-mary", "data-path": "/d/own.csv", "public-path": "/d/public.csv"}


@pytest.fixture
def example(tmp_path, monkeypatch):
    (tmp_path / "my_algorithm.py").write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    find_card.cache_clear()
    yield "my_algorithm:CARD"
    sys.modules.pop("my_algorithm", None)
    find_card.cache_clear()


def _run_config():
    config = dict(PROJECT["tool"]["flwr"]["app"]["config"])
    return {**{k: v for k, v in config.items() if k != "unanimous"}, "unanimous.spare": config["unanimous"]["spare"]}


def test_the_example_runs_through_the_apps_and_its_record_tells_what_it_is(example, tmp_path):
    record = run_apps(tmp_path, 4, {**_run_config(), "model": "decision-tree"})
    assert (record.status, record.algorithm, record.sends) == ("completed", "unanimous", "labels")
    assert len(record.rounds) == 3
    assert 0 < record.rounds[-1].labelled_share < 1
    assert record.config["unanimous.spare"] == 1
    assert all(party.federated for party in record.parties)


def test_a_silo_runs_it_only_where_its_owner_names_the_import_string(example):
    named = parse_node_config({**SILO, "allow-algorithms": f"fedct,{example}"})
    refuse_foreign_algorithm(example, named)
    for allow in ("fedct,fedkt", "unanimous"):
        with pytest.raises(RefusalError, match="be one that this node allows by its import string"):
            refuse_foreign_algorithm(example, parse_node_config({**SILO, "allow-algorithms": allow}))


@pytest.mark.parametrize("demand", [{"require-privacy": True}, {"epsilon-budget": 1.0}])
def test_a_silo_that_demands_privacy_never_runs_it(example, demand):
    node = parse_node_config({**SILO, "allow-algorithms": example, **demand})
    with pytest.raises(RefusalError, match="be one of this package at a node that demands privacy"):
        refuse_foreign_algorithm(example, node)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody:CARD", "name a card that can be imported"),
        ("json:dumps", "name a fedkd_flwr Card, got json:dumps, a function"),
        ("fedkd_flwr.algorithms.fedct:CARD", "be none of this package's algorithms, got 'fedct'"),
        ("fedsgd", "be one of .*fedct.*, or a card of your own"),
    ],
)
def test_what_is_no_card_of_somebody_s_own_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        find_card(name)
