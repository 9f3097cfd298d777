"""Labels for raw rows by a run's models: which files are meant, and what is answered; tests/cli has what is refused."""

import numpy as np
import pandas as pd
from cli.saved_models import home

from fedkd_flwr.app.predict import find_models, notes, predictions, read_class_shares
from fedkd_flwr.stores.saved_model import load

__all__ = ["home"]

ROWS = pd.DataFrame({"number": ["007", "008"], "age": [20, 70], "job": ["smith", "clerk"], "shoe": [40, 41]})


def test_a_run_s_models_are_the_server_s_or_else_those_of_its_parties_with_the_federation(home):
    names = {run: [path.name for path in find_models(run, home)] for run in ("71", "72")}
    assert names == {"71": ["model.fedkd"], "72": ["a.model", "b.model"]}
    (of_b,) = find_models("72", home, party="b")
    assert find_models(str(of_b)) == [of_b]


def test_several_models_answer_by_the_mean_of_their_probabilities(home):
    models = [load(path) for path in find_models("72", home)]
    both = predictions(models, ROWS)
    mean = np.mean([one.predict_proba(ROWS) for one in models], axis=0)
    assert np.allclose(both[["probability_low", "probability_high"]], mean)
    assert both["number"].tolist() == ["007", "008"]
    assert list(predictions(models, ROWS, probabilities=False)) == ["number", "prediction"]


def test_columns_that_no_model_reads_are_named(home):
    model = load(find_models("71", home)[0])
    assert notes(model, ROWS) == ["not used: shoe"]
    assert notes(model, ROWS, id_column="shoe") == ["not used: number"]


def test_class_shares_are_a_word_or_a_number_for_each_class():
    assert read_class_shares("own") == "own"
    assert read_class_shares("ill=1, well=9") == {"ill": 1.0, "well": 9.0}
