"""Which models a node makes: its own, or those a run names."""

from federation import public_set

from fedkd_flwr.app.models import common_kind, own_model, party_roles
from fedkd_flwr.models.zoo import DEFAULT_MIX
from fedkd_flwr.settings.config import parse_node_config, parse_run_config


def test_a_node_that_demands_privacy_takes_no_model_from_the_run(caplog):
    silo = {"party": "a", "data-path": "a.csv", "public-path": "p.csv"}
    run = parse_run_config({"public-path": "p.csv", "model": "decision-tree(max_depth=9)"})
    assert own_model(run, parse_node_config(silo)) == "decision-tree(max_depth=9)"
    own = {"model": "knn(n_neighbors=3)"}
    assert own_model(run, parse_node_config({**silo, **own, "require-privacy": True})) == "knn(n_neighbors=3)"
    for demand in ({"require-privacy": True}, {"epsilon-budget": 1.0}):
        assert own_model(run, parse_node_config({**silo, **demand})) == "random-forest"
    assert "a node that demands privacy takes no model from a run, got decision-tree(max_depth=9)" in caplog.text


def test_a_node_that_demands_privacy_takes_no_teachers_and_students_from_the_run():
    node = parse_node_config({"party": "a", "data-path": "a.csv", "public-path": "p.csv", "require-privacy": True})
    run = parse_run_config(
        {
            "algorithm": "fedkt",
            "public-path": "p.csv",
            "teacher-model": "knn",
            "fedkt.level": "L2",
            "noise": "gaussian",
            "paper.noise-strength": 1.0,
        }
    )
    assert party_roles(run, node, None, 0) == {}


def test_of_mixed_models_the_server_trains_the_first_that_is_no_net():
    public = public_set()
    assert common_kind("mixed:mlp,decision-tree,knn", public) == "decision-tree"
    assert common_kind("mixed:mlp,mlp(hidden=[4])", public) == "mlp"
    assert common_kind("mixed", public) == DEFAULT_MIX[0]
    assert common_kind("mlp", public) == "mlp"
