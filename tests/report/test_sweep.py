import dataclasses
import importlib.util
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from pages import check_safe_and_alone, texts

from fedkd_flwr.errors import DataError
from fedkd_flwr.report import accuracy_against_epsilon, write_sweep_page
from fedkd_flwr.report.__main__ import main
from fedkd_flwr.report.sweep import Point, Sweep
from fedkd_flwr.run_record import PartyRecord, RunRecord

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CLAIM = {
    "unit": "party",
    "adversary": "everyone who sees the result",
    "epsilon": 1.0,
    "delta": 1e-5,
    "neighbouring relation": "replace one party",
    "publishable": True,
    "basis": "proven",
    "mechanism": "noise of the first point",
}


def made(**changes):
    settings = {
        "name": "fedkt-adult",
        "varied": "epsilon",
        "measure": "the server's model",
        "claim": dict(CLAIM),
        "seeds": [1, 2, 3],
        "points": [
            Point(value=e, epsilon=e, accuracies=[a - 0.02, a, a + 0.03])
            for e, a in ((8.0, 0.81), (1.0, 0.71), (2.0, 0.76))
        ],
        "without_noise": [0.82, 0.83, 0.84],
        "alone": [0.66, 0.67, 0.68],
        "command": "python benchmarks/sweep.py <b>",
    }
    return Sweep(**settings | changes)


# ------------------------------------------------------------------------------------------------- the picture


def test_the_picture_says_whom_its_epsilons_are_about():
    shown = " ".join(texts(accuracy_against_epsilon(made()).svg))
    assert "epsilon of one party against all but the server, delta 1e-05 (replace one party; proven)" in shown
    assert {"1", "2", "8"} <= set(shown.split())
    assert "without noise 0.830" in shown
    assert "a party alone (SOLO) 0.670" in shown


def test_the_title_goes_from_the_least_epsilon_to_the_largest():
    plot = accuracy_against_epsilon(made())
    assert plot.title == "The server's model: 0.713 at epsilon 1, 0.813 at 8, 0.830 without noise"
    assert "NOT proven" in accuracy_against_epsilon(made(claim={**CLAIM, "basis": "assumed sensitivity"})).title


def test_epsilons_too_close_to_be_written_beside_each_other_are_left_out_of_the_axis():
    points = [Point(value=e, epsilon=e, accuracies=[0.5]) for e in (1.0, 1.001, 10.0)]
    shown = texts(accuracy_against_epsilon(made(points=points)).svg)
    assert shown.count("1") == 1
    assert "10" in shown


def test_one_point_and_no_lines_are_drawn_too():
    plot = accuracy_against_epsilon(made(points=made().points[:1], without_noise=[], alone=[]))
    ET.fromstring(plot.svg)  # well formed
    shown = texts(plot.svg)
    assert "8" in shown
    assert not [text for text in shown if "without noise" in text or "SOLO" in text]


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG")])
def test_it_is_drawn_to_a_file_as_well(tmp_path, name, start):
    accuracy_against_epsilon(made(), picture=tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


# ---------------------------------------------------------------------------------------------- file and page


def test_a_sweep_reads_back_as_it_was(tmp_path):
    (tmp_path / "s.json").write_text(made().to_json())
    assert Sweep.load(tmp_path / "s.json") == made()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": []}, "points must hold at least one point"),
        ({"points": [{"value": 1, "epsilon": None, "accuracies": [0.5]}]}, "epsilon of a point must be finite and > 0"),
        ({"points": [{"value": 1, "epsilon": 0.0, "accuracies": [0.5]}]}, "epsilon of a point must be finite and > 0"),
        ({"points": [{"value": 1, "epsilon": True, "accuracies": [0.5]}]}, "epsilon of a point must be finite and > 0"),
        ({"points": [{"value": 1, "epsilon": 1.0, "accuracies": []}]}, "accuracies of a point must hold"),
        ({"points": [{"value": 1, "epsilon": 1.0, "accuracies": 0.5}]}, "accuracies of a point must be a list"),
        ({"points": [{"epsilon": 1.0}]}, "a point must have value, epsilon and accuracies"),
        ({"alone": [1.5]}, r"accuracy must be within \[0, 1\], got 1.5"),
        ({"without_noise": [None]}, r"accuracy must be within \[0, 1\], got None"),
        ({"claim": "none"}, "sweep: claim must be a dict"),
        ({"colour": 1}, "sweep must be an object with the fields"),
    ],
)
def test_a_file_that_is_not_the_results_of_a_sweep_is_refused(changes, message):
    with pytest.raises(DataError, match=message):
        Sweep.from_dict(json.loads(made().to_json()) | changes)


@pytest.mark.parametrize("text", ["", "[", '"text"', "[1]"])
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(DataError, match="sweep must be"):
        Sweep.load(tmp_path / "s.json")


