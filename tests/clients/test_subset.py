"""One subset for ever: what is not drawn is not looked at."""

import numpy as np
import pytest
from federation import party, rows
from visits import WIRE

from fedkd_flwr.algorithms.fedmd import FedMDConfig
from fedkd_flwr.clients import FedMDClient, Party
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.wire.score_codec import encode_rows


def test_with_nfdp_rows_that_were_not_drawn_are_not_even_measured_on(tmp_path, monkeypatch):
    ledger = LedgerStore(tmp_path, party="a", data_digest="ab" * 32)
    allow = frozenset({"fedmd"})
    member = party("a", *rows(20, seed=0), allow=allow, ledger=ledger, run_id="1", rows_at_least=20)
    asked = {"indices": encode_rows(np.arange(9), num_public=60)}
    config = FedMDConfig(answer_form="argmax", initial_epochs=1, distillation_epochs=1, subset_rows=5)
    told = {**config.told(), **WIRE, "algorithm": "fedmd", "payload": "indices"}
    monkeypatch.setattr(Party, "progress", lambda *_: pytest.fail("it measured"))
    assert "code" not in FedMDClient(member).fit(list(asked.values()), told)[2]
