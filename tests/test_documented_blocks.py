"""Every block of README, docs and examples: Python is run, here or in a test named below; a shell's lines are parsed.

What a line sets is a setting that there is. What cannot be parsed here is named below, with the reason.
"""

import re
import shlex
import tomllib
import warnings
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pandas as pd
import pytest
import typer
from click.testing import CliRunner
from flwr.common.config import flatten_dict, fuse_dicts, parse_config_args

import fedkd_flwr as fk
from fedkd_flwr.cli.main import group
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.models import make_model
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.settings.run_settings import read_settings
from fedkd_flwr.stores.saved_model import save

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "simulations" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]
OURS = [page for page in PAGES if "examples" not in page.parts]  # examples have settings of their own
BLOCKS = [
    (page.relative_to(ROOT).as_posix(), kind, re.sub(f"^{indent}", "", text, flags=re.MULTILINE))
    for page in PAGES
    for indent, kind, text in re.findall(
        r"^( *)```(\w*)\n(.*?)^\1```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
]
RUN_ELSEWHERE = {
    "README.md": "api/test_python_page.py",
    "docs/howto/flower-project.md": "app/test_plug_in.py",
    "docs/howto/python.md": "api/test_python_page.py",
    "docs/howto/your-algorithm.md": "app/test_your_algorithm.py",
    "docs/howto/your-model.md": "app/test_own_models.py",
}
HERE = {
    "docs/howto/export.md": "use",
    "docs/howto/numbers.md": "numbers",
    "docs/howto/predict.md": "use",
    "docs/howto/resume.md": "resume",
    "docs/howto/track.md": "track",
    "docs/reference/record.md": "record",
}
NOT_RUN = {
    "pip": "installs",
    "pytest": "is this",
    "python3": "makes an environment",
    ".": "enters it",
    "mutmut": "takes minutes, and is no dependency",
    "mkdocs": "builds the site, in CI",
    "cat": "a shell's own",
    "cp": "a shell's own",
    "ssh": "no Python",
    "printf": "a shell's own",
    "openssl": "no Python",
    "docker": "no Python; test_deploy_files reads what its files run",
    "ray": "Ray's",
    "export": "a shell's own",
    "cd": "a shell's own",
    "ssh-keygen": "no Python",
    "nginx": "no Python",
    "flower-superlink": "Flower's: its parser is imported with its whole server, which takes seconds",
}


def _lines(kind, text):
    """Return the commands of a block as words; a quoted text may go over lines, and a console shows answers, too."""
    lines = iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        if kind == "console" and not line.startswith("$ "):
            continue
        line = re.sub(r"(^|\s)#\s.*", "", line.removeprefix("$ "))
        while line.count("'") % 2:
            line += f" {next(lines).strip()}"
        words = shlex.split(line.replace("<run-id>", "123").replace("<id>", "123"), comments=True)
        while words:
            end = next((i for i, word in enumerate(words) if word in ("&&", "|")), len(words))
            if command := _command(words[:end]):
                yield command
            piped = words[end : end + 1] == ["|"] and words[end + 1] != "fedkd"
            words = [] if piped else words[end + 1 :]


def _command(words):
    """Return a command without variables before it, and without what goes into files."""
    words = words[: min(words.index(sign) if sign in words else len(words) for sign in (">", "<"))]
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0], re.DOTALL):
        del words[0]
    return words


COMMANDS = [
    pytest.param(words, id=f"{page}: {' '.join(words)[:60]}")
    for page, kind, text in BLOCKS
    if kind in ("bash", "sh", "console")
    for words in _lines(kind, text)
]


def _click(command, words):
    """Parse a command line as the command itself does, without running it."""
    while isinstance(command, click.Group):
        named = command.get_command(None, words[0])
        assert named, f"no subcommand {words[0]}"
        command, words = named, words[1:]
    command.make_context(command.name, list(words))


