"""DS-FL: FedMD with sharper averages."""

import numpy as np
from federation import handler, model, party, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.clients import DSFLClient, FedMDClient
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.strategies import DSFL, DSFLConfig, FedMD, FedMDConfig


def _run(folder, client, strategy, config):
    members = []
    for i in range(3):
        name = f"party-{i:03d}"
        state = PartyState(folder, run_id="1", party=name)
        allow = frozenset({"fedmd", "dsfl"})
        members.append(party(name, *rows(20, seed=i), allow=allow, model=model, state=state))
    made = strategy(config=config(seed=1, nodes_stable_s=1e-6, public_rows_per_round=60), public=public_set())
    made.start(InProcessGrid(handler([client(one) for one in members]), [{}] * 3), num_rounds=1)
    return made


def test_ds_fl_learns_from_sharper_averages_than_the_mean(tmp_path):
    plain = _run(tmp_path / "a", FedMDClient, FedMD, FedMDConfig)
    sharp = _run(tmp_path / "b", DSFLClient, DSFL, DSFLConfig)
    assert sharp.record.rounds[0].consensus_accuracy == plain.record.rounds[0].consensus_accuracy
    assert np.sort(sharp.exchange.average, axis=1)[:, -1].mean() > np.sort(plain.exchange.average, axis=1)[:, -1].mean()
