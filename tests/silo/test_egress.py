"""The door of a node, as its node config says."""

from flwr.app import Context, RecordDict

from fedkd_flwr.app.client_app import client_of
from fedkd_flwr.clients.party import OPEN
from fedkd_flwr.settings.config import parse_node_config, parse_run_config
from fedkd_flwr.silo.egress import door_of
from fedkd_flwr.stores.egress_log import read_log


def _node(folder, **changes):
    own = {"party": "a", "data-path": str(folder / "no.csv"), "public-path": str(folder / "no-public.csv")}
    return {**own, "state-dir": str(folder / "state"), **changes}


def test_a_rule_that_a_run_s_settings_break_is_refused_before_any_file_is_read(tmp_path):
    for rule in ({"run-rules": "num-rounds<=2"}, {"allow-models": "knn"}):
        node = _node(tmp_path, **rule)
        config = {"algorithm": "fedct", "num-rounds": 3, "model": "mixed:knn,decision-tree"}
        metrics = client_of(Context(7, 1, node, RecordDict(), config)).fit([], {})[2]
        assert (metrics["party"], metrics["code"]) == ("a", "not-allowed")
    first, second = read_log(tmp_path / "state" / "egress" / "a" / "log.jsonl").lines
    assert (first["run"], first["left"], first["code"]) == ("7", False, "not-allowed")
    assert first["rules"] == [{"rule": "run-rules", "wanted": "num-rounds<=2", "seen": "3", "kept": False}]
    assert second["rules"][0]["wanted"] == "knn"


def test_a_run_s_usual_number_of_rounds_counts_where_it_names_none(tmp_path):
    config = parse_run_config({"algorithm": "fedct"})
    egress = door_of(config, parse_node_config(_node(tmp_path)), "7")
    assert egress.settings["num-rounds"] == config.rounds > 0


def test_a_node_s_own_model_is_its_owner_s_choice(tmp_path):
    node = parse_node_config(_node(tmp_path, **{"model": "decision-tree", "allow-models": "knn"}))
    door_of(parse_run_config({"model": "mlp"}), node, "7").check_run()


def test_a_simulated_party_has_a_door_only_where_its_node_asks_for_one(tmp_path):
    config = parse_run_config({})
    simulated = {"partition-id": 0, "num-partitions": 2}
    assert door_of(config, parse_node_config(simulated), "7") is OPEN
    for more in ({"approve": "always"}, {"class-rows-at-least": 3}, {"state-dir": str(tmp_path)}):
        assert door_of(config, parse_node_config({**simulated, **more}), "7") is not OPEN
