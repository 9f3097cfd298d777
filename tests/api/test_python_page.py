"""The Python lines of README.md and every block of docs/howto/python.md run, in order, beside a file of patients."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedkd_flwr as fk

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "howto" / "python.md"]


@pytest.mark.slow
def test_the_pages_lines_work_as_they_stand(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(20, 90, 150), "bmi": rng.normal(26, 4, 150).round(1)})
    rows = rows.assign(hospital=rng.choice(["north", "south"], 150), outcome=np.where(rows.age > 55, "ill", "well"))
    rows.to_csv("patients.csv", index=False)
    few = {"students_per_party": 1, "teachers_per_student": 2, "centralised": False}  # which takes less time
    scope: dict[str, object] = {}
    texts = [page.read_text(encoding="utf-8").replace("Classifier(20)", "Classifier(3)") for page in PAGES]
    texts[0] = texts[0].replace('"random-forest"', '"random-forest(n_estimators=3)"')
    blocks = [re.findall(r"```python\n(.*?)```", text, re.DOTALL) for text in texts]
    assert list(map(len, blocks)) == [1, 4]
    real = fk.simulate
    with monkeypatch.context() as patch:
        patch.setattr(
            fk, "simulate", lambda *rows, **given: real(*rows, **(given if "algorithm" in given else few | given))
        )
        exec(compile(blocks[0][0], "README", "exec"), scope)
        assert set(scope["result"].predict(scope["df"])) <= {"ill", "well"}
        for block in blocks[1]:
            exec(compile(block, "python.md", "exec"), scope)
    assert (tmp_path / "report.html").is_file()
    assert len(scope["fk"].runs()) == 3
    assert sorted(scope["model"].result_.parties.index) == ["north", "south"]
