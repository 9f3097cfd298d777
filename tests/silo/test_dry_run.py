"""A dry run shows what the real run then sends, for every algorithm, and changes nothing."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.algorithms import cards
from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.silo.dry_run import _copy_ledgers, dry_run
from fedkd_flwr.stores.egress_log import read_log
from fedkd_flwr.wire.records import open_reply

SCHEMA = Schema(
    columns=(
        Column(name="age", kind="numeric"),
        Column(name="job", kind="categorical", categories=("cook", "smith")),
    ),
    classes=("low", "high"),
    label="income",
)
ONE_ROUND = {"num-rounds": 1, "num-parties": 2, "node-deadline-s": 1.0, "seed": 3}
NET = {"model": "mlp", "model-params": "hidden=4,epochs=1"}
# settings of one short round, for each algorithm
RUNS = {
    "fedct": {"model": "decision-tree"},
    "fedkt": {"model": "decision-tree", "fedkt.teachers-per-student": 2},
    "pate": {"model": "decision-tree"},
    "fedmd": {"model": "decision-tree"},
    "dd": {"model": "decision-tree"},
    "dsfl": {"model": "decision-tree"},
    "scarlet": {"model": "decision-tree"},
    "fedprox": {**NET, "local-epochs": 1, "paper.solo-epochs": 1},
    "fedavg": {**NET, "local-epochs": 1, "paper.solo-epochs": 1},
    "dp-fedavg": {**NET, "local-epochs": 1, "paper.solo-epochs": 1},
    "feddf": {**NET, "local-epochs": 1, "paper.solo-epochs": 1, "feddf.distill-epochs": 1},
    "pfnm": {**NET, "local-epochs": 1, "paper.solo-epochs": 1},
    "scaffold": {**NET, "model-params": "hidden=4,epochs=1,optimizer=sgd", "local-epochs": 1, "paper.solo-epochs": 1},
    "fedkt-prox": {**NET, "local-epochs": 1, "paper.solo-epochs": 1, "fedkt.teachers-per-student": 2},
    "privatekt": {**NET, "local-epochs": 1, "paper.solo-epochs": 1},
    "noisy-sums": {"model": "decision-tree", "noisy-sums.noise-multiplier": 2.0},
}
NOISY = {
    "fedct": {"model": "decision-tree", "label-epsilon": 1.0, "label-mechanism": "randomized-response"},
    "fedmd": {"model": "decision-tree", "subset-rows": 10},
    "privatekt": RUNS["privatekt"],
}


def _table(rows, seed, *, labelled=True):
    rng = np.random.default_rng(seed)
    high = rng.integers(0, 2, rows)
    ages = np.where(high, rng.normal(60, 9, rows), rng.normal(40, 9, rows)).round(1)
    lines = [
        f"{age},{'smith' if h else 'cook'}" + (f",{'high' if h else 'low'}" if labelled else "")
        for age, h in zip(ages, high, strict=True)
    ]
    return "\n".join(["age,job" + (",income" if labelled else ""), *lines]) + "\n"


pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of two silos and of the server, for all runs of this module."""
    folder = tmp_path_factory.mktemp("files")
    for seed, name in enumerate(("server", "north", "south")):
        (folder / name).mkdir()
        (folder / name / "public.csv").write_text(_table(24, 9, labelled=False))
        SCHEMA.write(folder / name / "schema.toml")
        (folder / name / "own.csv").write_text(_table(30, seed))
    return folder


def _node(files, state, name="north", **changes):
    folder = files / name
    own = {"party": name, "data-path": str(folder / "own.csv"), "public-path": str(folder / "public.csv")}
    return {**own, "state-dir": str(state / name), "allow-algorithms": ",".join(cards()), **changes}


def _config(files, state, algorithm, settings):
    places = {"public-path": str(files / "server" / "public.csv"), "output-dir": str(state / "out")}
    return {"algorithm": algorithm, **ONE_ROUND, **places, **settings}


def _sent(files, state, config, **changes):
    """The first reply of north in a real run: its named arrays and its metrics."""
    nodes = [_node(files, state, name, **changes) for name in ("north", "south")]
    replies = []

    def handler(message, context):
        reply = client_app(message, context)
        if message.metadata.message_type == "train":  # not where it is asked whether it is ready
            replies.append(reply)
        if len(replies) == 2:  # what comes after the first round's replies is no part of this
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        federate(InProcessGrid(handler, nodes, config), Context(1, 1, {}, RecordDict(), config), page=False)
    return open_reply(replies[0], "fit")


def _files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()
    }


def test_every_algorithm_is_among_these():
    assert set(RUNS) == set(cards())


def test_labels_that_the_server_alone_knows_change_nothing_of_what_a_silo_s_dry_run_shows(files, tmp_path):
    """The silo's public file has no labels to draw known rows from, and must not need them."""
    with_them = dry_run(_config(files, tmp_path, "fedct", {"known-rows": 12}), _node(files, tmp_path))
    without = dry_run(_config(files, tmp_path, "fedct", {}), _node(files, tmp_path))
    assert with_them.code == ""
    assert with_them.table == without.table
    assert with_them.reply.arrays.keys() == without.reply.arrays.keys()


