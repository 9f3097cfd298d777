"""What all strategies whose parties send trees have in common."""

from dataclasses import replace

import numpy as np
import pytest
from federation import model
from rounds import TEST, TREES, members, run

from fedkd_flwr.errors import TooFewPartiesError

pytest.importorskip("xgboost")


@pytest.mark.parametrize("algorithm", TREES)
def test_a_party_that_does_not_allow_it_or_has_another_model_sends_no_tree(algorithm):
    refusing = replace(members(2, algorithm)[0], name="a", allow=frozenset({"fedct"}))
    other = replace(members(2, algorithm, model=model)[0], name="b")
    with pytest.raises(TooFewPartiesError, match="a: not-allowed, b: wrong-config"):
        run(algorithm, held=[refusing, other])


def test_trees_that_lead_nowhere_are_left_out_and_the_others_count():
    def spoil(node, reply):
        if node == 0 and reply.content.array_records:
            arrays = reply.content["arrays"]
            columns = arrays["columns"].numpy().copy()
            columns[0] = 200
            arrays["columns"] = type(arrays["columns"])(columns)
        return reply

    strategy, _ = run("fedxgb-bagging", tamper=spoil)
    (left_out,) = strategy.record.rounds[0].rejected
    assert (left_out.party, left_out.code) == ("party-000", "wrong-weights")
    honest = run("fedxgb-bagging", held=members(algorithm="fedxgb-bagging")[1:])[0]
    assert np.array_equal(strategy.model.predict_proba(TEST[0]), honest.model.predict_proba(TEST[0]))
