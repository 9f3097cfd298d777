"""What a silo's owner gets at the end of a run: a card beside each model, and advice in the log."""

import logging

import numpy as np
import pandas as pd
import pytest
from federation import SCHEMA, model, rows

from fedkd_flwr.clients.answer import DumpedModel, Finished
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.silo.owner import owners_word
from fedkd_flwr.stores.saved_model import save

PUBLIC = make_public_set(pd.DataFrame(rows(60, seed=9)[0], columns=["a", "b"]), SCHEMA)


@pytest.mark.parametrize(("alone", "federated"), [(0.5, 0.9), (0.9, 0.5)])
def test_the_owner_is_told_which_model_is_better_on_own_rows_and_gets_a_card_of_each(
    tmp_path, caplog, alone, federated
):
    show = owners_word(
        parse_run_config({}),
        run_id="7",
        party="north",
        model_name="knn",
        public=PUBLIC,
        y=np.repeat([0, 1, 2], 50),
    )
    measured = [
        {"own": Metrics(n=150, accuracy=value, balanced_accuracy=value, support=[50] * 3)}
        for value in (alone, federated)
    ]
    files = {kind: tmp_path / f"{kind}.model" for kind in ("federated", "alone")}
    for file in files.values():
        save(model(seed=0).fit(*rows(20, seed=1)), PUBLIC, file)
    with caplog.at_level(logging.INFO, logger="flwr.party"):
        show(Finished(model=DumpedModel(b""), solo=measured[0], federated=measured[1]), files)
    better = "stay alone" if alone > federated else "recommended: federated"
    (advice,) = [line for line in caplog.messages if "recommended" in line]
    assert better in advice
    cards = sorted(path.name for path in tmp_path.iterdir())
    assert cards == ["alone.card.md", "alone.model", "federated.card.md", "federated.model"]
    assert "it learnt from this silo's private rows" in (tmp_path / cards[0]).read_text()
