"""One simulated run: what is refused before it, what it leaves, and the noisy sums that drawn rows come from."""

import os

import pytest

from fedkd_flwr.errors import ConfigError, FedkdError
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation import run as simulation
from fedkd_flwr.simulation.parties import printed_to
from fedkd_flwr.simulation.run import checked, in_processes, with_drawn_rows

SMALL = {"dataset": "synthetic(rows=400)", "model": "knn"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modl": "knn"}, "Did you mean model"),
        ({"public-path": "/srv/public.csv"}, "public-path must not be given to a simulation.*fedkd server run"),
        ({"dataset": "table", "table": "/no/rows.csv", "label": "y"}, "/no/rows.csv"),
        ({"num-parties": 1}, "min-parties"),
        ({"teacher-model": "nobody", "algorithm": "fedkt"}, "nobody"),
    ],
)
def test_wrong_settings_are_refused_before_anything_starts(values, message):
    with pytest.raises(FedkdError, match=message):
        checked({**SMALL, **values})


def test_parties_are_ten_unless_the_settings_say_otherwise():
    assert [checked({**SMALL, **more}).num_parties for more in ({}, {"num-parties": 3})] == [10, 3]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    config = parse_run_config({**SMALL, "num-parties": 2, "output-dir": str(tmp_path / "file")})
    with pytest.raises(ConfigError, match=r"output-dir must be a folder that can be written.*output-dir=FOLDER"):
        in_processes(config, None, print)


def test_a_run_that_fails_leaves_its_record_and_the_traceback_in_its_log(tmp_path, monkeypatch, capfd):
    def fails(*_):
        os.write(1, b"from C code\n")
        raise ZeroDivisionError("of a model")

    monkeypatch.setattr("fedkd_flwr.app.server_app._run", fails)
    config = parse_run_config({**SMALL, "num-parties": 2, "output-dir": str(tmp_path)})
    record, folder = in_processes(config, None, print)
    assert (record.status, record.config["num-parties"], record.run_id) == ("failed", 2, folder.name)
    log = (folder / "log.txt").read_text(encoding="utf-8")
    assert log == "from C code\n"  # what Python prints is pytest's here
    assert "from C code" not in capfd.readouterr().out
    in_processes(config, None, print, verbose=True)
    assert "from C code" in capfd.readouterr().err


def test_what_is_printed_after_the_run_is_printed_again(tmp_path, capfd):
    with printed_to(str(tmp_path / "log")):
        os.write(1, b"inside\n")
    os.write(1, b"outside\n")
    assert (tmp_path / "log").read_text() == "inside\n"
    assert capfd.readouterr().out == "outside\n"


def test_a_refusal_before_there_is_a_record_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "federate", None)
    config = parse_run_config({**SMALL, "num-parties": 2, "output-dir": str(tmp_path)})
    with pytest.raises(TypeError):
        in_processes(config, None, print)


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
