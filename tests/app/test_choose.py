"""The comparison of candidates: what it says of noise by hand, and one through whole runs."""

import copy
import os
from dataclasses import replace

import pytest

from fedkd_flwr.app import choose as module
from fedkd_flwr.app.choose import about_seconds, candidates, choose, kept_file
from fedkd_flwr.app.choose_text import ALONE, FIXED
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.settings.config import parse_run_config

SMALL = {"dataset": "synthetic(rows=300)", "num-parties": 2, "partitioner": "iid", "num-test": 60}
SMALL |= {"num-public": 60, "model": "decision-tree"}


@pytest.fixture(scope="module")
def records():
    return {}


@pytest.fixture(autouse=True)
def run_once(monkeypatch, records):
    """Run each candidate once for each seed, however many tests look at it."""
    real = module._run

    def run(config):
        key = config.model_dump_json()
        if key not in records:
            records[key] = real(config)
        return copy.deepcopy(records[key])

    monkeypatch.setattr(module, "_run", run)


@pytest.fixture(autouse=True)
def kept(monkeypatch, tmp_path):
    """Keep finished runs in a folder of this test alone."""
    monkeypatch.setattr(module, "output_root", lambda folder: tmp_path / "kept")
    return tmp_path / "kept" / "choose"


@pytest.mark.parametrize("failing", [1, 2])
def test_staying_alone_is_known_although_the_first_candidate_fails(monkeypatch, failing):
    real = module._run

    def run(config):
        if config.algorithm == "fedct" and config.seed == failing:
            raise RuntimeError("no memory")
        return real(config)

    monkeypatch.setattr(module, "_run", run)
    found = choose(SMALL, names=["fedct:majority", "fedkt:majority"], seeds=3)
    assert sorted(found.ranked) == [ALONE, "fedkt:majority"]
    assert f"fedct:majority is not ranked: failed, seed {failing}: no memory." in found.text()


def test_a_candidate_that_lost_a_party_is_not_ranked_by_the_mean_over_the_others(monkeypatch):
    real = module._run

    def run(config):
        record = real(config)
        if config.algorithm == "fedct" and config.seed == 2:
            record.parties[0].federated.clear()
            record.parties[1].solo.clear()
        return record

    monkeypatch.setattr(module, "_run", run)
    found = choose(SMALL, names=["fedct:majority", "fedkt:majority"], seeds=3)
    assert "fedct:majority is not ranked: seed 2: no figure of party-000." in found.text()
    assert sorted(found.ranked) == [ALONE, "fedkt:majority"]


@pytest.mark.parametrize("names", [["fedct:majority", "fedkt:majority"], ["fedkt:majority", "fedct:majority"]])
def test_all_are_measured_against_parties_that_are_alone_at_their_best_whoever_is_named_first(monkeypatch, names):
    """Nets alone are trained for as long as the federation, so they are not as good with each algorithm."""
    real = module._run

    def run(config):
        record = real(config)
        for party in record.parties:
            accuracy = (0.3 if config.algorithm == "fedct" else 0.6) + config.seed / 100
            party.solo["common"] = replace(party.solo["common"], accuracy=accuracy, balanced_accuracy=accuracy)
        return record

    monkeypatch.setattr(module, "_run", run)
    found = choose(SMALL, names=names, seeds=3)
    assert found.of(ALONE, "parties") == pytest.approx([0.61, 0.62, 0.63])


def test_dawid_skene_is_no_candidate_with_two_classes():
    assert "fedct:dawid-skene" in candidates(3)
    assert not [name for name in candidates(2) if "dawid-skene" in name]
    assert {name.partition(":")[0] for name in candidates(2)} == {"fedct", "fedkt", "pate"}


def test_whole_runs_are_compared_and_progress_is_told():
    told = []
    name = next(iter(candidates(3)))
    found = choose(SMALL, names=[name], seeds=2, progress=told.append)
    assert found.names == [ALONE, name]
    assert all(len(found.of(name, "parties")) == 2 for name in found.names)
    assert found.seeds == [1, 2]
    assert told[0].startswith("2 runs: about 1 min. Ctrl-C shows")
    assert len(told) == 3
    assert told[1].startswith(f"run 1 of 2: {name}, seed 1: done")


