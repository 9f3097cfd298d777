"""What a party says for density-ratio votes, and how often it computes it."""

from functools import partial

import numpy as np
import pytest
from federation import model, parties, party, public_set, rows
from visits import TELL_MORE, asked_more

from fedkd_flwr.models.open_set import OpenSet
from fedkd_flwr.wire.label_codec import PublicSpec
from fedkd_flwr.wire.ratio_codec import decode_ratios

ALLOWED = frozenset({"fedct", "fedkt", "pate", "density-ratio"})


def answer(name, member, **changes):
    return asked_more("density-ratio", name, member, **changes)


def member(**changes):
    return party("a", *rows(20, seed=1), **{"allow": ALLOWED, **changes})


def test_models_that_are_fitted_anew_score_the_public_rows_once(tmp_path, monkeypatch):
    from fedkd_flwr.clients import rule_answers

    calls, real = [], rule_answers.open_set
    monkeypatch.setattr(rule_answers, "open_set", lambda *args, **keywords: calls.append(1) or real(*args, **keywords))
    kept = parties(1, state=tmp_path, allow=ALLOWED)[0]
    first = answer("fedct", kept)
    second = answer("fedct", kept, **{"server-round": 2, "last-round": 1})
    assert first[0] == second[0] == "ratios"
    assert calls == [1]


@pytest.mark.parametrize(("name", "kind"), [(name, "mlp") for name in TELL_MORE] + [("fedct", "random-forest")])
def test_a_net_of_the_own_rows_tells_the_classes_and_a_forest_does_not(name, kind, monkeypatch):
    """What tells own rows from public ones is made to know no class here."""
    pytest.importorskip("torch")
    from fedkd_flwr.clients import rule_answers

    no_class = [0.5, 0.0, 0.0, 0.5]
    monkeypatch.setattr(rule_answers, "open_set", lambda fresh, X, y, U, **_: OpenSet(np.tile(no_class, (len(U), 1))))
    params = {"hidden": [8], "lr": 0.05} if kind == "mlp" else {"n_estimators": 5}
    own = member(model=partial(model, name=kind, **params))
    arrays = answer(name, own, **({"steps-per-round": 60} if name == "fedct" else {}))[2]
    spec = PublicSpec(num_public=60, num_classes=3, fingerprint=public_set().fingerprint)
    codes = decode_ratios(arrays[0], public=spec, server_round=1).codes
    assert set(codes.argmax(axis=1)) == ({0, 1, 2} if kind == "mlp" else {0})


def test_nets_go_on_from_round_to_round(tmp_path):
    pytest.importorskip("torch")
    net = partial(model, name="mlp", hidden=[8], lr=0.01)
    kept = parties(1, state=tmp_path, allow=ALLOWED, model=net)[0]
    assert answer("fedct", kept, **{"steps-per-round": 20})[0] == "ratios"
    saved = kept.state.load()
    assert {"kept.open-set.0", "kept.open-set.1", "kept.ratios"} <= set(saved.arrays)
    again = {"steps-per-round": 20, "server-round": 2, "last-round": 1}
    assert answer("fedct", kept, **again)[0] == "ratios"
    nets = [state.arrays["kept.open-set.0"] for state in (saved, kept.state.load())]
    assert not np.array_equal(*nets)
