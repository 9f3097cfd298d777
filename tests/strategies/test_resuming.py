"""A run that is lost in the middle of each of its rounds, and at its end, ends as if nothing had happened."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.algorithms import fedct, privatekt
from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.runs import list_runs
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.errors import Code, ConfigError, DataError
from fedkd_flwr.models import serialize
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.settings.run_settings import resumed_settings
from fedkd_flwr.simulation.rows import check_simulation
from fedkd_flwr.stores.book import ledger_in
from fedkd_flwr.stores.checkpoints import Lineage, Participations
from fedkd_flwr.strategies import FedCTConfig
from fedkd_flwr.strategies.resuming import Checkpoints, _settings, check_goes_on, load_checkpoint, save_checkpoint

pytest.importorskip("torch")

COMMON = {
    "dataset": "synthetic(rows=150, features=4, classes=3)",
    "num-public": 30,
    "num-test": 30,
    "partitioner": "iid",
    "party-test-fraction": 0.0,
    "num-parties": 2,
    "num-rounds": 2,
    "centralised": False,
    "node-deadline-s": 1.0,
    "nodes-stable-s": 0.001,
}
CLEAR = {"label-mechanism": "randomized-response", "paper.noise-strength": 40.0}  # no label is ever changed
FEW = {"fedkt.students-per-party": 1, "fedkt.teachers-per-student": 2}
NET = {"model": "mlp(hidden=[4], batch_size=64, epochs=1)"}
ON = {"paper.stop-when-converged": False}
SCORES = {**NET, "paper.initial-epochs": 1, "public-rows-per-round": 15}
SOME = {"num-parties": 3, "fraction-parties": 0.6, "local-epochs": 1}
RUNS = {
    "fedct": {**NET, "steps-per-round": 2, "num-rounds": 3, "consensus": "majority", **ON},
    "dp-fedct": {"algorithm": "fedct", "model": "decision-tree", **CLEAR},
    "fedct-ratios": {"algorithm": "fedct", "model": "decision-tree", "consensus": "auto", **ON},
    "scarlet": {**SCORES, "num-rounds": 3, "score-bits": 8, "scarlet.cache-rounds": 2},
    "scaffold": {**NET, **SOME, "num-rounds": 3, "model": "mlp(hidden=[4], optimizer='sgd', lr=0.1)"},
    "pfnm": {**NET, "local-epochs": 1, "num-rounds": 1},
    "fedxgb-bagging": {"model": "xgboost(max_depth=2)", "num-rounds": 3},
    "privatekt": {**NET, "privatekt.round-epsilon": 300.0, **SOME},
    "fedkt-prox": {**NET, "num-rounds": 1, "local-epochs": 1, **FEW},
    "fedkt": {"model": "decision-tree", "final-model": "decision-tree", "num-rounds": 1, **FEW},
}
THROUGHOUT = ("fedct", "dp-fedct", "privatekt", "fedkt")
"""Those that are lost in each round, and once more while the final result is on its way; others in the last round."""


def start(folder, run_id, *, lost_in="", **changes):
    """Run a federation; ``lost_in``: the round (or ``final``) whose first reply never reaches the server's code."""
    config = {**COMMON, "output-dir": str(folder), **changes}
    asked = 0

    def handle(message, context):
        nonlocal asked
        reply = client_app(message, context)
        if message.metadata.message_type != "query":
            config = next(iter(message.content.config_records.values()))
            stage = "final" if message.metadata.message_type == "evaluate" else str(config["server-round"])
            asked += stage == lost_in
            if asked == 1:
                raise KeyboardInterrupt
        return reply

    nodes = [{"partition-id": i, "num-partitions": config["num-parties"]} for i in range(config["num-parties"])]
    grid = InProcessGrid(handle, nodes, config, run_id=run_id)
    try:
        federate(grid, Context(run_id, 1, {}, RecordDict(), config), page=False)
    except KeyboardInterrupt:
        assert lost_in
    return RunRecord.load(folder / "runs" / str(run_id) / "record.json")