def test_the_page_has_the_picture_each_epsilon_and_the_claim(tmp_path):
    page = check_safe_and_alone(write_sweep_page(made(), tmp_path / "s.html").read_text(encoding="utf-8"))
    assert page.tags.count("svg") == 1
    assert "epsilon = 8.0 8 0.813 0.790 0.840 3" in page.text
    assert "without noise no bound 0.830 0.820 0.840 3" in page.text
    assert "The server itself sees labels without noise" in page.text
    assert "All runs of the sweep together cost more" in page.text
    assert "noise of the first point" not in page.text  # it is another at the other points
    assert "<b>" in page.text  # the command, as text


def test_a_claim_that_is_not_proven_is_a_warning_on_the_page(tmp_path):
    sweep = made(claim={**CLAIM, "basis": "assumed sensitivity"})
    assert 'class="bad">NOT PROVEN' in write_sweep_page(sweep, tmp_path / "s.html").read_text(encoding="utf-8")
    assert "NOT PROVEN" not in write_sweep_page(made(), tmp_path / "s.html").read_text(encoding="utf-8")


def test_without_matplotlib_the_page_has_its_table(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = check_safe_and_alone(write_sweep_page(made(), tmp_path / "s.html").read_text(encoding="utf-8"))
    assert 'pip install "fedkd-flwr[report]"' in page.text
    assert "epsilon = 8.0" in page.text


def test_the_command_writes_the_page_beside_the_results(tmp_path, capsys):
    (tmp_path / "s.json").write_text(made().to_json())
    assert main(["sweep", str(tmp_path / "s.json")]) == 0
    assert capsys.readouterr().out.strip() == str((tmp_path / "s.html").resolve())
    assert main(["sweep", str(tmp_path / "none.json")]) == 2
    assert "sweep must be a readable JSON file" in capsys.readouterr().err


# -------------------------------------------------------------------------------------------------- the script


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
    record = RunRecord(run_id="1", algorithm="fedkt", parties=[PartyRecord(name="a", solo={"common": 0.6})])
    record.server_accuracy = 0.8 + config["seed"] / 100
    if "epsilon" in config:
        record.claims = [{**CLAIM, "epsilon": config["epsilon"] * 0.99}]
        record.claims.append({**CLAIM, "epsilon": 0.001, "publishable": False})
        record.server_accuracy -= 0.1 / config["epsilon"]
    return record


def swept(script, run=fake, **changes):
    settings = {"varied": "epsilon", "values": [1.0, 4.0], "seeds": [1, 2], **changes}
    return script.sweep("x", {"algorithm": "fedkt", "level": "L1", "noise": "gaussian"}, run=run, **settings)


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
    assert asked[-1] == {"algorithm": "fedkt", "seed": 3, "students-per-party": 1, "teachers-per-student": 5}
    assert script.without_noise({"algorithm": "pate", "noise": "laplace", "gamma": 0.1, "model": "mlp"}) == {
        "algorithm": "pate",
        "model": "mlp",
    }


def test_every_setting_that_adds_noise_is_known_to_it(script):
    # a setting that promises something must not survive into a run that is drawn as "without noise"
    from fedkd_flwr.apps.config import RunConfig

    doubtful = re.compile(r"noise|gamma|sigma|threshold|epsilon|label_mech|sensitiv|calibration|level|release|queries")
    keys = {name.replace("_", "-") for name in RunConfig.model_fields if doubtful.search(name)}
    assert {"level", "gamma", "epsilon", "label-mechanism"} <= keys
    assert keys <= set(script._NOISE), keys - set(script._NOISE)


def test_the_unit_can_be_chosen(script):
    def run(config):
        record = fake(config)
        record.claims.insert(0, {**CLAIM, "unit": "record", "adversary": "server", "epsilon": 0.5})
        return record

    assert swept(script, run=run, baseline=False).claim["unit"] == "record"
    assert swept(script, run=run, baseline=False, unit="party").points[0].epsilon == 0.99


def test_a_run_without_a_claim_or_an_accuracy_ends_the_sweep_and_names_itself(script):
    def silent(config):
        return dataclasses.replace(fake(config), claims=[])

    with pytest.raises(SystemExit, match=r"epsilon = 1.0, seed 1: .* a publishable claim with a finite epsilon"):
        swept(script, run=silent)

    def blind(config):
        return dataclasses.replace(fake(config), server_accuracy=None)

    with pytest.raises(SystemExit, match="the run has to make an accuracy"):
        swept(script, run=blind)


def test_a_run_that_stays_private_is_not_drawn_as_one_without_noise(script):
    with pytest.raises(SystemExit, match="claims privacy, so it is none"):
        swept(script, run=lambda config: fake({"epsilon": 1.0, **config}))


def test_the_command_kept_with_the_results_names_no_folder_of_this_machine(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sweep.py", "x", "--data-root", "/home/ann/data", "--vary", "epsilon", "1"])
    assert script._command() == "python benchmarks/sweep.py x --data-root /path/to/data --vary epsilon 1"
