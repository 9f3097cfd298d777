"""Settings as people write them: every key has one home, and each is checked before any party is contacted."""

import json
import re
import shutil
import tomllib
from functools import cache
from pathlib import Path

import pytest
from flwr.common.config import flatten_dict
from pydantic import TypeAdapter, ValidationError
from scripts import script

from fedkd_flwr.algorithms import cards
from fedkd_flwr.algorithms.card import Config
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.settings.config import RunConfig, parse_node_config, parse_run_config

ROOT = Path(__file__).parents[2]
SIMULATIONS = sorted((ROOT / "simulations").glob("*.toml"))
assert SIMULATIONS
SILO = {"party": "st-mary", "data-path": "/d/own.csv", "public-path": "/d/public.csv"}
ALGORITHMS = sorted(cards())
# general settings that not every algorithm reads, and those that do
SOME = {
    "fraction-parties": {
        *("dp-fedavg", "fedavg", "feddf", "fedkt-prox", "fedprox", "fedxgb-bagging", "privatekt", "scaffold")
    },
    "server-epsilon-budget": {"dp-fedavg", "fedkt", "pate"},
    "teacher-model": {"fedkt", "fedkt-prox"},
    "student-model": {"fedkt", "fedkt-prox"},
    "final-model": {"fedkt", "pate"},
}


def other_value(config: type[Config], name: str, *, but: tuple = ()) -> object:
    """Return an allowed value of a setting that is neither its default nor in ``but``."""
    field, default = config.model_fields[name], config.default(name)
    allowed = TypeAdapter(field.rebuild_annotation())
    choices = getattr(field.annotation, "__args__", ())
    for value in (*choices, True, False, 1, 2, 20, 0.25, 0.75, "something"):
        if type(value) is not type(default) or value == default or value in but:
            continue
        try:
            return allowed.validate_python(value, strict=True)
        except ValidationError:
            continue
    raise AssertionError(f"no other value of {name} is known here")


OWN = {key: (card.config, name) for card in cards().values() for name, key in card.config.keys().items()}
READERS = {key: [name for name in ALGORITHMS if key in cards()[name].config.keys().values()] for key in OWN}
GENERAL = {key: (RunConfig, name) for name, key in RunConfig.keys().items()}


@pytest.fixture
def reference():
    return script("docs/reference.py")


OUT_OF_DATE = [
    ("pyproject.toml", "quorum = 0.9", "quorum = 0.8"),
    ("fedkd_flwr/strategies/__init__.py", "import PATE as PATE", "import PATE as Pate"),
]


def test_a_mean_of_kept_runs_is_rounded_once_as_on_the_pages_that_quote_it(tmp_path, reference):
    runs = [{"seed": 1, "solo": 0.41452}, {"seed": 2, "solo": 0.61452}]
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text(json.dumps({"runs": runs, "means": {"solo": 0.5145}, "deviations": {}}))
    assert "| 2 (seed 1 to 2) | 0.515±0.141 | - |" in reference.kept_runs(tmp_path)


def test_generated_parts_are_up_to_date_and_what_is_not_is_seen_and_mended(tmp_path, monkeypatch, capsys, reference):
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    for slow in [
        name for name in vars(reference) if name.endswith(("_table", "_tables", "_runs", "_pages", "_fields"))
    ]:
        monkeypatch.setattr(reference, slow, cache(getattr(reference, slow)))  # the same each time
    for path in reference.generated(ROOT):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks", dirs_exist_ok=True)  # its results are told of
    (tmp_path / "simulations").symlink_to(ROOT / "simulations")
    assert reference.main(["--check"]) == 0, capsys.readouterr().out
    texts = {file: (tmp_path / file).read_text(encoding="utf-8") for file, _, _ in OUT_OF_DATE}
    for file, there, instead in OUT_OF_DATE:
        assert there in texts[file]
        (tmp_path / file).write_text(texts[file].replace(there, instead), encoding="utf-8")
    assert reference.main(["--check"]) == 1
    assert capsys.readouterr().out.splitlines() == [f"out of date: {file}" for file in texts]
    assert reference.main([]) == 0
    assert texts == {file: (tmp_path / file).read_text(encoding="utf-8") for file in texts}


def written_defaults():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return flatten_dict(tomllib.loads(text)["tool"]["flwr"]["app"]["config"])


def test_pyproject_gives_every_key_with_the_default_and_type_of_its_card():
    expected = {key: config.default(name) for key, (config, name) in (GENERAL | OWN).items()}
    written = written_defaults()
    assert written == expected
    assert {key: type(value) for key, value in written.items()} == {key: type(v) for key, v in expected.items()}


