"""Public rows drawn from noisy sums: a schema's own file, the draw from a run, the page, and the whole chain."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict
from schemas import column

from fedkd_flwr.app.choose import choose
from fedkd_flwr.app.client_app import app
from fedkd_flwr.app.public_rows import _page, bin_file, cost_of, make_public, template
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.simulation.run import with_drawn_rows
from fedkd_flwr.stores.saved_model import load

SCHEMA = Schema(
    columns=(column("age", bins=(18, 30, 45, 60, 99)), column("ward", "east", "west")),
    classes=("home", "ward"),
    label="outcome",
)
PARTIES = 3
QUICK = {"num-parties": PARTIES, "nodes-stable-s": 0.01, "model": "decision-tree", "centralised": False}


@pytest.fixture
def settings(tmp_path):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 600)
    age = np.where(y == 1, rng.integers(50, 99, 600), rng.integers(18, 60, 600))
    ward = np.where(rng.random(600) < 0.8, np.where(y == 1, "west", "east"), "")
    table = pd.DataFrame({"age": age, "ward": ward, "outcome": np.array(SCHEMA.classes)[y]})
    table.to_csv(tmp_path / "patients.csv", index=False)
    SCHEMA.write(tmp_path / "schema.toml")
    own = {"dataset": "table", "table": str(tmp_path / "patients.csv"), "label": "outcome", **QUICK}
    return {**own, "schema-path": str(tmp_path / "schema.toml"), "output-dir": str(tmp_path / "out"), "seed": 1}


def grid(values, run_id):
    nodes = [{"partition-id": i, "num-partitions": PARTIES} for i in range(PARTIES)]
    return InProcessGrid(app, nodes, values, run_id=run_id)


def run(values, run_id):
    return federate(grid(values, run_id), Context(run_id, 0, {}, RecordDict(), values), page=False)


def test_drawn_rows_are_a_public_file_with_a_page_that_says_what_they_cost_and_how_near_they_are(settings, tmp_path):
    record = run({**settings, "algorithm": "noisy-sums", "epsilon": 5.0}, 7)
    assert record.status == "completed"
    facts = make_public("7", tmp_path / "public", rows=300, output_dir=settings["output-dir"])
    public = load_public(tmp_path / "public" / "public.csv")
    assert public.num_rows == 300
    assert public.y is None  # what a row was drawn as is no truth
    shares = tuple(facts["class shares"].values())
    assert (public.schema, public.fingerprint) == (replace(SCHEMA, class_shares=shares), facts["fingerprint"])
    assert facts == json.loads((tmp_path / "public" / "public.json").read_text())
    assert facts["claims"][0]["epsilon"] <= 5.0
    assert sum(facts["class shares"].values()) == pytest.approx(1)
    assert max(facts["near"]["columns"].values()) < 0.15
    assert facts["near"]["fit"] > 0.5
    page = (tmp_path / "public" / "public.md").read_text()
    for words in ("300 rows, nobody's", "epsilon 5: one record against the server, delta 1e-05", "| column age |"):
        assert words in page
    assert "far from private ones" not in page
    far = {**facts, "near": {**facts["near"], "fit": 0.2}}
    assert "far from private ones" in _page(far, SCHEMA)
    again = make_public("7", tmp_path / "again", rows=300, output_dir=settings["output-dir"])
    assert again["fingerprint"] == facts["fingerprint"]


def test_a_run_without_sums_is_refused(settings, tmp_path):
    run({**settings, "algorithm": "fedct", "num-rounds": 1}, 8)
    with pytest.raises(DataError, match="run 8 must have left noisy sums, got 'fedct'"):
        make_public("8", tmp_path / "public", output_dir=settings["output-dir"])


def test_a_schema_alone_gives_the_public_file_of_a_run_whose_model_needs_no_public_rows(settings, tmp_path):
    public = bin_file(tmp_path / "schema.toml", tmp_path / "bins")
    assert public.num_rows == 4
    values = {**settings, "algorithm": "noisy-sums", "epsilon": 5.0, "paper.party-models": False}
    record = run({**values, "public-rows": str(tmp_path / "bins" / "bins.csv")}, 9)
    assert record.num_public == 4
    assert record.server["common"].accuracy > 0.8
    images = Schema(columns=(), classes=("a", "b"), shape=(1, 2, 2))
    images.write(tmp_path / "images.toml")
    with pytest.raises(DataError, match="noisy sums must be of a table, got images"):
        bin_file(tmp_path / "images.toml", tmp_path / "bins")


def test_the_chain_draws_rows_from_the_same_parties_and_says_what_is_claimed_of_what(settings, monkeypatch):
    settings |= {"algorithm": "fedkt", "fedkt.students-per-party": 1, "fedkt.teachers-per-student": 2}
    values = {**settings, "draw-public-epsilon": 3.0}
    drawn = with_drawn_rows(parse_run_config(values), values, grid)
    file = drawn["public-rows"]
    assert cost_of(file)["epsilon"] <= 3.0
    plain = run(drawn, 11)
    own = run(settings, 12)
    assert plain.num_public == own.num_public
    server = load(Path(settings["output-dir"]) / "runs" / "11" / "model.fedkd")
    assert tuple(server.shares) == server.encoder.schema.class_shares  # the released shares are its prior
    assert [p.class_counts for p in plain.parties] == [p.class_counts for p in own.parties]
    (note,) = [note for note in plain.notes if note.code == "drawn-rows"]
    assert plain.publishable().notes == [note]  # who reads the publishable record must see what the rows cost
    assert note.values == {"epsilon": "3", "delta": "1e-05", "adversary": "server"}
    noise = {"fedkt.level": "L2", "noise": "laplace", "epsilon": 4.0, "fedkt.teachers-per-student": 3}
    noisy = run({**drawn, **noise}, 13)
    (note,) = [note for note in noisy.notes if note.code == "drawn-rows-too"]
    record = next(claim for claim in noisy.claims if claim["unit"] == "record")
    assert float(note.values["total"]) >= record["epsilon"] + cost_of(file)["epsilon"]
    assert float(note.values["total_delta"]) >= record["delta"] + 1e-5
    assert not [note for note in own.notes if str(note.code).startswith("drawn")]
    monkeypatch.chdir(Path(file).parent)
    assert cost_of("") is cost_of("DataFrame-123") is None  # rows of no file are not those that lie here


def test_what_cannot_draw_refuses_to_run_without_drawn_rows(settings, tmp_path):
    values = {**settings, "algorithm": "fedkt", "draw-public-epsilon": 3.0}
    for more in ({}, {"public-rows": settings["table"]}):  # rows of which nothing says that they were drawn
        with pytest.raises(ConfigError, match="draw-public-epsilon must be given to fedkd simulate or "):
            run({**values, **more}, 14)
    assert not (tmp_path / "out" / "runs").exists()
    with pytest.raises(ConfigError, match="draw-public-epsilon must be given to fedkd simulate"):
        choose(values)


def test_settings_of_a_simulation_are_refused_at_silos():
    with pytest.raises(ConfigError, match="draw-public-epsilon and public-rows must not be given with public-path"):
        parse_run_config({"public-path": "/srv/public.csv", "draw-public-epsilon": 1.0})


def test_a_template_has_every_column_but_the_label():
    made = template(["age", "ward", "outcome"], label="outcome", classes=["home", "ward"])
    assert [column.name for column in made.columns] == ["age", "ward"]
    assert Schema.from_toml(made.to_toml()) == made