@pytest.mark.parametrize("algorithm", sorted(set(RUNS) - {"noisy-sums", "privatekt"}))
def test_without_noise_the_bytes_and_their_digest_are_those_of_the_run(files, tmp_path, algorithm):
    config = _config(files, tmp_path, algorithm, RUNS[algorithm])
    found = dry_run(config, _node(files, tmp_path))
    assert (found.code, found.noisy) == ("", False), found.why
    assert not (tmp_path / "north").exists()
    sent = _sent(files, tmp_path, config)
    assert sent.code == ""
    assert list(found.reply.arrays) == list(sent.arrays)
    for name, array in sent.arrays.items():
        assert found.reply.arrays[name].dtype == array.dtype
        assert found.reply.arrays[name].tobytes() == array.tobytes()
    line = read_log(tmp_path / "north" / "egress" / "north" / "log.jsonl").lines[0]
    assert line["left"]
    for output in (line["output"], found.facts["output"]):
        assert set(output.pop("sender")) == {"node-proof"}  # of the node in this run
    assert line["output"] == found.facts["output"]
    assert len(found.table) == (0 if "model.0" in sent.arrays else found.facts["output"]["num_examples"] + 1)


@pytest.mark.parametrize("algorithm", sorted(NOISY))
def test_with_noise_all_but_the_draw_is_that_of_the_run_and_it_is_shown_as_such(files, tmp_path, algorithm):
    config = _config(files, tmp_path, algorithm, NOISY[algorithm])
    found = dry_run(config, _node(files, tmp_path))
    assert (found.code, found.noisy) == ("", True), found.why
    sent = _sent(files, tmp_path, config)
    assert sent.code == ""
    assert list(found.reply.arrays) == list(sent.arrays)
    assert [a.dtype for a in found.reply.arrays.values()] == [a.dtype for a in sent.arrays.values()]
    line = read_log(tmp_path / "north" / "egress" / "north" / "log.jsonl").lines[0]
    assert line["claim"] == found.facts["claim"]
    assert line["output"]["metrics"] == found.facts["output"]["metrics"]
    assert line["output"]["num_examples"] == found.facts["output"]["num_examples"]


def test_a_dry_run_charges_nothing_and_changes_no_file_and_sees_what_was_spent(files, tmp_path):
    config = _config(files, tmp_path, "fedct", NOISY["fedct"])
    _sent(files, tmp_path, config)
    before = _files(tmp_path / "north")
    found = dry_run(config, _node(files, tmp_path))
    assert found.code == ""
    assert _files(tmp_path / "north") == before
    spent = dry_run(config, _node(files, tmp_path, **{"epsilon-budget": 1e-6}))
    assert spent.code == "budget-exceeded"
    assert "privacy budget of north" in spent.why
    assert _files(tmp_path / "north") == before


def test_a_refusal_is_shown_with_its_code_and_what_the_party_s_own_log_would_say(files, tmp_path):
    config = _config(files, tmp_path, "fedct", RUNS["fedct"])
    found = dry_run(config, _node(files, tmp_path, **{"run-rules": "num-rounds<=0"}))
    assert (found.code, found.table) == ("not-allowed", [])
    assert "run-rules of this site must be kept (num-rounds<=0), got '1'" in found.why


def test_the_table_names_public_rows_their_columns_and_the_label(files, tmp_path):
    found = dry_run(_config(files, tmp_path, "fedct", RUNS["fedct"]), _node(files, tmp_path))
    assert found.table[0] == ["public row", "age", "job", "label"]
    first = (files / "north" / "public.csv").read_text().splitlines()[1].split(",")
    assert found.table[1][:3] == ["0", *first]
    assert {row[3] for row in found.table[1:]} <= {"low", "high"}
    assert sha256(found.reply.arrays["labels"].tobytes()).hexdigest() == found.facts["output"]["arrays"][0]["sha256"]


def test_a_simulated_node_has_no_dry_run(files, tmp_path):
    with pytest.raises(ConfigError, match="data-path must be given for a dry run"):
        dry_run({}, {"partition-id": 0, "num-partitions": 2})


def test_a_ledger_that_cannot_be_read_is_named_with_the_way_out(tmp_path):
    """As for another user than that of the node, whose files nobody else may read."""
    (tmp_path / "state" / "ledgers").mkdir(parents=True)
    (tmp_path / "state" / "ledgers" / "rows.key").symlink_to(tmp_path / "gone")
    with pytest.raises(DataError, match=r"rows\.key must be readable for a dry run, got .* the user of the node"):
        _copy_ledgers(tmp_path / "state", tmp_path / "copy")


def test_a_folder_of_ledgers_that_only_the_node_may_enter_is_named_with_the_way_out(tmp_path, monkeypatch):
    """The folder is made so; then `shutil` names no files."""
    (tmp_path / "state" / "ledgers").mkdir(parents=True)

    def scandir(path):  # tests may run as root, whom no mode keeps out
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", scandir)
    with pytest.raises(DataError, match=r"ledgers must be readable for a dry run, got .* the user of the node"):
        _copy_ledgers(tmp_path / "state", tmp_path / "copy")