@pytest.mark.parametrize("key", sorted(OWN))
def test_all_algorithms_that_read_a_setting_give_it_one_default_and_one_rule(key):
    config, name = OWN[key]
    assert {cards()[a].config.default(name) for a in READERS[key]} == {config.default(name)}
    rules = {cards()[a].config.rule(name) for a in READERS[key]}
    if key == "consensus":  # FedKT and PATE know some of FedCT's rules
        assert all({*rule.split(", ")} <= {*max(rules, key=len).split(", ")} for rule in rules)
    else:
        assert len(rules) == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_defaults_together_are_a_run_of_every_algorithm(algorithm):
    config = parse_run_config({**written_defaults(), "algorithm": algorithm})
    assert (config.card.name, config.own) == (algorithm, cards()[algorithm].config())
    assert config == parse_run_config({"algorithm": algorithm})


@pytest.mark.parametrize("path", SIMULATIONS, ids=lambda p: p.stem)
def test_a_published_simulation_is_a_valid_run_config(path):
    text = path.read_text(encoding="utf-8")
    settings = flatten_dict(tomllib.loads(text))
    if str(settings.get("partitioner")).startswith("file") and "paper.partition-path" not in settings:
        # whoever runs it has the published split at a place of their own: the file must say so
        assert "paper.partition-path" in text
        settings["paper.partition-path"] = "/somewhere"
    config = parse_run_config({**written_defaults(), **settings})  # as Flower fuses them
    assert path.stem.startswith(config.algorithm)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_config_survives_being_recorded_and_parsed_again(algorithm):
    config = parse_run_config({"algorithm": algorithm, "model": "mlp(hidden=[5])", "seed": 3})
    assert parse_run_config(config.as_scalars()) == config


def test_a_record_holds_what_the_run_reads_and_nothing_else():
    held = parse_run_config({**written_defaults(), "algorithm": "pate"}).as_scalars()
    assert {"noise", "paper.ties", "seed", "dataset"} <= set(held)
    assert set(held) == set(GENERAL) | {key for key in OWN if "pate" in READERS[key]}


@pytest.mark.parametrize(("settings", "rounds"), [({}, 5), ({"algorithm": "fedkt"}, 1), ({"num-rounds": 2}, 2)])
def test_without_a_number_of_rounds_each_algorithm_has_its_own(settings, rounds):
    assert parse_run_config(settings).rounds == rounds


UNREAD = [
    (algorithm, key)
    for key in sorted({**OWN, **SOME})
    for algorithm in ALGORITHMS
    if algorithm not in SOME.get(key, ())
]
UNREAD = [(algorithm, key) for algorithm, key in UNREAD if algorithm not in READERS.get(key, ())]
ALIKE = {
    **{(algorithm, "noise"): "score-noise" for algorithm in ("dd", "dsfl", "fedmd", "scarlet", "stacked")},
    ("fedct", "consensus"): "consensus",
    ("privatekt", "epsilon"): "privatekt.round-epsilon",
}
"""Where the algorithm has a setting whose name ends alike, it is named instead of other algorithms."""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_setting_that_the_algorithm_does_not_read_is_refused_by_name_with_those_that_do(algorithm):
    for key in (key for one, key in UNREAD if one == algorithm):
        value = other_value(*(OWN | GENERAL)[key])
        readers = " or ".join(sorted(SOME.get(key, ())) or READERS[key])
        with pytest.raises(ConfigError) as caught:
            parse_run_config({"algorithm": algorithm, key: value})
        rule = f"{key} must not be set for {algorithm}, got {value!r}."
        alike = ALIKE.get((algorithm, key))
        instead = f"; {algorithm} has {alike}" if alike else f", or use {readers}"
        assert str(caught.value) == f"{rule} It would be ignored: drop it{instead}."


