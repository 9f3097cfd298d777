"""What ``simulate`` and ``choose`` print, and their exit codes, without starting Flower."""

import io
import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from report.conftest import failed, sample

from fedkd_flwr.app.choose import candidates
from fedkd_flwr.app.progress import ProgressLine
from fedkd_flwr.cli import main as command
from fedkd_flwr.cli.simulate import Interrupts
from fedkd_flwr.errors import DataError
from fedkd_flwr.report import table
from fedkd_flwr.simulation import run as simulation


@pytest.fixture
def simulated(fedkd, monkeypatch, tmp_path):
    """Return a caller of ``fedkd simulate`` whose runs end with the given records, and the settings it ran."""
    ran, records = [], []

    def run(config, starter, show, *, processes, verbose):
        ran.append(config)
        show("round 1 of 3: 0 of 2 parties have answered")
        record = records.pop(0)
        (tmp_path / "record.json").write_text(record.to_json(), encoding="utf-8")
        return record, tmp_path

    monkeypatch.setattr(simulation, "in_processes", run)
    monkeypatch.setattr("fedkd_flwr.simulation.starter.party_starter", lambda values: None)

    def call(*words, ended):
        records[:] = ended
        return fedkd("simulate", "model=knn", "dataset=synthetic(rows=400)", *words)

    call.ran, call.folder = ran, tmp_path
    return call


def _done(seed, run_id):
    record = sample(3, 2)
    record.seed, record.run_id = seed, run_id
    return record


def test_a_run_that_completes_prints_its_table_and_where_its_files_are(simulated):
    done = simulated("--parties", "3", "--name", "x", ended=[_done(1, "100")])
    assert done.code == 0
    assert done.out.splitlines()[1].endswith("run 100: completed")
    assert done.out.endswith(f"\nrecord: {simulated.folder}/record.json\n")
    assert done.err.splitlines() == ["loading the data", "round 1 of 3: 0 of 2 parties have answered"]
    (config,) = simulated.ran
    assert (config.model, config.num_parties, config.name) == ("knn", 3, "x")


@pytest.mark.parametrize(("word", "told"), [("lable=outcome", "Did you mean "), ("table=nope.csv", "file must exist")])
def test_a_mistake_is_told_before_anything_is_imported_that_takes_seconds(word, told):
    called = f"from fedkd_flwr.cli.main import main; import sys; code = main(['simulate', 'label=x', {word!r}]); "
    called += "sys.exit(code if {'flwr', 'ray', 'sklearn', 'torch'}.isdisjoint(sys.modules) else 'imported')"
    done = subprocess.run([sys.executable, "-c", called], capture_output=True, text=True, check=False)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr


def test_several_seeds_end_with_their_means_what_some_warn_of_and_the_next_command(simulated, monkeypatch):
    runs = [_done(1, "100"), _done(2, "101")]
    monkeypatch.setattr(table, "warnings", lambda record: [("losers", f"{record.seed} of 4 lose.")])
    done = simulated("--seeds", "2", "--name", "x", "--parties", "2", ended=runs)
    assert done.code == 0
    assert [config.seed for config in simulated.ran] == [1, 2]
    assert "2 runs" in done.out
    assert "WARNING in 2 of 2 seeds (of seed 1): 1 of 4 lose.\n" in done.out
    assert done.out.endswith("fedkd compare x\n")


def test_json_is_the_line_of_the_list_with_warnings_and_paths(simulated):
    (run,) = json.loads(simulated("--json", "--quiet", ended=[_done(3, "100")]).out)["runs"]
    assert (run["run_id"], run["status"], run["seed"], run["report"]) == ("100", "completed", 3, "")
    assert run["record"] == str(simulated.folder / "record.json")
    assert isinstance(run["warnings"], list)


def test_a_failed_run_is_five_lines_at_most_and_code_1_and_no_later_seed_is_run(simulated):
    record = failed()
    record.reason = "many\nlines " * 200
    done = simulated("--quiet", "--seeds", "2", ended=[record, record])
    lines = done.err.splitlines()
    assert (done.code, done.out, len(simulated.ran)) == (1, "", 1)
    assert lines[0].startswith("error: the run failed: many lines")
    assert lines[1:] == [f"record: {simulated.folder}/record.json"]


def test_a_stopped_run_is_code_130(simulated):
    record = failed()
    record.status, record.reason = "stopped", "Ctrl-C"
    done = simulated(ended=[record])
    assert done.code == 130
    assert "The run was stopped: Ctrl-C" in done.err


@pytest.fixture
def foreground():
    """A shell that starts tests with & has them ignore Ctrl-C, as the command then does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize(
    ("number", "said", "stops"),
    [
        (signal.SIGINT, None, True),
        (signal.SIGTERM, None, True),
        (signal.SIGINT, "y\n", True),
        (signal.SIGINT, "\n", False),
    ],
)
def test_ctrl_c_asks_where_somebody_can_answer_and_other_signals_stop(monkeypatch, number, said, stops):
    answer = io.StringIO(said or "")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: said is not None, readline=answer.readline))
    before = signal.getsignal(number)
    line = ProgressLine(io.StringIO())
    with Interrupts(line) as interrupts:
        if stops:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        else:
            signal.raise_signal(number)
    assert line.held == (said == "y\n")  # parties that still answer do not write over the question
    assert (interrupts.terminated, signal.getsignal(number)) == (number == signal.SIGTERM, before)


@pytest.mark.usefixtures("foreground")
def test_a_second_ctrl_c_interrupts_the_question_and_means_yes(monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: signal.raise_signal(signal.SIGINT))
    )
    with Interrupts(ProgressLine(io.StringIO())), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


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
