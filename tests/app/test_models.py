"""Which models a node makes: its own, or those a run names."""

from fedkd_flwr.app.models import own_model, party_roles
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
