"""The script ``benchmarks/sweep.py``, which produces the results that the sweep's page shows."""

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from sample_claims import SWEPT

from fedkd_flwr.algorithms import cards
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.settings.config import RunConfig, parse_run_config

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("sweep_script", BENCHMARKS / "sweep.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(BENCHMARKS))


def fake(config):
    """Stand in for a run: noisy where asked for, with an epsilon just below what was asked."""
    record = RunRecord(
        run_id="1", algorithm="fedkt", parties=[PartyRecord(name="a", solo={"common": Metrics(n=5, accuracy=0.6)})]
    )
    accuracy = 0.8 + config["seed"] / 100
    if "epsilon" in config:
        record.claims = [{**SWEPT, "epsilon": config["epsilon"] * 0.99}]
        record.claims.append({**SWEPT, "epsilon": 0.001, "publishable": False})
        accuracy -= 0.1 / config["epsilon"]
    record.server = {"common": Metrics(n=5, accuracy=accuracy)}
    return record


def swept(script, run=fake, **changes):
    settings = {"varied": "epsilon", "values": [1.0, 4.0], "seeds": [1, 2], **changes}
    return script.sweep("x", {"algorithm": "fedkt", "fedkt.level": "L1", "noise": "gaussian"}, run=run, **settings)


def test_epsilons_are_the_claims_not_the_ones_asked_for_nor_the_operators(script):
    found = swept(script)
    assert [p.epsilon for p in found.points] == [0.99, 3.96]
    assert [p.value for p in found.points] == [1.0, 4.0]
    assert found.points[1].accuracies == pytest.approx([0.785, 0.795])
    assert (found.without_noise, found.alone) == (pytest.approx([0.81, 0.82]), [0.6, 0.6])
    assert found.measure == "the server's model"
    assert found.seeds == [1, 2]


def test_the_runs_without_noise_keep_everything_else(script):
    asked = []

    def run(config):
        asked.append(config)
        return fake(config)

    swept(script, run=run, seeds=[3])
    counts = {"fedkt.students-per-party": 1, "fedkt.teachers-per-student": 5}
    assert asked[-1] == {"algorithm": "fedkt", "seed": 3, **counts}
    assert script.without_noise(
        {"algorithm": "pate", "noise": "laplace", "paper.noise-strength": 0.1, "model": "mlp"}
    ) == {
        "algorithm": "pate",
        "model": "mlp",
    }


NOISY = [
    {"algorithm": "pate", "noise": "gaussian", "epsilon": 2.0, "delta": 1e-6, "num-queries": 9, "learn-from": "counts"},
    {"algorithm": "pate", "noise": "confident-gaussian", "epsilon": 2.0, "threshold": 3.0},
    {
        "algorithm": "fedkt",
        "fedkt.level": "L1",
        "noise": "laplace",
        "paper.noise-strength": 0.1,
        "server-epsilon-budget": 3.0,
    },
    {
        "algorithm": "fedkt",
        "fedkt.level": "L2",
        "noise": "gaussian",
        "paper.noise-strength": 4.0,
        "fedkt.students-per-party": 2,
    },
    {"algorithm": "fedct", "label-mechanism": "xor", "epsilon": 5.0},
    {"algorithm": "fedct", "label-mechanism": "auto", "paper.noise-strength": 2.0},
    {"algorithm": "fedmd", "score-noise": "laplace", "paper.noise-strength": 1.0, "answer-form": "logits"},
    {"algorithm": "fedmd", "subset-rows": 20, "paper.subset-replacement": False, "delta": 1e-4},
    {"algorithm": "dd", "label-mechanism": "randomized-response", "epsilon": 4.0, "answer-form": "argmax"},
]


@pytest.mark.parametrize("config", NOISY)
def test_what_is_left_without_noise_can_run_and_claims_nothing(script, config):
    plain = script.without_noise({**config, "seed": 3})
    noisy, quiet = parse_run_config(config).own, parse_run_config(plain).own
    assert noisy.privacy != "none"
    assert (quiet.privacy, quiet.seed) == ("none", 3)
    if config["algorithm"] == "fedkt":
        assert (quiet.students, quiet.teachers) == (noisy.students, noisy.teachers)


def test_every_setting_that_adds_noise_is_known_to_it(script):
    # No setting of the noise may remain in a run that is drawn as "without noise".
    keys = {key for card in cards().values() for key in card.config.keys().values()} | set(RunConfig.keys().values())
    doubtful = re.compile(r"noise|threshold|epsilon|delta$|label-mech|sensitiv|calibration|level|release|quer")
    keys = {key for key in keys if doubtful.search(key)}
    assert {"fedkt.level", "paper.noise-strength", "epsilon", "label-mechanism"} <= keys
    # PrivateKT has no run without noise; drawn public rows are those of every run of a sweep
    assert keys - script.noise_keys() == {"privatekt.round-epsilon", "draw-public-epsilon"}
    others = {"seed", "model", "paper.ties", "consensus", "fedct.quorum", "answer-form", "score-bits"}
    assert not script.noise_keys() & others


def test_settings_are_read_by_the_keys_that_flower_gives_them(script, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('seed = 2\ndata-root = "/a"\n[fedkt]\nlevel = "L1"\n', encoding="utf-8")
    read = script.simulate.configuration(path, str(tmp_path), "", ['paper.ties="lowest"', "seed=3"])
    assert read == {"seed": 3, "data-root": str(tmp_path), "fedkt.level": "L1", "paper.ties": "lowest"}


def test_a_run_without_a_claim_or_an_accuracy_ends_the_sweep_and_names_itself(script):
    def silent(config):
        return dataclasses.replace(fake(config), claims=[])

    with pytest.raises(SystemExit, match=r"epsilon = 1.0, seed 1: .* a publishable claim with a finite epsilon"):
        swept(script, run=silent)

    def blind(config):
        return dataclasses.replace(fake(config), server={})

    with pytest.raises(SystemExit, match="the run has to make an accuracy"):
        swept(script, run=blind)
    with pytest.raises(SystemExit, match="claims privacy, so it is none"):
        swept(script, run=lambda config: fake({"epsilon": 1.0, **config}))

    def both(config):
        record = fake(config)
        record.claims.insert(0, {**SWEPT, "unit": "record", "adversary": "server", "epsilon": 0.5})
        return record

    assert swept(script, run=both, baseline=False).claim["unit"] == "record"
    assert swept(script, run=both, baseline=False, unit="party").points[0].epsilon == 0.99


def test_the_command_kept_with_the_results_names_no_folder_of_this_machine(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sweep.py", "x", "--data-root", "/home/ann/data", "--vary", "epsilon", "1"])
    assert script._command() == "python benchmarks/sweep.py x --data-root /path/to/data --vary epsilon 1"