@cache
def _program(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Flower uses what typer will remove
        if name == "fedkd":
            return group()
        from flwr.cli.app import app

        return typer.main.get_command(app)


@pytest.mark.parametrize("words", COMMANDS)
def test_a_documented_command_is_one_that_there_is(words):
    program, *rest = words
    if program in ("fedkd", "flwr"):
        _click(_program(program), rest)
    elif program == "python":
        if rest[0] == "-m":  # a package of this checkout
            rest = [f"{rest[1].replace('.', '/')}/__main__.py", *rest[2:]]
        text = (ROOT / rest[0]).read_text(encoding="utf-8")
        # typer makes ``--seeds`` of a parameter ``seeds``
        assert all(f'"{word}"' in text or f"{word[2:]}: Annotated" in text for word in rest[1:] if word[:2] == "--")
    else:
        assert program in NOT_RUN, f"say in NOT_RUN why {program} is not parsed"


@pytest.mark.parametrize(
    "line",
    [
        "fedkd simulate --partys 3",
        "fedkd simulat",
        "fedkd node rum",
        "flwr run . --strem",
        "python docs/reference.py --chek",
    ],
)
def test_a_wrong_one_would_be_noticed(line):
    with pytest.raises((click.ClickException, AssertionError)):
        test_a_documented_command_is_one_that_there_is(line.split())


def test_every_kind_of_block_is_known_and_pages_with_python_have_a_test():
    assert {kind for _, kind, _ in BLOCKS} <= {"bash", "sh", "console", "python", "toml", "text", "diff", ""}
    assert len(COMMANDS) >= 120
    here = {name.split("_of_")[1] for name in globals() if name.startswith("test_python_of_")}
    pages = {page for page, kind, _ in BLOCKS if kind == "python"}
    assert here == set(HERE.values())
    assert pages == RUN_ELSEWHERE.keys() | HERE.keys()
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (ROOT / "tests" / test).read_text(encoding="utf-8")


def _python(page):
    (text,) = (text for name, kind, text in BLOCKS if HERE.get(name) == page and kind == "python")
    return compile(text, page, "exec")


@pytest.fixture
def public():
    from fedkd_flwr.data.datasets import load_pool

    return load_pool("digits", seed=1).public


def test_python_of_numbers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    names, quicker = {}, {"centralised": False, "model": "random-forest(n_estimators=10)"}
    monkeypatch.setattr(fk, "simulate", partial(fk.simulate, **quicker))
    exec(_python("numbers"), names)
    assert names["result"].record.server["common"].r2 > 0.7
    assert "rmse" in capsys.readouterr().out


def test_python_of_record(tmp_path, monkeypatch):
    from report.conftest import sample

    monkeypatch.chdir(tmp_path)
    Path("record.json").write_text(sample(3, 2).to_json(), encoding="utf-8")
    names = {}
    exec(_python("record"), names)
    assert "federated_common_accuracy" in names["record"].to_frame("parties").columns


def test_python_of_track(tmp_path, monkeypatch, public):
    monkeypatch.chdir(tmp_path)
    names = {"public": public}
    exec(_python("track"), names)
    names["strategy"].on_round(names["strategy"].record)
    assert RunRecord.load("runs/1/record.json").algorithm == "fedct"


def test_python_of_resume(tmp_path, public):
    from fedkd_flwr.strategies import FedCT

    context = SimpleNamespace(run_id=7)
    names = {"FedCT": FedCT, "RunRecord": RunRecord, "public": public, "context": context}
    exec(_python("resume"), names | {"folder": tmp_path, "lost": "6"})


# ------------------------------------------------------------------------------------------ what is set

DEFAULTS = flatten_dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"])


def _found(pattern):
    return [
        pytest.param(text, id=f"{page.name}-{number}")
        for page in OURS
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


@pytest.mark.parametrize("page", OURS, ids=lambda page: page.name)
def test_a_setting_of_one_algorithm_is_mentioned_with_its_section(page):
    # a name that also stands at the top may be mentioned without a section: `consensus` of FedKT and PATE
    names = {key.partition(".")[2] for key in DEFAULTS if "." in key} - DEFAULTS.keys()
    mentioned = set(re.findall(r"`([a-z-]+)(?==|`)", page.read_text(encoding="utf-8")))
    assert {"quorum", "level"} <= names
    assert not mentioned & names


# -------------------------------------------------------------------------------------- predict, export

USE = [(kind, text) for page in ("predict", "export") for name, kind, text in BLOCKS if name == f"docs/howto/{page}.md"]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Be in a folder of results with one run, whose server has a model of patients."""
    columns = (
        Column(name="age", kind="numeric"),
        Column(name="ward", kind="categorical", categories=("north", "west")),
    )
    schema = Schema(columns=columns, classes=("ill", "well"))
    rows = pd.DataFrame({"patient": range(8), "ward": ["west", "north"] * 4, "age": [20, 30, 40, 50, 60, 70, 80, 90]})
    public = make_public_set(rows, schema)
    model = make_model("decision-tree", num_classes=2, num_features=3, seed=0).fit(public.X, np.arange(8) // 4)
    save(model, public, tmp_path / "runs" / "1" / "model.fedkd")
    record = RunRecord(run_id="1", algorithm="fedkt", started="2026-01-31T09:30:00+00:00")
    (tmp_path / "runs" / "1" / "record.json").write_text(record.to_json())
    rows.to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _typed(line):
    """Run one line of a shell as far as these pages use it: a pipe from a file, and output into a file."""
    line, _, target = line.partition(" > ")
    source, pipe, line = line.rpartition(" | ")
    text = Path(shlex.split(source)[1]).read_text() if pipe else None
    name, *arguments = shlex.split(line)
    assert name == "fedkd"
    done = CliRunner().invoke(group(), [*arguments, "--output-dir", "."], input=text)
    assert done.exit_code == 0, (line, done.exception)
    if target:
        Path(target).write_text(done.stdout)
    return done.stdout


def test_python_of_use(results, capsys):
    """Every block of predict.md and export.md, in their order."""
    assert [kind for kind, _ in USE] == ["bash", "bash", "python", "bash", "python"]
    for kind, text in USE:
        if kind == "bash":
            said = [_typed(line) for line in text.strip().splitlines()]
            assert all(said) or "--output" in text
        else:
            exec(compile(text, "docs/howto", "exec"), {})
            assert "'ill'" in capsys.readouterr().out
    out = pd.read_csv("out.csv")
    assert out["prediction"].tolist() == ["ill"] * 4 + ["well"] * 4
    assert {"probability_ill", "probability_well"} <= set(out.columns)
