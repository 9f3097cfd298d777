"""FedXGB-Bagging: the arithmetic of XGBoost itself, and of Flower's own strategy."""

from dataclasses import replace

import numpy as np
import pytest
from federation import SCHEMA, as_they_are, model, party, rows
from flwr.serverapp.strategy.strategy_utils import aggregate_bagging
from rounds import TEST, TREES, members, run

from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.stores.party_state import PartyState

xgb = pytest.importorskip("xgboost")
ALLOW = frozenset({"fedxgb-bagging"})


def margins(trees_of, X):
    """Add up what XGBoost says of rows, without its base score."""
    rows_ = xgb.DMatrix(X, base_margin=np.zeros(3 * len(X)))
    return sum(booster.predict(rows_, output_margin=True) for booster in trees_of)


def _sent(grid):
    """Return the trees of the first replies, by party."""
    return [{k: a.numpy() for k, a in reply.content["arrays"].items()} for reply in grid.replies[:3]]


def test_two_rounds_are_steps_of_xgboost_from_the_common_margins():
    held = members(algorithm="fedxgb-bagging")
    strategy, _ = run("fedxgb-bagging", rounds=2, held=held)
    boosters = []
    for server_round in (1, 2):
        new = []
        for one in held:
            seed = derive_seed(derive_seed(1, one.name), "train", server_round)
            params = TREES["fedxgb-bagging"](seed=seed).template.get_xgb_params()
            params = {k: v for k, v in params.items() if v is not None}
            params |= {"objective": "multi:softprob", "num_class": 3, "base_score": 0.5}
            base = margins(boosters, one.X) / len(held) if boosters else np.zeros((len(one.y), 3))
            new.append(xgb.train(params, xgb.DMatrix(one.X, one.y, base_margin=base), num_boost_round=1))
        boosters += new
    wanted = margins(boosters, TEST[0]) / len(held)
    probs = np.exp(wanted) / np.exp(wanted).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(strategy.model.predict_proba(TEST[0]), probs, atol=1e-5)
    found = strategy.record.server["common"]
    assert found == strategy.model.metrics(*TEST)
    assert [r.server_accuracy for r in strategy.record.rounds][-1] == found.accuracy


def two_classes():
    schema = type(SCHEMA)(columns=SCHEMA.columns, classes=("red", "green"))
    X, y = rows(60, seed=99, classes=(0, 1))
    return PublicSet(X=X, fingerprint="ab" * 32, schema=schema, preprocessor=as_they_are(schema), y=y)


def binary_model(*, seed):
    return type(model(seed=0))(model(seed=seed, name="xgboost", max_depth=3).template, num_classes=2)


def test_the_sum_is_what_flower_s_own_strategy_puts_together():
    public, held = two_classes(), []
    for i, classes in enumerate([(0, 1), (0, 1), (1,)]):
        X, y = rows(40, seed=i, classes=classes)
        held.append(party(f"party-{i}", X, y, public=public, model=binary_model, tests={}, allow=ALLOW))
    test = rows(80, seed=8, classes=(0, 1))
    strategy, _ = run("fedxgb-bagging", rounds=3, held=held, public=public, test=test, leaves="sum")
    common = b""
    for server_round in range(3):  # as Flower's example does, with one base score for all
        replies = []
        for one in held:
            params = {k: v for k, v in binary_model(seed=1).template.get_xgb_params().items() if v is not None}
            rows_ = xgb.DMatrix(one.X, one.y)
            if server_round == 0:
                booster = xgb.train({**params, "base_score": 0.5}, rows_, num_boost_round=1)
            else:
                booster = xgb.Booster(params)
                booster.load_model(bytearray(common))
                booster.update(rows_, booster.num_boosted_rounds())
                booster = booster[booster.num_boosted_rounds() - 1 : booster.num_boosted_rounds()]
            replies.append(bytes(booster.save_raw("json")))
        for reply in replies:
            common = aggregate_bagging(common, reply)
    flowers = xgb.Booster()
    flowers.load_model(bytearray(common))
    np.testing.assert_allclose(
        strategy.model.predict_proba(test[0])[:, 1], flowers.predict(xgb.DMatrix(test[0])), atol=1e-5
    )


def test_what_a_party_keeps_of_earlier_rounds_changes_nothing(tmp_path):
    held = members(algorithm="fedxgb-bagging")
    kept = [replace(one, state=PartyState(tmp_path, run_id="1", party=one.name)) for one in held]
    with_state, _ = run("fedxgb-bagging", rounds=3, held=kept)
    without, _ = run("fedxgb-bagging", rounds=3)
    np.testing.assert_allclose(with_state.model.predict_proba(TEST[0]), without.model.predict_proba(TEST[0]), atol=1e-6)


def test_parties_get_the_model_and_splits_and_leaves_alone_leave():
    strategy, grid = run("fedxgb-bagging", rounds=2)
    assert all(list(one) == ["sizes", "columns", "thresholds", "left", "right", "values"] for one in _sent(grid))
    found = strategy.record.party("party-000").federated["common"]
    assert found.accuracy == pytest.approx(strategy.exchange.model.metrics(*rows(50, seed=7)).accuracy)
    assert "trees-left" in [note.code for note in strategy.record.notes]
