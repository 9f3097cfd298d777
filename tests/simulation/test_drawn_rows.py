"""A simulation without public rows: what the noisy sums before it share with it."""

import pytest

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.drawn_rows import with_drawn_rows

TABLE = {"dataset": "table", "table": "/rows.csv", "label": "y", "num-parties": 3, "seed": 5}


class Asked(Exception):
    """The settings that a grid is made for."""


def _ask(values, *, run_id):
    raise Asked(values)


def test_where_no_rows_are_to_be_drawn_or_a_continued_run_has_its_own_the_settings_are_as_they_were():
    for more in ({}, {"draw-public-epsilon": 1.0, "resume-from": "/run", "public-rows": "/drawn.csv"}):
        values = {**TABLE, **more}
        assert with_drawn_rows(parse_run_config(values), values, _ask) == values


def test_the_sums_are_of_the_same_rows_and_parties_with_an_epsilon_of_their_own_and_nothing_else_of_the_run():
    own = {"algorithm": "fedkt", "name": "mine", "model": "knn", "fedkt.teachers-per-student": 3, "centralised": True}
    values = {**TABLE, **own, "draw-public-epsilon": 2.0}
    with pytest.raises(Asked) as caught:
        with_drawn_rows(parse_run_config(values), values, _ask)
    (first,) = caught.value.args
    assert {key: first[key] for key in TABLE} == TABLE
    assert (first["algorithm"], first["epsilon"], first["name"]) == ("noisy-sums", 2.0, "mine-public")
    assert (first["model"], first["centralised"], first["paper.party-models"]) == ("decision-tree", False, False)
    assert not {"fedkt.teachers-per-student", "draw-public-epsilon"} & first.keys()
    assert parse_run_config(first).card.name == "noisy-sums"


def test_rows_that_are_given_are_not_drawn_too():
    values = {**TABLE, "draw-public-epsilon": 2.0, "public-rows": "/u.csv"}
    with pytest.raises(ConfigError, match="draw-public-epsilon must not be given with public-rows"):
        with_drawn_rows(parse_run_config(values), values, _ask)