def test_what_is_known_is_shown_when_it_is_stopped_and_the_same_call_goes_on_there(monkeypatch, kept):
    real, ran, told = module._run, [], []

    def run(config):
        if len(ran) == 3:
            raise KeyboardInterrupt
        ran.append((config.algorithm, config.seed))
        return real(config)

    monkeypatch.setattr(module, "_run", run)
    asked = {"names": ["fedct:majority", "fedkt:majority"], "seeds": 2}
    found = choose(SMALL, **asked)
    assert ran == [("fedct", 1), ("fedkt", 1), ("fedct", 2)]
    assert (found.stopped, found.seeds, len(list(kept.iterdir()))) == ("3 of 4 runs", [1], 3)
    assert found.text().startswith("Stopped after 3 of 4 runs. The same command goes on there.\nAccuracy")
    ran.clear()
    whole = choose(SMALL, **asked, progress=told.append)
    assert told[0].startswith("4 runs, 3 of them done earlier: about 1 min.")
    assert (ran, whole.stopped, whole.seeds) == ([("fedkt", 2)], "", [1, 2])
    assert whole.of("fedct:majority")[0] == found.of("fedct:majority")[0]


def test_it_is_quick_unless_it_is_to_be_thorough(monkeypatch):
    asked = []

    def records(configs, progress):
        asked.append([*configs])
        return {}, {}, "0 runs"

    monkeypatch.setattr(module, "_records", records)
    for thorough in (False, True):
        with pytest.raises(KeyboardInterrupt):  # stopped before the first run
            choose(SMALL, thorough=thorough)
    assert asked[0] == [("fedct:auto", 1), ("fedkt:auto", 1)]
    assert len(asked[1]) == 5 * len(candidates(3))


def test_a_candidate_that_there_is_not_is_refused_before_the_first_run():
    with pytest.raises(ConfigError, match="candidate must be one of"):
        choose(SMALL, names=["fedct:magic"])


def test_what_one_fixed_answer_has_is_taken_from_the_test_rows_of_each_seed():
    found = choose(SMALL, names=["fedkt:majority"], seeds=2)
    assert found.test_rows == 60
    assert all(1 / 3 <= value < 0.6 for value in found.of(FIXED, "server"))
    balanced = choose(SMALL, names=["fedkt:majority"], seeds=2, figure="balanced_accuracy")
    assert balanced.of(FIXED) == pytest.approx([1 / 3, 1 / 3])


def test_an_epsilon_makes_candidates_that_claim_it_for_one_record():
    found = choose({**SMALL, "epsilon": 8.0, "dataset": "synthetic(rows=600)"})
    assert found.names == [ALONE, "noisy-sums", "fedkt:L2"]
    assert found.not_ranked == {}
    assert set(candidates(2, private=True)) == {"noisy-sums", "fedkt:L2"}
    with pytest.raises(ConfigError, match="candidate must be one of noisy-sums, fedkt:L2, got 'fedct:auto'"):
        choose({**SMALL, "epsilon": 8.0}, names=["fedct:auto"])


def test_a_finished_run_is_found_again_until_a_setting_or_a_file_of_its_rows_changes(tmp_path, kept):
    (tmp_path / "rows.csv").write_text("x,y\n1,a\n")
    table = {**SMALL, "dataset": "table", "table": str(tmp_path / "rows.csv"), "label": "y"}

    def file(**changes):
        return kept_file(parse_run_config({**table, "output-dir": str(tmp_path), **changes}))

    first = file()
    assert file() == first
    assert first.parent == kept
    assert file(seed=2) != first
    os.utime(tmp_path / "rows.csv", (1, 1))
    assert file() != first


def test_a_run_takes_longer_with_more_rounds_and_fedkt_with_more_teachers(monkeypatch):
    monkeypatch.setattr("time.monotonic", iter(range(99)).__next__)  # each fit takes a second
    fedct = [about_seconds(parse_run_config({**SMALL, "num-rounds": rounds})) for rounds in (1, 3)]
    fedkt = [
        about_seconds(parse_run_config({**SMALL, "algorithm": "fedkt", "fedkt.teachers-per-student": teachers}))
        for teachers in (2, 5)
    ]
    assert fedct == [8.0, 16.0]
    assert fedkt == [16.0, 28.0]
