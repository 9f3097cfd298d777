"""Benchmark tables: what they declare can be run, what is done is not run again, and what is missing is said."""

import dataclasses
import json
import re
import sys

import pytest

from benchmarks.harness.results import figure_of
from benchmarks.harness.runs import Bench, published_runs, write_results
from benchmarks.harness.tables import FRESH, ROOT, Job, Row, Table, load_tables, plan, seeds_note
from fedkd_flwr.settings.config import parse_run_config

TABLES = load_tables([], ROOT)


@pytest.fixture(scope="module")
def records():
    from report.conftest import sample

    return {seed: sample(3, 2) for seed in range(FRESH, FRESH + 3)}


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    """Pictures take most of the time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def ran(monkeypatch, records):
    """Return the list of (algorithm, seed) that were simulated; seed 13 fails."""
    done = []

    def simulate(self, settings, show):
        done.append((settings["algorithm"], settings["seed"]))
        show("round 1")
        failed = {"status": "failed", "reason": "too few\nparties"}
        return dataclasses.replace(records[FRESH], **(failed if settings["seed"] == 13 else {}))

    monkeypatch.setattr(Bench, "_simulate", simulate)
    return done


def _table(*rows, figures=("federated",), **more):
    return Table(name="t", title="T", source="nobody", figures=list(figures), row=list(rows), **more)


def _row(name="a", **settings):
    return Row(name=name, set={"algorithm": "fedct", **settings}, minutes=1)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_row_is_a_valid_run_and_has_figures_that_there_are(table, records):
    for job in plan(table, ROOT, seeds=1, data_root="/data"):
        parse_run_config({"num-parties": 10, **job.settings})
    for row in table.row:
        assert row.deviations.keys() <= row.printed.keys()
        assert bool(row.deviations) == bool(row.trials)
        for figure in table.shown(row):
            figure_of(records[FRESH], figure)


def test_the_quick_rows_of_all_tables_take_a_quarter_of_an_hour_at_most():
    jobs = [job for table in TABLES for job in plan(table, ROOT, quick=True)]
    assert 0 < sum(job.row.minutes for job in jobs) <= 15
    assert any(job.settings["dataset"] == "digits" for job in jobs)


def test_equal_settings_share_a_run_wherever_the_data_lie():
    mine, other = (Job(row=_row(), seed=1, settings={"algorithm": "fedct", "data-root": at, "seed": 1}) for at in "ab")
    assert mine.key == other.key
    assert mine.key != Job(row=_row(), seed=2, settings={"algorithm": "fedct", "seed": 2}).key
    assert mine.key != Job(row=_row(), seed=1, settings={"algorithm": "fedkt", "seed": 1}).key
    by_name = {(t.name, job.row.name): job.key for t in TABLES for job in plan(t, ROOT, seeds=1)}
    assert by_name["fedkt-1", "MNIST"] == by_name["fedkt-6", "MNIST, s = 2"] == by_name["fedkt-7", "MNIST, t = 5"]


def test_seeds_are_fresh_unless_asked_otherwise_and_varied_values_come_in_turn():
    row = Row(name="a", run="fedkt-adult", vary={"partitioner": ["file", "file(index=4)"]}, minutes=1)
    jobs = plan(_table(row, seeds=3), ROOT)
    assert [(job.seed, job.settings["partitioner"]) for job in jobs] == [
        (FRESH, "file"),
        (FRESH + 1, "file(index=4)"),
        (FRESH + 2, "file"),
    ]
    assert "may have been chosen" in seeds_note([1, 2])
    table = _table(_row(), Row(name="long", run="fedct-digits-iid-auto", minutes=20, seeds=1), seeds=2)
    assert [(job.row.name, job.seed - FRESH) for job in plan(table, ROOT)] == [("a", 0), ("a", 1), ("long", 0)]
    assert len(plan(table, ROOT, seeds=3)) == 6


def test_what_is_done_is_not_run_again_and_more_seeds_add_to_it(tmp_path, ran):
    table = _table(_row(), _row("the same"))
    work = Bench(tmp_path)
    work.run(plan(table, ROOT, seeds=2), lambda text: None)
    assert ran == [("fedct", FRESH), ("fedct", FRESH + 1)]
    Bench(tmp_path).run(plan(table, ROOT, seeds=3), lambda text: None)
    assert ran[2:] == [("fedct", FRESH + 2)]


def test_a_published_table_is_added_to_without_its_records_and_says_which_seeds_it_had(tmp_path, ran):
    table, lines = _table(_row(), _row("the same"), _row("b", model="knn")), lambda text: None
    jobs = plan(table, ROOT, seeds=2)[:4]  # two rows that share their runs
    first = Bench(tmp_path / "lost")
    first.run(jobs, lines)
    write_results(table, jobs, first, tmp_path)
    assert len(ran) == 2
    jobs = plan(table, ROOT, seeds=3)
    work = Bench(tmp_path / "new", published=published_runs(tmp_path))
    work.run(jobs, lines)
    assert ran[2:] == [("fedct", FRESH + 2), *[("fedct", FRESH + i) for i in range(3)]]
    found = write_results(table, jobs, work, tmp_path / "new")
    assert found.taken == {"a": [FRESH, FRESH + 1], "the same": [FRESH, FRESH + 1]}
    assert [line.n for line in found.lines] == [3, 3, 3]
    assert "- run before, with the code of that time: seeds 1001, 1002 of a; the same" in found.markdown()
    # what was added can be added to again
    again = Bench(tmp_path / "newer", published=published_runs(tmp_path / "new"))
    assert not again.missing(jobs)
    write_results(table, jobs, again, tmp_path / "newest")  # into a new folder, where nothing has to be run
    assert (tmp_path / "newest" / f"{table.name}.md").is_file()
    # a figure that the published table does not show is not made up: the run is run
    asks_more = _table(_row(), figures=["federated", "solo"])
    assert len(again.missing(plan(asks_more, ROOT, seeds=2))) == 2
    # nor is a run with other settings taken
    assert len(again.missing(plan(_table(_row(model="mlp")), ROOT, seeds=2))) == 2


def test_every_run_of_the_tables_on_record_can_be_added_to():
    """Were a setting changed and its table not run again, the table would show figures of another run."""
    published = published_runs(ROOT / "benchmarks" / "results" / "bench")
    for table in TABLES:
        path = ROOT / "benchmarks" / "results" / "bench" / f"{table.name}.json"
        if path.is_file():
            kept = json.loads(path.read_text())
            keys = {job.key for job in plan(table, ROOT, seeds=len(kept["seeds"]), first_seed=kept["seeds"][0])}
            told = {key for seeds in kept["runs"].values() for key in seeds.values()}
            assert told, table.name
            assert told <= keys & published.keys(), table.name


def test_a_row_that_fails_is_named_and_the_others_go_on(tmp_path, ran):
    table = _table(_row(), _row("b", model="knn"))
    jobs = plan(table, ROOT, seeds=3, first_seed=12)
    work, said = Bench(tmp_path), []
    work.run(jobs, said.append)
    assert [seed for _, seed in ran] == [12, 13, 12, 13]
    found = write_results(table, jobs, work, tmp_path)
    assert found.missing["a, seed 13"] == "too few parties"
    assert "earlier seed" in found.missing["b, seed 14"]
    assert "run 4 of 6 (b, seed 12), about" in "".join(said)
    kept = json.loads((tmp_path / "t.json").read_text())
    assert kept["lines"][0]["n"] == 1
    assert kept["missing"].keys() == found.missing.keys()
    # a table of which --row ran a part does not look whole
    found = write_results(table, [job for job in jobs if job.row.name == "a"], work, tmp_path)
    assert found.missing == {
        "a, seed 13": "too few parties",
        "a, seed 14": found.missing["a, seed 14"],
        "b": "not run yet",
    }
    page = (tmp_path / "t.md").read_text()
    assert "t.svg" not in page  # without matplotlib there is no picture
    assert "may have been chosen" in page


def test_every_row_on_record_that_is_worse_than_the_print_says_why():
    kept = [json.loads(path.read_text()) for path in (ROOT / "benchmarks" / "results" / "bench").glob("*.json")]
    rows = {(table.name, row.name): row.note for table in TABLES for row in table.row}
    worse = {(one["name"], line["row"]) for one in kept for line in one["lines"] if line["verdict"] == "worse"}
    assert worse
    assert not [where for where in worse if "worse" not in rows[where]]


def test_means_beside_their_deviations_in_the_published_experiments_are_those_on_record_rounded_once():
    """A figure rounded from a rounded one may be off by a unit, and one of older runs is no figure of its table."""
    folder = ROOT / "benchmarks" / "results" / "bench"
    lines = [line for path in folder.glob("*.json") for line in json.loads(path.read_text())["lines"] if line["n"] > 1]
    text = (ROOT / "simulations" / "README.md").read_text(encoding="utf-8")
    said = re.findall(r"(0\.\d{3,4})\**(?: \((?:deviation )?(0\.\d{3,4})[);])", text)
    assert said
    known = {
        (f"{line['mean']:.{digits}f}", f"{line['spread']:.{others}f}")
        for line in lines
        for digits in (3, 4)
        for others in (3, 4)
    }
    assert not [pair for pair in said if pair not in known]


def test_two_rows_beside_one_printed_figure_count_its_deviation_alike():
    """Else the error of one difference leaves out what the paper's trials add."""
    alike = 0
    for table in TABLES:
        rows = {row.name: row for row in table.row}
        assert all(row.trials > 1 for row in table.row if row.deviations), table.name
        for row in (row for row in table.row if row.against):
            other = rows[row.against]
            for figure in row.printed.keys() & other.printed.keys():
                if row.printed[figure] == other.printed[figure]:
                    alike += 1
                    assert (row.deviations.get(figure), row.trials) == (other.deviations.get(figure), other.trials)
    assert alike
