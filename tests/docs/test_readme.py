"""The five lines of README.md work as they stand, beside a file of patients."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.slow
def test_the_five_lines_answer_with_classes(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(20, 90, 150), "bmi": rng.normal(26, 4, 150).round(1)})
    rows = rows.assign(hospital=rng.choice(["north", "south"], 150), outcome=np.where(rows.age > 55, "ill", "well"))
    rows.to_csv("patients.csv", index=False)
    (block,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    scope = {}
    exec(compile(block, str(README), "exec"), scope)
    assert set(scope["result"].predict(scope["df"])) <= {"ill", "well"}