def told(record):
    """Return what a record says of the result: all but times, sizes, names of runs and files."""
    data = record.as_dict()
    for key in ("run_id", "started", "last_word", "process", "startup_seconds", "seconds", "server_model", "versions"):
        del data[key]
    data["config"] = {k: v for k, v in data["config"].items() if k not in ("resume-from", "output-dir")}
    data["changed"] = [key for key in data["changed"] if key not in ("resume-from", "output-dir")]
    data["notes"] = [note for note in data["notes"] if note["code"] != "continues"]
    for one in data["rounds"]:
        for key in ("asked_at", "seconds", "bytes_up", "bytes_down"):
            del one[key]
    for one in data["parties"]:
        del one["model_bytes"]  # skops varies by a few bytes
    del data["final_bytes_down"]
    return json.loads(json.dumps(data))


def charges(folder, run_id):
    return [
        (place.name, entry.run_id, entry.server_round)
        for place in sorted(path for path in (folder / "runs" / run_id / "ledgers").iterdir() if path.is_dir())
        for entry in ledger_in(place)[0].entries
    ]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_lost_in_each_round_ends_as_the_unbroken_one(tmp_path, name):
    settings = {"algorithm": name.removesuffix("-ratios"), **RUNS[name]}
    whole = start(tmp_path / "whole", 1, **settings)
    assert whole.status == "completed", whole.reason
    noisy = name in ("dp-fedct", "privatekt")

    last = len(whole.rounds)
    folder, places = tmp_path / "lost", [str(last)]
    if name in THROUGHOUT:
        places = [*map(str, range(1, last + 1)), "final"]
    resumed = {}
    for number, place in enumerate(places, start=1):
        lost = start(folder, number, lost_in=place, **settings, **resumed)
        assert lost.status == "stopped"
        resumed = {"resume-from": str(number)}
    rest = start(folder, len(places) + 1, **settings, **resumed)
    assert told(rest) == told(whole)
    assert Lineage.load(folder / "runs" / rest.run_id / "checkpoint").finished
    left = {path.suffixes[-1] for path in folder.glob("runs/*/parties/*") if not path.name.endswith(".alone.model")}
    assert left <= {".model", ".md"}  # the parties' models, and nothing to go on with
    if whole.server_model:
        one, other = (serialize.load(r.server_model) for r in (whole, rest))
        X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        assert (one.predict_proba(X) == other.predict_proba(X)).all()
    if noisy:
        assert rest.claims == whole.claims
        assert rest.claims
        # each party was charged once for each round, in the run that asked it first
        assert charges(folder, "1") == charges(tmp_path / "whole", "1")
        assert {run for _, run, _ in charges(folder, "1")} == {"1"}


def test_what_a_party_said_twice_because_it_lost_its_state_is_claimed_twice(tmp_path):
    settings = {"algorithm": "fedct", "model": "decision-tree", "num-rounds": 2, **CLEAR}
    start(tmp_path, 1, lost_in="2", **settings)
    for path in (tmp_path / "runs" / "1" / "parties").iterdir():
        path.unlink()
    rest = start(tmp_path, 2, **settings, **{"resume-from": "1"})
    assert rest.status == "completed"
    first = [(run, number) for party, run, number in charges(tmp_path, "1") if party == "party-000"]
    assert first == [("1", 1), ("1", 2), ("2", 2)]  # an answer more, and a charge more
    (claim,) = rest.claims
    assert claim["mechanism"].endswith("; 30 labels a round, 3 rounds")
    assert claim["epsilon"] == pytest.approx(3 * 30 * 40.0, rel=1e-3)  # of two rounds: 2,400


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lost")
    start(folder, 1, lost_in="2", algorithm="fedct", model="decision-tree", name="monday")
    start(folder, 2, algorithm="fedct", model="decision-tree", **{"num-rounds": 1})
    start(folder, 3, algorithm="fedct", model="decision-tree", **{"num-rounds": 1})
    (folder / "runs" / "3" / "checkpoint" / "checkpoint.npz").unlink()
    return folder


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"seed": 2}, ConfigError, "seed must be 1, as in the run to continue, got 2. Continue a run with"),
        ({"num-rounds": 4}, ConfigError, "num-rounds must be 2, as in the run to continue, got 4"),
        ({"min-parties": 1}, ConfigError, "min-parties must be 2, as in the run to continue, got 1"),
        ({"model": "knn"}, ConfigError, "model must be 'decision-tree', as in the run to continue, got 'knn'"),
        ({"algorithm": "pate", "num-rounds": 1}, ConfigError, "resume-from must hold a checkpoint of pate"),
        ({"resume-from": "2"}, ConfigError, "must name a run without a result, got '2'. Its result is there"),
        ({"resume-from": "3"}, DataError, "run 3 must have a checkpoint, got 'none'. `fedkd runs list` says which"),
        ({"resume-from": "4"}, DataError, "run must be the id, the start of an id, the name or the path of a run"),
    ],
)
def test_what_cannot_be_continued_is_refused_by_name(lost, changes, error, message):
    with pytest.raises(error, match=message):
        start(lost, 9, **{"algorithm": "fedct", "model": "decision-tree", "resume-from": "monday", **changes})


