"""What README and docs tell people to type: each run config in them is one that runs."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from flwr.common.config import flatten_dict, fuse_dicts, parse_config_args

from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.settings.run_settings import read_settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "simulations" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DEFAULTS = flatten_dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"])


def _found(pattern):
    return [
        pytest.param(text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, text in enumerate(re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL), 1)
    ]


PAIRS = _found(r"--run-config '([^']+)'")
FILES = _found(r"(?:--run-config|fedkd simulate) (simulations/[a-z\d-]+\.toml)")
WORDS = _found(r"fedkd (?:simulate|run) ((?:[^\n`#\\]|\\\n)+)")
TABLES = [
    block
    for block in _found(r"```toml\n(.*?)```")
    if re.search("^algorithm = ", block.values[0], re.MULTILINE) and "[project]" not in block.values[0]
]


@pytest.mark.parametrize("text", PAIRS)
def test_a_documented_run_config_is_valid(text):
    parse_run_config(fuse_dicts(DEFAULTS, parse_config_args([text])))


@pytest.mark.parametrize("text", TABLES)
def test_a_documented_toml_file_is_a_valid_run_config(text):
    settings = flatten_dict(tomllib.loads(text))
    ours = {key: value for key, value in settings.items() if not key.startswith("file.")}  # keys for `fedkd file`
    parse_run_config(fuse_dicts(DEFAULTS, ours))


@pytest.mark.parametrize("text", WORDS)
def test_documented_words_are_a_valid_run_config(text):
    words = [word for word in shlex.split(text.replace("\\\n", " ")) if "=" in word and not word.startswith("-")]
    parse_run_config(fuse_dicts(DEFAULTS, read_settings(words)))


@pytest.mark.parametrize("name", FILES)
def test_a_documented_run_config_file_is_there(name):
    assert (ROOT / name).is_file()


def test_what_is_documented_was_found():
    assert len(PAIRS) >= 2
    assert len(WORDS) >= 25
    assert FILES
    assert TABLES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_setting_of_one_algorithm_is_mentioned_with_its_section(page):
    # a name that also stands at the top may be mentioned without a section: `consensus` of FedKT and PATE
    names = {key.partition(".")[2] for key in DEFAULTS if "." in key} - DEFAULTS.keys()
    mentioned = set(re.findall(r"`([a-z-]+)(?==|`)", page.read_text(encoding="utf-8")))
    assert {"quorum", "level"} <= names
    assert not mentioned & names
