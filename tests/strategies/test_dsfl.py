"""DS-FL: FedMD with sharper averages."""

import numpy as np
from federation import model
from score_runs import members, run


def test_ds_fl_learns_from_sharper_averages_than_the_mean(tmp_path):
    plain, sharp = (
        run(members(3, name=name, state=tmp_path / name, make=model), name, rounds=1)[0] for name in ("fedmd", "dsfl")
    )
    assert sharp.record.rounds[0].consensus_accuracy == plain.record.rounds[0].consensus_accuracy
    assert np.sort(sharp.exchange.average, axis=1)[:, -1].mean() > np.sort(plain.exchange.average, axis=1)[:, -1].mean()
