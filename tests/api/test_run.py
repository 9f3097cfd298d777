"""A run in this process is the command line's, to the last digit."""

import sys

import pytest
from hospital import figures, hospital_rows
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import fedkd_flwr as fk
from fedkd_flwr.simulation.run import checked, in_processes
from fedkd_flwr.simulation.starter import party_starter

TREE = DecisionTreeClassifier(max_depth=3)


@pytest.mark.slow
def test_python_and_the_command_line_reach_the_same_figures_to_the_last_digit(tmp_path):
    rows = hospital_rows()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    settings = {"algorithm": "fedct", "num_rounds": 2, "seed": 3, "output_dir": str(tmp_path)}
    here = fk.simulate(
        rows, label="outcome", parties="hospital", model={"north": "knn", "south": GaussianNB(), "west": TREE},
        progress=False, **settings,
    )  # fmt: skip
    specs = "mixed:knn,sklearn.naive_bayes:GaussianNB,trees:shallow"
    (tmp_path / "trees.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier\n"
        "def shallow(seed): return DecisionTreeClassifier(max_depth=3, random_state=seed)\n"
    )
    words = {"dataset": "table", "table": str(tmp_path / "rows.csv"), "label": "outcome", "model": specs}
    words |= {"partition-column": "hospital", **{key.replace("_", "-"): value for key, value in settings.items()}}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setitem(sys.modules, "matplotlib", None)  # its page needs no pictures
        patch.syspath_prepend(tmp_path)
        record, _ = in_processes(checked(words), party_starter(), lambda text: None, processes=1)
    assert record.status == "completed", record.reason
    assert figures(record) == figures(here.record)
