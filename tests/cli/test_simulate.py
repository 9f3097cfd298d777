"""What ``simulate`` and ``choose`` print, and their exit codes, without starting Flower."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedkd_flwr.app.choose import candidates
from fedkd_flwr.cli import main as command
from fedkd_flwr.cli.main import main
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.simulation import watch
from fedkd_flwr.simulation.watch import Ended


@pytest.fixture
def fedkd(monkeypatch, capsys):
    """Return a caller of the command, whose simulations end as it is told: ``(exit code, stdout, stderr)``."""

    class Fake:
        ended: tuple[Ended, ...] = ()
        given: tuple = ()

        def begin(self, runs, *, processes):
            Fake.given = (runs, processes)

        def watch(self, show, *, may_stop, print_log):
            show("round 1 of 3: 0 of 2 parties have answered")
            if Fake.ended == ("interrupt",):
                may_stop()
                return [Ended(run_id="7", status="stopped", reason="by its user", record="/r.json")]
            return list(Fake.ended)

        def end(self):
            pass

    monkeypatch.setattr(watch, "Simulation", Fake)

    def call(*words, ended=()):
        Fake.ended = tuple(ended)
        with pytest.raises(SystemExit) as caught:
            main(list(words))
        out, err = capsys.readouterr()
        return caught.value.code, out, err

    call.fake = Fake
    return call


def _done(seed, accuracy):
    figures = {"federated-common": accuracy}
    return Ended(run_id=f"{seed}", seed=seed, status="completed", figures=figures, table="(table)", record=f"/{seed}")


def test_a_run_that_completes_prints_its_table_and_where_its_files_are(fedkd):
    code, out, err = fedkd("simulate", "model=knn", "--parties", "3", "--name", "x", ended=[_done(1, 0.9)])
    assert (code, out) == (0, "(table)\nrecord: /1\n")
    assert err == "round 1 of 3: 0 of 2 parties have answered\n"
    ((run,), processes) = fedkd.fake.given
    assert run["config"] == {"model": "knn", "num-parties": 3, "name": "x"}
    assert processes == 0


def test_several_seeds_end_with_mean_and_deviation_and_the_next_command(fedkd):
    code, out, _ = fedkd("simulate", "--seeds", "2", "--name", "x", ended=[_done(1, 0.8), _done(2, 0.9)])
    assert code == 0
    assert "federated-common: mean 0.8500, deviation 0.0707 over 2 seeds" in out
    assert "fedkd compare x" in out


def test_several_seeds_say_once_what_was_done_to_the_columns_and_which_figure_they_print(fedkd):
    runs = [_done(1, 0.8), _done(2, 0.9)]
    for one in runs:
        one.columns, one.balanced = "(columns)", {"federated-common": one.figures["federated-common"] - 0.2}
    _, out, _ = fedkd("simulate", "--seeds", "2", ended=runs)
    assert out.count("(columns)") == 1
    assert "balanced accuracy by model and test rows, of parties" in out
    assert "seed 1  federated-common 0.600" in out
    runs[1].balanced = {}  # a figure is compared with the same figure
    assert "\naccuracy by model and test rows, of parties" in fedkd("simulate", "--seeds", "2", ended=runs)[1]


def test_several_seeds_warn_of_useless_models_and_name_n_and_a_fixed_answer_because_a_mean_alone_hides_them(fedkd):
    runs = [_done(seed, 0.936) for seed in (1, 2, 3)]
    for one, useless in zip(runs, (4, 3, 0), strict=True):
        one.n, one.baseline = {"common": 500, "own": 160 + useless}, {"common": 0.936, "own": 0.9 + useless / 100}
        one.baseline["own, together"] = 0.6
        if useless:
            said = f"{useless} of 4 models: "
            one.warnings = [("useless", f"{said}useless."), ("missed", f"{said}no row of class '1' is found.")]
        one.notes = [("converged", "converged.")]
    _, out, _ = fedkd("simulate", "--seeds", "3", ended=runs)
    assert "\nWARNING in 2 of 3 seeds (of seed 1): 4 of 4 models: useless.\n" in f"\n{out}"
    assert "WARNING in 2 of 3 seeds (of seed 1): 4 of 4 models: no row of class '1' is found.\n" in out
    assert "note in 3 of 3 seeds: converged.\n" in out
    assert "the mean; test rows: 500 common (one fixed answer 0.936), 160 to 164 own (one fixed answer 0.923 as" in out
    # models of the server and of all rows pooled are measured on all own rows together
    assert "as the mean over parties, 0.600 for server and centralised: all these rows):" in out
    for one in runs:
        one.balanced, one.balanced_baseline = {"federated-common": 0.5}, {"common": 0.5, "own": 0.75}
    out = fedkd("simulate", "--seeds", "3", ended=runs)[1]
    assert "test rows: 500 common (one fixed answer 0.500), 160 to 164 own (one fixed answer 0.750):" in out


def test_json_holds_the_warnings_and_what_a_fixed_answer_reaches_and_each_key_is_documented(fedkd):
    one = _done(1, 0.936)
    one.warnings, one.notes = [("useless", "useless.")], [("converged", "converged.")]
    one.n, one.baseline = {"common": 500}, {"common": 0.936}
    (run,) = json.loads(fedkd("simulate", "--json", ended=[one])[1])["runs"]
    assert [run[key] for key in ("warnings", "notes", "n", "baseline")] == [
        [["useless", "useless."]], [["converged", "converged."]], {"common": 500}, {"common": 0.936},
    ]  # fmt: skip
    page = (Path(__file__).parents[2] / "docs" / "reference" / "record.md").read_text(encoding="utf-8")
    assert all(f"`{key}`" in page for key in run)


def test_a_failed_run_is_five_lines_at_most_and_code_1(fedkd):
    failed = Ended(run_id="7", status="failed", reason="many\nlines " * 200, record="/r", report="/p", log="/l")
    code, out, err = fedkd("simulate", ended=[failed])
    lines = err.splitlines()[1:]  # after the progress
    assert (code, out, len(lines)) == (1, "", 4)
    assert lines[0].startswith("error: the run failed: many lines")
    assert lines[1:] == ["record: /r", "report: /p", "log: /l"]


def test_a_stopped_run_is_code_130(fedkd):
    code, _, err = fedkd("simulate", ended=["interrupt"])
    assert code == 130
    assert "The run was stopped: by its user" in err


def test_json_is_all_that_stands_on_stdout(fedkd):
    code, out, _ = fedkd("simulate", "--json", ended=[_done(1, 0.9)])
    assert code == 0
    assert json.loads(out)["runs"][0]["figures"] == {"federated-common": 0.9}
    assert "table" not in json.loads(out)["runs"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["simulate", "modl=knn"], "Did you mean model?"),
        (["simulate", "fedct.quorum=0,8"], "fedct.quorum must be a number"),
        (["simulate", "none.toml"], "none.toml"),
        (["simulate", "--parties", "0"], "--parties"),
        (["server", "run", "model=knn"], "public-path must be given to a run at real silos"),
        (["dev", "net", "1"], "SILOS"),
    ],
)
def test_what_is_wrong_is_said_in_a_few_lines_with_code_2(fedkd, words, message):
    code, out, err = fedkd(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) <= 5
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "fedkd choose must be told which rows, got neither table nor dataset. Write table=FILE"),
        (["dataset=digits", "--for", "me"], "--for must be one of parties, home, server, got 'me'"),
        (["dataset=digits", "--by", "luck"], "--by must be one of accuracy, balanced-accuracy, got 'luck'"),
        (["dataset=digits", "a"], "must be KEY=VALUE, or one FILE.toml, got 'a'"),
    ],
)
def test_the_command_says_what_is_wrong(words, error):
    found = CliRunner().invoke(command.group(), ["choose", *words])
    assert isinstance(found.exception, ConfigError)
    assert error in str(found.exception)


def test_the_command_compares_a_table(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where finished runs are kept
    rows = [f"P{i},{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}" for i in range(200)]
    (tmp_path / "rows.csv").write_text("PatNr,a,b,outcome\n" + "\n".join(rows), encoding="utf-8")
    words = [f"table={tmp_path / 'rows.csv'}", "label=outcome", "--parties", "2", "id-column=PatNr", "drop=b"]
    name = next(iter(candidates(2)))
    found = CliRunner().invoke(
        command.group(), ["choose", *words, "model=decision-tree", "dirichlet-alpha=100", "--candidate", name]
    )
    assert found.exception is None, found.exception
    assert name in found.output
    assert "One or two seeds say nothing about noise" in found.output


def test_the_next_command_that_an_error_ends_with_is_one_of_choose(tmp_path):
    (tmp_path / "rows.csv").write_text("day,y\n" + "".join(f"0{i}/04/2021,{'ab'[i % 2]}\n" for i in range(1, 9)))
    found = CliRunner().invoke(command.group(), ["choose", f"table={tmp_path / 'rows.csv'}", "label=y"])
    assert isinstance(found.exception, DataError)
    assert "fedkd choose dataset=table" in str(found.exception).splitlines()[-1]
