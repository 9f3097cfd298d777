"""The membership audit's command: whole runs through the real apps, and what it finds where something must leak."""

import pytest

from fedkd_flwr.app import client_app
from fedkd_flwr.audit.run import audit
from fedkd_flwr.cli.main import main
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import parse_run_config

SMALL = {"dataset": "synthetic(rows=400)", "num-parties": 2, "partitioner": "iid", "num-test": 40}
SMALL |= {"num-public": 60, "num-private": 120, "model": "decision-tree"}


def _config(tmp_path, **settings):
    return parse_run_config({**SMALL, "output-dir": str(tmp_path), **settings})


def test_the_command_leaves_figures_a_record_and_a_page(tmp_path, capsys):
    words = ["dev", "audit", "dataset=synthetic", "model=decision-tree", f"output-dir={tmp_path}", "partitioner=iid"]
    words += ["num-public=60", "num-private=120", "num-test=20", "dataset=synthetic(rows=200)", "num-rounds=1"]
    words += ["label-mechanism=randomized-response", "paper.noise-strength=0.01", "--parties", "2", "--shadows", "4"]
    with pytest.raises(SystemExit, match=r"^0$"):
        main(words)
    printed = capsys.readouterr()
    assert "all parties          60 " in printed.out
    assert "shadow run 4 of 4" in printed.err
    [path] = tmp_path.glob("runs/*/record.json")
    record = RunRecord.load(path)
    [claim] = record.audit.claims
    assert claim.unit == "party"
    assert claim.proven <= claim.epsilon
    page = (path.parent / "report.html").read_text()
    assert "What an attack finds" in page
    assert record.publishable().audit is None
    assert record.notes[-1].code == "audited"


@pytest.mark.usefixtures("no_page")
def test_weights_tell_members_that_a_net_has_learnt_by_heart(tmp_path):
    pytest.importorskip("torch")
    net = {"model": "mlp(hidden=[64], lr=0.03, batch_size=8)", "local-epochs": 10}
    config = _config(
        tmp_path, algorithm="fedprox", **net, **{"num-rounds": 1, "num-private": 80, "paper.solo-epochs": 1}
    )
    found = audit(config, shadows=4).audit
    assert found.sent == ["model"]
    assert found.everybody.auc.low > 0.55


@pytest.mark.usefixtures("no_page")
def test_trees_tell_members_that_they_have_learnt_by_heart(tmp_path):
    model = "random-forest(n_estimators=5)"
    found = audit(_config(tmp_path, algorithm="pooled-forest", model=model), shadows=4).audit
    assert found.sent == ["trees"]
    assert found.everybody.auc.low > 0.55


@pytest.mark.usefixtures("no_page")
def test_a_shadow_run_in_which_a_party_fails_is_evidence_too(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    answered, seen = client_app.answer, []

    def answer(client, message):
        seen.append(client.party.name)
        if seen[-1] == "party-000" and seen.count("party-000") == 2:  # in the first shadow run
            raise RuntimeError("out of memory")
        return answered(client, message)

    monkeypatch.setattr(client_app, "answer", answer)
    config = _config(
        tmp_path, algorithm="fedavg", model="mlp", **{"local-epochs": 1, "num-rounds": 1, "min-parties": 1}
    )
    assert audit(config, shadows=4).audit.parties.keys() == {"party-000", "party-001"}


@pytest.mark.usefixtures("no_page")
def test_half_of_each_party_s_rows_are_members_and_density_ratios_come_with_labels_and_class_counts(tmp_path):
    small = {"num-rounds": 1, "consensus": "density-ratio", "num-public": 30, "num-private": 60}
    found = audit(_config(tmp_path, **small), shadows=4).audit
    assert found.sent == ["class-counts", "labels", "ratios"]
    assert found.everybody.members == found.everybody.fresh == sum(p.members for p in found.parties.values())
    assert list(found.parties) == ["party-000", "party-001"]
    assert found.everybody.auc.low < found.everybody.auc.value < found.everybody.auc.high


@pytest.mark.parametrize(
    ("settings", "shadows", "match"),
    [
        ({}, 5, "shadows must be even"),
        ({}, 2, "shadows must be a whole number >= 4"),
        ({"num-parties": 0}, 4, "simulation with num-parties"),
    ],
)
def test_what_cannot_be_audited_is_refused(tmp_path, settings, shadows, match):
    with pytest.raises(ConfigError, match=match):
        audit(_config(tmp_path, **settings), shadows=shadows)