def test_what_is_refused_above_covers_what_it_should():
    assert {"fedct.quorum", "fedkt.level", "answer-form", "noise", "teacher-model"} <= {k for _, k in UNREAD}
    assert len(UNREAD) > 350
    assert {algorithm for algorithm, _ in UNREAD} == set(ALGORITHMS)
    assert {key for key in GENERAL if any(k == key for _, k in UNREAD)} == set(SOME)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"algorithm": "pate", "consensus": "dawid-skene", "fedkt.level": "L1"},
            "fedkt.level must not be set for pate, got 'L1'. "
            "It would be ignored: drop it, or use fedkt or fedkt-prox.\n"
            "consensus must be one of auto, majority, median, mean, density-ratio, got 'dawid-skene'.",
        ),
        (
            {"partitioner": "iid", "dirichlet-alpha": 0.1},
            "dirichlet-alpha must keep its default (0.5) where partitioner is 'iid', got 0.1. "
            "It would be ignored: drop it, or set partitioner to 'auto' or 'dirichlet' or 'inner-dirichlet'.",
        ),
        (
            {"delta": 1e-6},
            "delta must keep its default in a run without noise, got 1e-06. "
            "It would be ignored: drop it, or choose a noise.",
        ),
        (
            {"algorithm": "fedkt", "server-epsilon-budget": 1.0},
            "server-epsilon-budget must be 0 in a run without noise at the server, got 1.0. "
            "It would be ignored: drop it, or choose a noise at the server.",
        ),
        (
            {"algorithm": "fedkt", "teacher-model": "knn(3)"},
            "teacher-model must be a name, or a name with parameters as Python writes them, got 'knn(3)'. "
            "Write for example: mlp(hidden=[64, 32], optimizer='sgd'), with text in quotes, True, False and None.",
        ),
    ],
)
def test_the_refusal_of_a_setting_that_nobody_reads_says_what_to_do(settings, message):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        parse_run_config(settings)


@pytest.mark.parametrize("value", [0, "", "0", 1])
def test_what_only_resembles_a_default_is_refused(value):
    with pytest.raises(ConfigError, match=r"paper.stop-when-converged must not be set for pate"):
        parse_run_config({"algorithm": "pate", "paper.stop-when-converged": value})


