"""The Python of README.md and docs/howto/python.md is run, in its order, beside a file of patients."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "howto" / "python.md"

pytest.importorskip("fedkd_flwr.api", reason="the door to Python")
pytestmark = pytest.mark.slow


def _run(page, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(20, 90, 150), "bmi": rng.normal(26, 4, 150).round(1)})
    rows = rows.assign(hospital=rng.choice(["north", "south"], 150), outcome=np.where(rows.age > 55, "ill", "well"))
    rows.to_csv("patients.csv", index=False)
    scope: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        exec(compile(block, str(page), "exec"), scope)
    return len(blocks), scope


def test_the_five_lines_of_readme_work_as_they_stand(tmp_path, monkeypatch):
    count, scope = _run(README, tmp_path, monkeypatch)
    assert count == 1
    assert set(scope["result"].predict(scope["df"])) <= {"ill", "well"}


def test_the_page_s_lines_work_as_they_stand(tmp_path, monkeypatch):
    count, scope = _run(PAGE, tmp_path, monkeypatch)
    assert count == 4
    assert (tmp_path / "report.html").is_file()
    assert len(scope["fk"].runs()) == 2
    assert sorted(scope["model"].result_.parties.index) == ["north", "south"]
