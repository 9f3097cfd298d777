"""What a party says where probabilities are sent, and how often it computes it."""

from dataclasses import replace

import numpy as np
import pytest
from federation import model, parties, party, public_set, rows
from sklearn.linear_model import LogisticRegression
from visits import asked_more

from fedkd_flwr.labels.probabilities import Probabilities, home_labels, likelihood_steps
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.wire.label_codec import PublicSpec, decode_answer, digests

ALLOWED = frozenset({"fedct", "fedkt", "pate", "probabilities"})
SPEC = PublicSpec(num_public=60, num_classes=3, fingerprint=public_set().fingerprint)


def answer(name, member, **changes):
    payload, code, arrays = asked_more("probabilities", name, member, **changes)
    return payload, code, dict(zip(payload.split(","), arrays, strict=False))


def opened(arrays, num_arrays=1):
    at = {"public": SPEC, "server_round": 1, "base": {}, "num_arrays": num_arrays, "rule": Probabilities()}
    return decode_answer(arrays, **at)


def member(**changes):
    return party("a", *rows(40, seed=1), **{"allow": ALLOWED, **changes})


@pytest.mark.parametrize("name", ["fedct", "pate"])
def test_they_are_those_of_a_model_of_the_own_rows(name):
    own = member(model=lambda *, seed: Classifier(LogisticRegression(), num_classes=3))
    said, counts = opened(answer(name, own)[2]), np.bincount(own.y, minlength=3)
    assert said["class-counts"].tolist() == counts.tolist()
    probs = LogisticRegression().fit(own.X, own.y).predict_proba(own.public.X)
    wanted = likelihood_steps(probs, taught=(counts + 1) / (counts + 1).sum(), class_counts=counts)
    assert (said["probs"] == wanted).all()
    assert (said["labels"] == home_labels(wanted, counts)).all()


def test_what_a_model_says_that_weighs_its_classes_is_not_divided_by_their_shares():
    X, y = rows(40, seed=1)
    skewed = np.flatnonzero((y > 0) | (np.arange(len(y)) < 12))
    own = party(
        "a",
        X[skewed],
        y[skewed],
        allow=ALLOWED,
        model=lambda *, seed: Classifier(LogisticRegression(class_weight="balanced"), num_classes=3),
    )
    counts = np.bincount(own.y, minlength=3)
    probs = LogisticRegression(class_weight="balanced").fit(own.X, own.y).predict_proba(own.public.X)
    wanted = likelihood_steps(probs, taught=np.ones(3) / 3, class_counts=counts)
    assert (opened(answer("fedct", own)[2])["probs"] == wanted).all()


def test_students_of_fedkt_learn_their_teachers_probabilities():
    """Votes of five trees know six degrees; their leaves' shares more."""
    own = member(model=lambda *, seed: model(seed=seed, name="random-forest", n_estimators=5, max_depth=2))
    said = opened(answer("fedkt", own)[2], num_arrays=2)
    assert said["labels"].shape == (2, 60)
    assert len(np.unique(said["probs"])) > 6


def test_of_drawn_rows_fedkt_asks_one_model_of_all_own_rows_and_no_density_ratios_leave():
    public = public_set()
    public = replace(public, schema=replace(public.schema, class_shares=(0.2, 0.3, 0.5)))
    allow = ALLOWED | {"density-ratio"}
    own = member(model=lambda *, seed: Classifier(LogisticRegression(), num_classes=3), allow=allow, public=public)
    said = {name: opened(answer(name, own)[2], num_arrays=2 if name == "fedkt" else 1) for name in ("fedkt", "fedct")}
    assert (said["fedkt"]["probs"] == said["fedct"]["probs"]).all()
    assert all("ratios" not in one for one in said.values())


def test_models_that_are_fitted_anew_say_once_and_for_all_what_own_rows_taught_them(tmp_path):
    kept = parties(1, state=tmp_path, allow=ALLOWED | {"density-ratio"})[0]
    first = answer("fedct", kept)[2]
    held = opened(first)
    base = digests(held.values())
    again = answer("fedct", kept, **{"server-round": 2, "last-round": 1, "base": base})[2]
    assert again["probs"].nbytes < first["probs"].nbytes  # they name what the server holds
    said = decode_answer(again, public=SPEC, server_round=2, base=held, rule=Probabilities())
    assert all(np.array_equal(said[name], held[name]) for name in held)