MINE = '''
from typing import ClassVar

from fedkd_flwr.algorithms.card import Card, setting
from fedkd_flwr.algorithms.exchange import TiesConfig


class Mine(TiesConfig):
    section: ClassVar[str] = "mine"
    step: float = setting(0.5, gt=0)
    """How far a step goes."""


CARD = Card(
    name="mine", title="Mine", paper="unpublished", config=Mine, strategy="mine:S", client="mine:C",
    sends="labels", default_rounds=3,
)
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    module = f"mine_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(MINE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return f"{module}:CARD"


def test_a_card_of_one_s_own_is_named_by_its_import_string_and_brings_its_settings(mine):
    config = parse_run_config({**written_defaults(), "algorithm": mine, "mine.step": 2, "paper.ties": "lowest"})
    assert (config.card.name, config.rounds, config.own.step, config.own.ties) == ("mine", 3, 2.0, "lowest")
    with pytest.raises(ConfigError, match=r"^mine.step must be a number > 0, got 0.0\.$"):
        parse_run_config({"algorithm": mine, "mine.step": 0.0})
    with pytest.raises(ConfigError, match=r"fedct\.quorum must not be set for mine, got 0.5"):
        parse_run_config({"algorithm": mine, "fedct.quorum": 0.5})
    with pytest.raises(ConfigError, match=r"mine\.step must be a known key"):  # where another algorithm runs
        parse_run_config({"mine.step": 2.0})


def test_the_reference_prints_the_lines_that_such_a_card_adds_to_a_pyproject(mine, reference, capsys):
    assert reference.main(["--card", mine]) == 0
    printed = tomllib.loads(capsys.readouterr().out)
    assert printed["tool"]["flwr"]["app"]["config"]["mine"] == {"step": 0.5}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fedsgd", "algorithm must be one of dd, .*fedct, .* or a card of your own as package.module:CARD, got"),
        (3, "algorithm must be one of dd, .*fedct, .*, got '3'"),
    ],
)
def test_what_is_no_algorithm_is_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        parse_run_config({"algorithm": name})


def test_a_whole_number_is_accepted_where_a_float_is_meant():
    config = parse_run_config({"consensus": "qualified-majority", "fedct.quorum": 1, "round-timeout-s": 60})
    assert (config.own.quorum, type(config.own.quorum), config.round_timeout_s) == (1.0, float, 60.0)
    node = parse_node_config({**SILO, "epsilon-budget": 4})
    assert (node.epsilon_budget, type(node.epsilon_budget)) == (4.0, float)


def test_infinity_is_a_budget_and_nothing_else():
    assert parse_node_config({**SILO, "epsilon-budget": float("inf")}).epsilon_budget == float("inf")
    with pytest.raises(ConfigError, match=r"^round-timeout-s must be a number > 0, got inf\.$"):
        parse_run_config({"round-timeout-s": float("inf")})


TABLE = {"dataset": "table", "tables": "/a,/b", "label": "y"}
QUORUM = {"consensus": "qualified-majority"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        # unknown
        ({"lable": "y"}, "run config key lable must be a known key, got 'y'. Did you mean label?"),
        ({"parties": "clinic"}, "key parties must be a known key, got 'clinic'. Did you mean partition-column?"),
        ({"parties": 5}, "key parties must be a known key, got 5. Did you mean num-parties?"),
        ({"num_rounds_": 2}, "run config key num_rounds_ must be a known key, got 2. Did you mean num-rounds?"),
        ({"quorum": 0.5}, "run config key quorum must be a known key, got 0.5. Did you mean fedct.quorum?"),
        ({"fedct.seed": 5}, "run config key fedct.seed must be a known key, got 5. Did you mean seed?"),
        ({"data-path": "x.csv"}, "got 'x.csv'. It is a party's own setting: give it in the node config."),
        ({"zzz": 1}, "run config key zzz must be a known key, got 1. Known keys: algorithm, answer-form, "),
        # of the wrong type
        ({"num-rounds": True}, "num-rounds must be auto, or a whole number >= 1 and <= 100000, got True."),
        ({"algorithm": "fedmd", "score-bits": True}, "score-bits must be one of 32, 16, 8, 4, 2, 1, got True."),
        # out of range
        ({"consensus": "loud"}, "be one of auto, majority, qualified-majority, median, mean, dawid-skene, density-"),
        ({**QUORUM, "fedct.quorum": float("nan")}, "fedct.quorum must be a number >= 0 and <= 1, got nan."),
        (
            {"partitioner": "dirichelt"},
            "partitioner must be one of auto, column, iid, dirichlet, inner-dirichlet, pathological, shard, "
            "size-skewed, file, got 'dirichelt'. Did you mean dirichlet?",
        ),
        (
            {"partitioner": "dirichlet(min_row=3)"},
            "must be min_rows or second_alpha or class_order, got 'min_row'. Did",
        ),
        ({"partitioner": "iid(min_rows=3)"}, "parameter of partitioner iid must not be given, got 'min_rows'. Drop"),
        ({"partitioner": "dirichlet(min_rows=3", "seed": 1}, "partitioner must be a name, or a name with parameters"),
        # impossible together
        ({"model": 0}, "model must be text, got 0"),
        ({"name": "../x"}, "name must be at most 100 letters, digits and . _ + = -, and start with"),
        ({"algorithm": "fedkt", "num-rounds": 3}, "num-rounds must be 1 for fedkt (one-shot), got 3. Drop it"),
        ({"num-parties": 2, "min-parties": 3}, "min-parties must be at most num-parties (2), got 3. Lower min-parties"),
        ({"dataset": "table"}, "table and label must be given with dataset \"table\", got table '', label ''. Name"),
        ({**TABLE, "table": "/a.csv"}, "table and tables must not be given together, got '/a,/b'. Each file of tables"),
        ({**TABLE, "partition-column": "h"}, "tables and partition-column must not be given together, got '/a,/b'."),
        ({"partitioner": "column"}, "partition-column must be given with partitioner \"column\", got ''. Name the"),
        ({**TABLE, "dirichlet-alpha": 0.1}, "dirichlet-alpha must not be set where rows have their own parties, got"),
        ({"partitioner": "file"}, 'paper.partition-path must be given with partitioner "file", got'),
    ],
)
def test_a_wrong_run_config_is_refused_with_its_key_the_rule_and_the_value(settings, message):
    with pytest.raises(ConfigError) as caught:
        parse_run_config(settings)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_several_mistakes_are_named_at_once():
    wrong = {"fedct.quorum": 2.0, "seed": -1, "min-parties": 0, "num_rounds": 3, "fedkt.level": "L2"}
    with pytest.raises(ConfigError) as caught:
        parse_run_config(wrong)
    named = [line.partition(" must ")[0] for line in str(caught.value).splitlines()]
    assert sorted(named) == ["fedct.quorum", "fedkt.level", "min-parties", "run config key num_rounds", "seed"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "data-path must be given in the node config, got ''. Give the node its settings: party="),
        ({**SILO, "public-path": ""}, "public-path must be given with data-path, got ''. Name this node's copy"),
        ({**SILO, "party": ""}, "party must be given with data-path, got ''. Give this silo a unique name"),
        ({**SILO, "data_pth": "x"}, "node config key data_pth must be a known key, got 'x'. Did you mean data-path?"),
        ({**SILO, "share-metrics": "acuracy"}, "share-metrics must be one of accuracy, baseline, "),
        ({**SILO, "epsilon-budget": float("nan")}, "epsilon-budget must be a number >= 0, got nan."),
        ({**SILO, "model": "knn(a=b)"}, "model must be a name, or a name with parameters as Python writes them, got"),
        ({"partition-id": "0", "num-partitions": 2}, "partition-id must be a whole number >= 0, got '0'."),
    ],
)
def test_a_wrong_node_config_is_refused_with_its_key_the_rule_and_the_value(settings, message):
    with pytest.raises(ConfigError) as caught:
        parse_node_config(settings)
    assert message in str(caught.value)
