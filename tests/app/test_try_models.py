"""Users' own models are tried before round 1: faulty ones are named with file and line, none hangs."""

import re
from pathlib import Path

import pytest

from fedkd_flwr.app.try_models import try_final_model, try_models
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.models.given import name_of
from fedkd_flwr.report.sentences import note_sentence
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.rows import simulated_pool

FAST = {
    "dataset": "synthetic(rows=200, features=4, classes=2)",
    "partitioner": "iid",
    "num-parties": 2,
    "nodes-stable-s": 0.001,
    "num-public": 40,
    "num-test": 40,
}


@pytest.fixture(autouse=True, scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent)
        yield


FAULTS = {
    "Raises": r"ValueError: no luck \(faulty_models\.py, line \d+, in fit\)",
    "Short": r"must have shape \(24,\), got \(23,\)\. Short\.predict \(faulty_models\.py, line \d+\) returned them",
    "Hangs": r"must end within 1\.5 s \(time for a fit of 24 rows\)",
    "Unpicklable": r"Unpicklable\.__init__ \(faulty_models\.py, line \d+\) makes must be copied .*lock",
    "Dies": r"ended without an answer",
}


SURPRISES = {
    "Random": r"Random\.predict \(faulty_models\.py, line \d+\) gives the same rows other labels each time",
    "Uneven": r"Uneven\.predict_proba \(faulty_models\.py, line \d+\): 24 of 24 rows .* do not sum to 1",
    "Mutates": None,  # it gets copies
}


def _config(name, **settings):
    return parse_run_config({**FAST, "algorithm": "fedct", "model": f"faulty_models:{name}", **settings})


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_model_is_named_with_file_and_line_before_round_1(name, monkeypatch):
    if name == "Hangs":
        monkeypatch.setattr("fedkd_flwr.app.try_models._SECONDS", 1.5)
    with pytest.raises(ConfigError, match=f"model faulty_models:{name} .*{FAULTS[name]}"):
        try_models(_config(name), 2)


def test_a_faulty_object_is_named_too_without_a_process_of_its_own(monkeypatch):
    import faulty_models

    monkeypatch.setattr("fedkd_flwr.app.try_models.can_have_child", lambda: False)
    for model in (faulty_models.Raises, faulty_models.Raises()):
        config = _config("Raises").model_copy(update={"model": name_of(model)})
        with pytest.raises(ConfigError, match=rf"^model Raises failed .*no column has a name\): {FAULTS['Raises']}"):
            try_models(config, 2)


@pytest.mark.parametrize("name", SURPRISES)
def test_a_model_that_works_oddly_is_noted(name):
    notes = try_models(_config(name), 2)
    assert len(notes) == (SURPRISES[name] is not None)
    assert all(re.search(SURPRISES[name], note_sentence(note)) for note in notes)


def test_a_real_server_tries_its_own_model_on_public_rows_before_round_1():
    config = _config("Short", algorithm="fedkt", **{"final-model": "faulty_models:Raises"})
    public = simulated_pool(config).public
    with pytest.raises(ConfigError, match=f"model faulty_models:Raises .*{FAULTS['Raises']}"):
        try_final_model(config, public)
    assert try_final_model(_config("Raises", algorithm="fedkt", **{"final-model": "knn"}), public) == []
    assert try_final_model(_config("Raises"), public) == []  # of FedCT the server trains none