def test_counts_older_than_the_checkpoint_beside_them_are_refused(tmp_path):
    """Rounds in which parties were asked would be forgotten in every claim."""
    settings = {"algorithm": "fedct", "model": "decision-tree"}
    start(tmp_path, 1, lost_in="2", **settings)
    folder = tmp_path / "runs" / "1" / "checkpoint"
    counted = Participations.load(folder)
    counted.with_count("party-001", 0).save(folder)
    message = r"checkpoint in .* must be whole, got fewer rounds of party-001 in participations\.json"
    with pytest.raises(DataError, match=message) as caught:
        start(tmp_path, 2, **settings, **{"resume-from": "1"})
    assert caught.value.code is Code.STATE_LOST


@pytest.mark.parametrize(
    ("card", "num_rounds", "finished", "error"),
    [
        (privatekt.CARD, 3, True, None),
        (privatekt.CARD, 2, False, None),  # its final visit is left
        (privatekt.CARD, 2, True, "num-rounds must be above 2, the rounds that the run to continue has finished"),
        (privatekt.CARD, 1, False, "num-rounds must be above 2"),
        (privatekt.CARD, 1, True, "num-rounds must be above 2"),
        (fedct.CARD, 3, False, None),
        (fedct.CARD, 3, True, "resume-from must name a run without a result, got '7'"),
    ],
)
def test_a_run_goes_on_where_a_round_or_the_final_visit_is_left(tmp_path, card, num_rounds, finished, error):
    save_checkpoint(tmp_path, {}, {"version": 2, "algorithm": card.name, "round": 2})
    Lineage(runs=("7",), secret="00" * 32, finished=finished).save(tmp_path)
    with pytest.raises(ConfigError, match=error) if error else nullcontext():
        check_goes_on(tmp_path, card, num_rounds)


def test_a_missing_and_a_damaged_checkpoint_are_told_apart(tmp_path):
    with pytest.raises(DataError, match="must be there, got no such file") as missing:
        load_checkpoint(tmp_path)
    path = save_checkpoint(tmp_path, {"x": np.arange(100)}, {})
    data = path.read_bytes()
    path.write_bytes(data[:300] + bytes([data[300] ^ 1]) + data[301:])
    with pytest.raises(DataError, match="must be whole, got") as damaged:
        load_checkpoint(tmp_path)
    assert [one.value.code for one in (missing, damaged)] == [Code.MISSING_FILE, Code.STATE_LOST]


def test_a_checkpoint_of_another_version_is_refused_by_name(tmp_path):
    save_checkpoint(tmp_path, {}, {"version": 1, "algorithm": "fedct", "round": 2})
    Lineage(runs=("7",), secret="00" * 32).save(tmp_path)
    with pytest.raises(ConfigError, match="must hold a checkpoint of fedct, version 2, got fedct, version 1"):
        check_goes_on(tmp_path, fedct.CARD, 3)


