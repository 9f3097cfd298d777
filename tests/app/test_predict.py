"""Labels for raw rows by a run's models: which files are meant, and what is answered; tests/cli has what is refused."""

import pandas as pd
import pytest
from cli.saved_models import home

from fedkd_flwr.app.predict import find_models
from fedkd_flwr.errors import DataError
from fedkd_flwr.record.parts import PartyRecord
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.stores.files import file_name
from fedkd_flwr.stores.record_file import RecordFile

__all__ = ["home"]

ROWS = pd.DataFrame({"number": ["007", "008"], "age": [20, 70], "job": ["smith", "clerk"], "shoe": [40, 41]})


def test_a_run_s_models_are_the_server_s_or_else_those_of_its_parties_with_the_federation(home):
    names = {run: [path.name for path in find_models(run, home)] for run in ("71", "72")}
    assert names == {"71": ["model.fedkd"], "72": ["a.model", "b.model"]}
    (of_b,) = find_models("72", home, party="b")
    assert find_models(str(of_b)) == [of_b]


def test_parties_of_a_run_that_continues_another_keep_their_models_with_the_first(tmp_path):
    kept = [tmp_path / "72" / "parties" / f"{party}.model" for party in "ab"]
    kept[0].parent.mkdir(parents=True)
    for file in kept:
        file.touch()
    Lineage.new("72").then("73").save(tmp_path / "73" / "checkpoint")
    assert find_models(str(tmp_path / "73"), tmp_path) == kept


def test_a_party_that_is_not_there_is_told_the_names_of_those_that_are_and_not_of_their_files(tmp_path):
    (tmp_path / "parties").mkdir()
    for name in ("north", "Süd"):
        (tmp_path / "parties" / f"{file_name(name)}.model").touch()
    parties = [PartyRecord(name=name, model="knn") for name in ("north", "Süd")]
    record = RunRecord(run_id="7", algorithm="fedct", parties=parties)
    RecordFile(tmp_path / "record.json").write(record)
    with pytest.raises(DataError, match="There: Süd, north"):
        find_models(str(tmp_path), party="Ost")
    assert find_models(str(tmp_path), party="Süd") == [tmp_path / "parties" / f"{file_name('Süd')}.model"]
