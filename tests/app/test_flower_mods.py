"""Other people's Flower code around ours: mods of a ClientApp, wrappers of a strategy, and what Flower's loop calls."""

import json
import time

import numpy as np
import pytest
from federation import fedct_grid, parties, public_set
from flwr.app import ArrayRecord
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, arrays_size_mod, fixedclipping_mod, message_size_mod
from flwr.serverapp import strategy as flowers
from grid import InProcessGrid

from fedkd_flwr.app.client_app import answer, finish
from fedkd_flwr.clients import FedCTClient
from fedkd_flwr.errors import ConfigError, TooFewPartiesError
from fedkd_flwr.strategies import FedCT, FedCTConfig


def _strategy(**settings):
    settings = {"consensus": "majority", "seed": 1, "nodes_stable_s": 1e-6, "stop_when_converged": False, **settings}
    return FedCT(config=FedCTConfig(**settings), public=public_set())


def _app(mods=(), members=None):
    """Return a ClientApp of its own, as docs/howto/flower-project.md has one, with mods."""
    held = [FedCTClient(party) for party in members or parties(3)]
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message, context):
        return answer(held[context.node_id - 1000], message)

    @app.evaluate()
    def evaluate(message, context):
        return finish(held[context.node_id - 1000], message)

    return app


def _run(mods, rounds=2, **keywords):
    strategy, grid = _strategy(), InProcessGrid(_app(mods), [{}] * 3, **keywords)
    strategy.start(grid, num_rounds=rounds)
    return strategy, grid


def _logging_mod(folder):
    """Return a mod as Flower's custom-mods example has them: reads the round and the metrics, and adds its own."""

    def mod(message, context, call_next):
        server_round = message.content["config"]["server-round"]
        began = time.monotonic()
        reply = call_next(message, context)
        if reply.has_content():
            metrics = reply.content.metric_records.get("metrics")
            metrics["seconds"] = time.monotonic() - began
            line = {"round": server_round, "group": int(message.metadata.group_id), **metrics}
            with (folder / f"{message.metadata.dst_node_id}.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
        return reply

    return mod


def test_flower_s_size_mods_and_a_mod_that_reads_settings_and_adds_metrics_change_nothing(tmp_path, caplog):
    caplog.set_level("INFO", logger="flwr")
    plain, _ = _run([])
    strategy, grid = _run([message_size_mod, arrays_size_mod, _logging_mod(tmp_path)])
    assert np.array_equal(strategy.consensus, plain.consensus)
    assert caplog.text.count("Outgoing message size") == caplog.text.count("Total array elements sent") == 9
    lines = [json.loads(line) for line in (tmp_path / "1000.jsonl").read_text().splitlines()]
    assert [(line["round"], line["group"]) for line in lines] == [(1, 1), (2, 2), (2, 2)]
    assert lines[0]["num-examples"] == 60
    assert lines[2]["seconds"] > 0
    assert all("seconds" in reply.content["metrics"] for reply in grid.replies)


@pytest.mark.parametrize(
    ("mod", "name"),
    [
        (LocalDpMod(clipping_norm=1.0, sensitivity=1.0, epsilon=1.0, delta=1e-5), "LocalDpMod"),
        (fixedclipping_mod, "fixedclipping_mod"),
        (adaptiveclipping_mod, "adaptiveclipping_mod"),
        (secaggplus_mod, "secaggplus"),
    ],
    ids=["LocalDpMod", "fixed", "adaptive", "secagg"],
)
def test_a_mod_that_changes_replies_is_refused_by_name_before_anybody_learns(mod, name, monkeypatch):
    monkeypatch.setattr(FedCTClient, "fit", lambda *_: pytest.fail("it learnt"))
    strategy, grid = _strategy(), InProcessGrid(_app([mod]), [{}] * 3)
    with pytest.raises(TooFewPartiesError, match=rf"changing-mod \({name}\)"):
        strategy.start(grid, num_rounds=2)
    assert strategy.record.status == "failed"
    assert [r.code for r in strategy.record.rounds[0].rejected] == ["changing-mod"] * 3
    assert not any(reply.has_content() for reply in grid.replies)


@pytest.mark.parametrize("where", ["ServerSide", "ClientSide"])
@pytest.mark.parametrize("kind", ["Fixed", "Adaptive"])
def test_flower_s_wrappers_that_add_noise_to_weights_are_refused_before_anything_is_sent(where, kind):
    given = {"noise_multiplier": 0.1, "num_sampled_clients": 3}
    given |= {"clipping_norm": 1.0} if kind == "Fixed" else {}
    strategy, grid = _strategy(), fedct_grid(parties(3))
    wrapped = getattr(flowers, f"DifferentialPrivacy{where}{kind}Clipping")(strategy, **given)
    with pytest.raises(ConfigError, match=r"FedCT must be started by its own start.*DifferentialPrivacy"):
        wrapped.start(grid, ArrayRecord(), 2)
    assert not grid.sent
    assert strategy.record.status == "failed"