def _kept(**changes):
    """Return what is read of a strategy whose parties were asked in rounds 1 and 2, of which the first is settled."""
    words = {"card": fedct.CARD, "free_settings": frozenset(), "config": FedCTConfig(), "held": {}}
    words |= {"num_rounds": 5, "rounds_done": 1, "finished_round": None}
    words |= {"spec": SimpleNamespace(fingerprint="ab"), "record": SimpleNamespace(run_id="8", to_json=str)}
    roster = {"fraction": 1.0, "fewest": 2, "remembered": dict, "asked": Participations(by_party={"a": 2})}
    roster |= {name: changes.pop(name) for name in ("earlier",) if name in changes}
    words |= {"keeps": (), "roster": SimpleNamespace(**roster)}
    return SimpleNamespace(**{**words, **changes})


def _going_on(folder, settled):
    """Return the checkpoints of run 8, which continues run 7 and asks round 2 once more; both have their folders."""
    kept = Checkpoints(folder / "8", folder / "7")
    kept.lineage, kept._settled, kept._first = Lineage(runs=("7", "8"), secret="00" * 32), settled, 2
    for name in "78":
        Lineage(runs=("7",), secret="00" * 32).save(folder / name)
    return kept


@pytest.mark.parametrize(
    ("party", "said", "server_round", "counted"),
    [
        ("a", {"went-on-from": "7"}, 2, 1),
        ("a", {"went-on-from": "7"}, 3, 2),  # no round but the first was asked twice
        ("a", {"went-on-from": "9"}, 2, 2),  # no run that this one continues
        ("a", {}, 2, 2),
        ("b", {"went-on-from": "7"}, 2, 2),  # another node that spoke for it may have answered before
    ],
)
def test_only_who_went_on_from_the_run_before_is_counted_once_for_the_round_that_is_asked_again(
    tmp_path, party, said, server_round, counted
):
    kept = _going_on(tmp_path, Participations(by_party={"a": 1, "b": 1}))
    strategy = _kept(earlier=Participations(by_party={"a": 2, "b": 2}, several=frozenset("b")))
    kept.heard(strategy.roster, party, said.get("went-on-from"), server_round)
    assert strategy.roster.earlier.before(party) == counted


@pytest.mark.parametrize("name", ["fingerprint", "fraction_parties", "min_parties", "noise_strength"])
def test_other_public_rows_parties_or_noise_are_another_run(tmp_path, name):
    strategy, before = _kept(record=SimpleNamespace(config={})), SimpleNamespace(config={})
    kept = _going_on(tmp_path, Participations())
    own = _settings(strategy)
    kept._check_settings(strategy, own, before)
    with pytest.raises(ConfigError, match=f"{name.replace('_', '-')} must be 'other', as in the run to continue"):
        kept._check_settings(strategy, {**own, name: "other"}, before)


def test_that_noisy_votes_left_is_written_into_every_folder_that_can_be_continued(tmp_path):
    kept = _going_on(tmp_path, Participations())
    kept.releasing()
    assert [Lineage.load(tmp_path / name).released for name in "78"] == [True, True]
    assert kept.lineage.released


def test_a_run_that_has_its_result_is_refused_before_anything_is_written(lost):
    """Before, the run that could not go on was left as a failed one under the name of the first."""
    config = parse_run_config(resumed_settings("2", lost))
    before = sorted((lost / "runs").rglob("*"))
    with pytest.raises(ConfigError, match=r"must name a run without a result, got '2'\. Its result is there"):
        check_simulation(config, config.num_parties)
    assert sorted((lost / "runs").rglob("*")) == before
    goes_on = parse_run_config(resumed_settings("monday", lost))
    check_simulation(goes_on, goes_on.num_parties)
    other = {"algorithm": "pate", "num-rounds": 1, "resume-from": "monday"}
    with pytest.raises(ConfigError, match="resume-from must hold a checkpoint of pate"):
        check_simulation(parse_run_config({**COMMON, **other, "output-dir": str(lost)}), 2)


def test_a_run_says_how_it_is_continued(lost):
    lines = {line["run_id"]: line for line in list_runs(lost)[0]}
    assert lines["1"]["resume"] == f"fedkd simulate --resume {lost / 'runs' / '1'}"
    assert lines["2"]["resume"] == lines["3"]["resume"] == ""
    given = resumed_settings("monday", lost)
    assert (given["resume-from"], given["num-rounds"], given["output-dir"]) == ("1", 2, str(lost))
    assert parse_run_config(given).name == "monday"
