"""Numbers and grades through the Python door, and a federation as one regressor of scikit-learn."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_regressor
from sklearn.metrics import mean_absolute_error, root_mean_squared_error
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

import fedkd_flwr as fk
from fedkd_flwr import FederatedClassifier, FederatedRegressor
from fedkd_flwr.errors import ConfigError, DataError

RNG = np.random.default_rng(5)
ROWS = pd.DataFrame({"a": RNG.uniform(0, 10, 400), "b": RNG.uniform(0, 10, 400)})
ROWS["price"] = 100 * ROWS.a + 20 * ROWS.b + RNG.normal(0, 20, 400)
TEST = ROWS[:100]
FEW = {"students_per_party": 1, "teachers_per_student": 2, "paper.party-models": False}
FAST = FederatedRegressor(DecisionTreeRegressor(max_depth=5), n_parties=2, settings=FEW, random_state=0)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return a run of three parties whose label is a number."""
    return fk.simulate(
        ROWS[100:], label="price", parties=3, test=TEST, target="number(bins=12, unit='EUR')",
        model=DecisionTreeRegressor(max_depth=6, random_state=0), algorithm="pate", progress=False,
        output_dir=tmp_path_factory.mktemp("runs"),
    )  # fmt: skip


def test_answers_are_numbers_and_the_record_s_errors_are_theirs(done):
    answers = done.predict(TEST)
    measured = done.record.server["common"]
    assert answers.dtype == np.float64
    assert measured.rmse == pytest.approx(root_mean_squared_error(TEST.price, answers))
    assert measured.mae == pytest.approx(mean_absolute_error(TEST.price, answers))
    assert measured.r2 == pytest.approx(done.model().score(TEST, TEST.price))
    assert measured.r2 > 0.85
    assert done.record.consensus_rule == "density-ratio"  # the parties hold other numbers
    assert is_regressor(done.model())


def test_a_party_s_errors_are_of_the_true_numbers_not_of_the_bins(done):
    of_party = done.record.parties[0].federated["common"]
    answers = done.predict(TEST, party=done.record.parties[0].name, class_shares="common")
    assert of_party.rmse == pytest.approx(root_mean_squared_error(TEST.price, answers))


def test_at_home_a_party_s_regressor_answers_for_rows_like_its_own(tmp_path):
    dear = ROWS.assign(price=ROWS.price + 600 * (ROWS.index % 2), town=np.where(ROWS.index % 2, "dear", "cheap"))
    federation = {"label": "price", "parties": "town", "target": "number", "model": DecisionTreeRegressor(max_depth=6)}
    done = fk.simulate(dear[100:], **federation, algorithm="pate", progress=False, output_dir=tmp_path)
    rows = dear[:100].drop(columns=["price", "town"])
    own, common = (done.predict(rows, party="dear", class_shares=whose).mean() for whose in ("own", "common"))
    assert own > common + 100
    assert done.predict(rows, party="dear").mean() == own
    with pytest.raises(DataError, match=r"got a model without them, without probabilities, of numbers"):
        done.predict(rows, party="dear", class_shares=dict.fromkeys(done.record.classes, 1))


def test_page_table_and_summary_show_errors_and_no_accuracy(done, tmp_path):
    from fedkd_flwr.report.table import summary_table

    page = done.save_page(tmp_path / "page.html").read_text()
    for words in ("RMSE alone", "MAE with the federation", "R2", "What is predicted, and what is true"):
        assert words in page
    table = summary_table(done.record)
    assert "RMSE with" in table
    assert "commonest class" not in table
    assert "R2" in repr(done) or "r2" in repr(done)
    assert done.models[["rmse", "mae", "r2"]].notna().all(axis=None)


def test_the_command_writes_numbers_also_of_several_models_together(done):
    from fedkd_flwr.app.predict import predictions

    one, two = (done.model(party.name) for party in done.record.parties[:2])
    both = predictions([one, two], TEST)
    assert both["prediction"].to_numpy() == pytest.approx((one.predict(TEST) + two.predict(TEST)) / 2)
    assert predictions([one], TEST, probabilities=False)["prediction"].tolist() == one.predict(TEST).tolist()
    with pytest.raises(ValueError, match="column 'price' must hold numbers"):
        predictions([one], TEST.assign(price="dear"))


def test_grades_are_answered_by_the_middle_grade_and_measured_by_their_distance(tmp_path):
    rows = ROWS.drop(columns="price").assign(grade=np.digitize(ROWS.price, [300, 600, 900]) + 3)
    found = fk.simulate(
        rows[100:], label="grade", parties=3, test=rows[:100], target="grades", algorithm="pate", progress=False,
        model="decision-tree", output_dir=tmp_path, centralised=False,
    )  # fmt: skip
    answers = found.predict(rows[:100])
    assert set(answers) <= {3, 4, 5, 6}
    assert found.record.server["common"].mae == pytest.approx(mean_absolute_error(rows[:100].grade, answers))
    assert found.record.consensus_rule == "density-ratio"
    assert found.model().score(rows[:100], rows[:100].grade) == (answers == rows[:100].grade).mean()


def test_a_run_with_noise_needs_bounds_that_are_public(tmp_path):
    noisy = {"algorithm": "pate", "noise": "gaussian", "epsilon": 5.0, "parties": 3, "output_dir": tmp_path}
    with pytest.raises(ConfigError, match="target must have edges with noise"):
        fk.simulate(ROWS, label="price", target="number", **noisy)
    with pytest.raises(ConfigError, match="must be auto with noise at the server, got 'median'"):
        fk.simulate(ROWS, label="price", target="number(edges=[0, 500, 1300])", consensus="median", **noisy)


@pytest.mark.parametrize(("y", "words"), [(["a"] * 300, "y must hold numbers"), ([1.0] * 300, "two different numbers")])
def test_what_is_no_number_to_estimate_is_refused(y, words):
    with pytest.raises(ValueError, match=words):
        clone(FAST).fit(ROWS[["a", "b"]].to_numpy()[100:], np.array(y))


@pytest.mark.slow
def test_scikit_learn_s_own_checks_of_a_regressor_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data made to be difficult
        done = {_name(check) for _, check in estimator_checks_generator(FederatedClassifier())}
        for estimator, check in estimator_checks_generator(FAST):
            if _name(check) not in done:  # as of a classifier, which has the same base
                check(estimator)


def _name(check):
    return check.func.__name__
