"""Pooled forest: the mean of the parties' forests."""

import numpy as np
from rounds import TEST, TREES, members, run

from fedkd_flwr.seeds import derive_seed


def test_it_says_the_mean_of_what_the_parties_forests_say():
    held = members(algorithm="pooled-forest")
    strategy, _ = run("pooled-forest", held=held)
    forests = [
        TREES["pooled-forest"](seed=derive_seed(derive_seed(1, one.name), "model")).fit(one.X, one.y) for one in held
    ]
    mean = np.mean([one.predict_proba(TEST[0]) for one in forests], axis=0)
    np.testing.assert_allclose(strategy.model.predict_proba(TEST[0]), mean, atol=1e-6)
    assert strategy.record.server["common"] == strategy.model.metrics(*TEST)
    assert len(strategy.exchange.trees["sizes"]) == 15
