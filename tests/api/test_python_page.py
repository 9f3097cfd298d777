"""Every block of docs/howto/python.md is run, in its order, beside a file of patients."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "python.md"


@pytest.mark.slow
def test_the_page_s_lines_work_as_they_stand(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(20, 90, 150), "bmi": rng.normal(26, 4, 150).round(1)})
    rows = rows.assign(hospital=rng.choice(["north", "south"], 150), outcome=np.where(rows.age > 55, "ill", "well"))
    rows.to_csv("patients.csv", index=False)
    scope: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), scope)
    assert len(blocks) == 4
    assert (tmp_path / "report.html").is_file()
    assert len(scope["fk"].runs()) == 2
    assert sorted(scope["model"].result_.parties.index) == ["north", "south"]
