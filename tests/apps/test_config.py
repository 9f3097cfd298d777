"""Settings as people write them: every key known, checked and documented before any party is contacted."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fedkd_flwr.apps.config import NodeConfig, RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.errors import ConfigError

ROOT = Path(__file__).parents[2]
SIMULATIONS = sorted((ROOT / "simulations").glob("*.toml"))
SILO = {"party": "st-mary", "data-path": "/d/own.csv", "public-path": "/d/public.csv"}


def _keys(model):
    return [name.replace("_", "-") for name in model.model_fields]


# ------------------------------------------------------------------------------------ one truth about every key


def test_pyproject_gives_every_key_with_the_same_default_and_type():
    written = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    defaults = RunConfig().as_scalars()
    assert written == defaults
    assert {key: type(value) for key, value in written.items()} == {k: type(v) for k, v in defaults.items()}


@pytest.mark.parametrize("model", [RunConfig, NodeConfig], ids=["run config", "node config"])
def test_every_key_is_documented(model):
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    missing = [key for key in _keys(model) if f"`{key}`" not in text]
    assert missing == []


def test_there_are_simulations_to_check():
    assert SIMULATIONS


@pytest.mark.parametrize("path", SIMULATIONS, ids=lambda p: p.stem)
def test_a_published_simulation_is_a_valid_run_config(path):
    text = path.read_text(encoding="utf-8")
    settings = tomllib.loads(text)
    if settings.get("partitioner") == "file" and "partition-path" not in settings:
        # whoever runs it has the published split at a place of their own: the file must say so
        assert "partition-path" in text
        settings["partition-path"] = "/somewhere"
    config = parse_run_config(settings)
    assert path.stem.startswith(config.algorithm)


def test_a_config_survives_being_written_and_parsed_again():
    config = RunConfig(algorithm="fedkt", quorum=0.5, model_params='{"hidden": [5]}')
    assert parse_run_config(config.as_scalars()) == config


@pytest.mark.parametrize(("settings", "rounds"), [({}, 5), ({"algorithm": "fedkt"}, 1), ({"num-rounds": 2}, 2)])
def test_without_a_number_of_rounds_each_algorithm_has_its_own(settings, rounds):
    assert parse_run_config(settings).rounds == rounds


# --------------------------------------------------------------------------------------------------------- types


def test_a_whole_number_is_accepted_where_a_float_is_meant():
    config = parse_run_config({"quorum": 1, "round-timeout-s": 60})
    assert (config.quorum, type(config.quorum), config.round_timeout_s) == (1.0, float, 60.0)
    node = parse_node_config({**SILO, "epsilon-budget": 4})
    assert (node.epsilon_budget, type(node.epsilon_budget)) == (4.0, float)


def test_infinity_is_a_budget():
    assert parse_node_config({**SILO, "epsilon-budget": float("inf")}).epsilon_budget == float("inf")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        # unknown
        ({"algoritm": "fedct"}, "run config key algoritm must be a known key, got 'fedct'. Did you mean algorithm?"),
        ({"num_rounds_": 2}, "run config key num_rounds_ must be a known key, got 2. Did you mean num-rounds?"),
        ({"zzz": 1}, "run config key zzz must be a known key, got 1. Known keys: aggregation-weights, algorithm, "),
        # of the wrong type
        ({"num-rounds": True}, "num-rounds must be a valid integer, got True"),
        ({"num-rounds": 2.0}, "num-rounds must be a valid integer, got 2.0"),
        ({"num-rounds": "2"}, "num-rounds must be a valid integer, got '2'"),
        ({"quorum": True}, "quorum must be a valid number, got True"),
        ({"quorum": "high"}, "quorum must be a valid number, got 'high'"),
        ({"centralised": 1}, "centralised must be a valid boolean, got 1"),
        ({"centralised": "yes"}, "centralised must be a valid boolean, got 'yes'"),
        ({"model": 3}, "model must be a valid string, got 3"),
        # out of range
        (
            {"algorithm": "fedavg"},
            "'pate' or 'privatekt', got 'fedavg'. See docs/configuration.md",
        ),
        ({"consensus": "loud"}, "consensus must be 'majority', 'qualified-majority' or 'dawid-skene', got 'loud'"),
        ({"quorum": 1.5}, "quorum must be less than or equal to 1, got 1.5"),
        ({"quorum": float("nan")}, "quorum must be less than or equal to 1, got nan"),
        ({"dirichlet-alpha": 0.0}, "dirichlet-alpha must be greater than 0, got 0.0"),
        ({"seed": -1}, "seed must be greater than or equal to 0, got -1"),
        ({"min-parties": 0}, "min-parties must be greater than or equal to 1, got 0"),
        ({"party-test-fraction": 1.0}, "party-test-fraction must be less than 1, got 1.0"),
        # impossible together
        ({"algorithm": "fedkt", "num-rounds": 3}, "num-rounds must be 1 for fedkt (one-shot), got 3. Drop it"),
        ({"num-parties": 2, "min-parties": 3}, "min-parties must be at most num-parties (2), got 3. Lower min-parties"),
        ({"dataset": "table"}, "table and label must be given with dataset \"table\", got table '', label ''. Name"),
        ({"dataset": "table", "table": "/a.csv"}, "got table '/a.csv', label ''. Name your file"),
        ({"partitioner": "file"}, 'partition-path must be given with partitioner "file", got'),
    ],
)
def test_a_wrong_run_config_is_refused_with_its_key_the_rule_and_the_value(settings, message):
    with pytest.raises(ConfigError) as caught:
        parse_run_config(settings)
    assert message in str(caught.value)


def test_several_mistakes_are_named_at_once():
    with pytest.raises(ConfigError, match=r"seed must .*\nquorum must"):
        parse_run_config({"quorum": 2.0, "seed": -1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "data-path must be given in the node config, got ''. Start this SuperNode with --node-config"),
        ({**SILO, "public-path": ""}, "public-path must be given with data-path, got ''. Name this node's copy"),
        ({**SILO, "party": ""}, "party must be given with data-path, got ''. Give this silo a unique name"),
        ({**SILO, "data_pth": "x"}, "node config key data_pth must be a known key, got 'x'. Did you mean data-path?"),
        ({**SILO, "share-metrics": "yes"}, "share-metrics must be a valid boolean, got 'yes'. Correct --node-config"),
        ({**SILO, "require-privacy": 1}, "require-privacy must be a valid boolean, got 1"),
        ({**SILO, "epsilon-budget": float("nan")}, "epsilon-budget must be greater than or equal to 0, got nan"),
        ({**SILO, "epsilon-budget": -1}, "epsilon-budget must be greater than or equal to 0, got -1"),
        ({**SILO, "test-fraction": 1.0}, "test-fraction must be less than 1, got 1.0"),
        ({"partition-id": "0", "num-partitions": 2}, "partition-id must be a valid integer, got '0'"),
    ],
)
def test_a_wrong_node_config_is_refused_with_its_key_the_rule_and_the_value(settings, message):
    with pytest.raises(ConfigError) as caught:
        parse_node_config(settings)
    assert message in str(caught.value)


def test_a_node_of_a_simulation_needs_no_more_than_what_flower_gives_it():
    assert parse_node_config({"partition-id": 0, "num-partitions": 4}).simulated
    assert not parse_node_config(SILO).simulated


def test_a_silo_shares_no_metrics_and_forgets_nothing_unless_it_says_so():
    node = parse_node_config(SILO)
    assert node.share_metrics is False
    assert node.epsilon_budget == float("inf")
    assert node.allow == "fedct,fedkt,pate,privatekt"  # hard labels; never soft ones or weights
