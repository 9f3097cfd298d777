"""Run configs as people write them in a shell."""

from pathlib import Path

import pytest

from fedkd_flwr.algorithms import cards
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.settings.config import RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.settings.run_settings import read_settings, read_words


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder with a space and an umlaut, and a TOML file in another one."""
    folder = tmp_path / "meine Läufe"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "conf").mkdir()
    toml = 'dataset = "table"\ntable = "rows.csv"\nlabel = "y"\nseed = 4\n[fedct]\nquorum = 0.7\n'
    (tmp_path / "conf" / "run.toml").write_text(toml, encoding="utf-8")
    return folder


def test_a_file_and_words_go_together_and_what_stands_later_wins(here):
    found = read_settings(["../conf/run.toml", "fedct.quorum=0.8", "model=knn", "seed=5"], num_parties=3, name="x")
    assert found["fedct.quorum"] == 0.8
    assert (found["model"], found["seed"], found["num-parties"], found["name"]) == ("knn", 5, 3, "x")
    assert read_settings(["seed=5", "../conf/run.toml"])["seed"] == 5  # words change the file, wherever they stand


def test_paths_of_the_file_start_from_its_folder_and_others_from_the_current_one(here):
    found = read_settings(["../conf/run.toml", "output-dir=out", "schema-path=~/s.toml"])
    assert Path(found["table"]).resolve() == here.parent / "conf" / "rows.csv"
    assert found["output-dir"] == str(here / "out")
    assert found["schema-path"].startswith("/")
    assert "~" not in found["schema-path"]


def test_who_names_a_table_means_it(here):
    assert read_settings(["table=x.csv", "label=y"])["dataset"] == "table"
    assert read_settings(["table=x.csv", "dataset=digits"])["dataset"] == "digits"  # and is told that it is not read
    assert "dataset" not in read_settings(["model=knn"])


def test_files_of_parties_are_a_table_too_and_each_is_made_absolute(here):
    found = read_settings(["tables=a.csv, ~/b.csv,", "label=y"])
    assert found["dataset"] == "table"
    assert found["tables"] == f"{here / 'a.csv'},{Path('~/b.csv').expanduser()}"


def test_every_setting_whose_meaning_says_path_is_marked_as_one():
    said = {key for name, key in RunConfig.keys().items() if RunConfig.meaning(name).startswith("Absolute path")}
    assert said <= RunConfig.paths()
    assert {"table", "output-dir", "paper.partition-path", "data-root"} <= RunConfig.paths()
    assert not any(card.config.paths() for card in cards().values())


def test_values_of_text_settings_are_text_whatever_they_look_like():
    texts = {"label": "1", "name": "2024-05-01", "model": "a=b", "table": "true"}
    assert read_words([f"{key}={value}" for key, value in texts.items()]) == texts
    plain = {"centralised": False, "num-rounds": 3, "epsilon": 2.5, "fedkt.level": "L1"}
    assert read_words(["centralised=false", "num-rounds=3", "epsilon=2.5", "fedkt.level=L1"]) == plain


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["knn"], ConfigError, "each argument must be KEY=VALUE, or one FILE.toml, got 'knn'. Write for example"),
        (["a.toml", "b.toml"], ConfigError, "TOML file must be given once"),
        (["none.toml"], DataError, r"run configuration must be a readable file, got .*none.toml \(No such file"),
        (["broken.toml"], ConfigError, "broken.toml must be TOML in UTF-8"),
    ],
)
def test_what_cannot_be_read_is_said(here, words, error, message):
    (here / "broken.toml").write_text("model = knn\n", encoding="utf-8")
    with pytest.raises(error, match=message):
        read_settings(words)


@pytest.mark.parametrize("line", ['table = "C:\\Users\\anna\\t.csv"', 'table = "D:\\data\\x.csv"'])
def test_a_path_with_backslashes_in_quotes_is_answered_with_how_to_write_it(here, line):
    (here / "run.toml").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Write paths with / or in single quotes: table = 'C:\\Users"):
        read_settings(["run.toml"])
    (here / "run.toml").write_text(line.replace('"', "'") + "\n", encoding="utf-8")
    assert read_settings(["run.toml"])["table"].endswith(line.split('"')[1])


def test_a_word_stands_for_each_0_that_means_something_else_and_is_0_inside(tmp_path):
    (tmp_path / "run.toml").write_text('num-public = "auto"\nfedkt.students-per-party = "auto"\n', encoding="utf-8")
    words = ["algorithm=fedkt", "num-parties=auto", "epsilon=none", "server-epsilon-budget=none"]
    read = read_settings([str(tmp_path / "run.toml"), *words])
    assert [read[key] for key in ("num-public", "fedkt.students-per-party", "num-parties", "epsilon")] == [0] * 4
    for settings in (read, {"algorithm": "fedkt", "num-parties": "auto", "epsilon": "none"}):
        assert parse_run_config(settings) == parse_run_config({"algorithm": "fedkt"})
    with pytest.raises(ConfigError, match="num-parties must be auto, or a whole number >= 1, got 'none'"):
        parse_run_config({"num-parties": "none"})
    node = {"memory-limit-gb": "auto", "round-limit-s": "none", "partition-id": 0, "num-partitions": 1}
    assert (parse_node_config(node).memory_limit_gb, parse_node_config(node).round_limit_s) == (0.0, 0.0)


def test_the_word_for_0_of_a_setting_that_only_other_algorithms_have_is_refused_as_any_other_value():
    with pytest.raises(ConfigError, match="public-rows-per-round must not be set for fedct, got 'auto'"):
        parse_run_config(read_settings(["public-rows-per-round=auto"]))
    config = parse_run_config(read_settings(["public-rows-per-round=auto", "algorithm=fedmd", "epsilon=none"]))
    assert (config.own.public_rows_per_round, config.own.epsilon) == (0, 0)
