"""The notebooks of docs/notebooks run in a fresh kernel, and are kept with what they printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def _name(path):
    return path.stem


def test_there_are_three():
    assert list(map(_name, NOTEBOOKS)) == ["add_a_guarantee", "first_federation", "from_fedavg_to_fedct"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_a_notebook_is_kept_with_its_outputs_and_names_no_machine_and_no_failure(path):
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    shown = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
    assert len(shown) >= 3
    assert {output.output_type for cell in shown for output in cell.outputs} <= {"execute_result", "stream"}
    assert not any(output.get("name") == "stderr" for cell in shown for output in cell.outputs)
    assert not re.search(r"/(home|tmp|root|work|Users|opt|usr)/|[A-Z]:\\\\", re.sub(r"base64,[^\"\\]*", "", text))
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, "done.ipynb")
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_a_notebook_runs_in_a_fresh_kernel(path, tmp_path):
    folders = dict.fromkeys(("HOME", "FLWR_HOME", "IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"), tmp_path)
    process = subprocess.run(
        [sys.executable, "-c", RUN, str(path)],
        cwd=tmp_path,
        env={**os.environ, **{name: str(folder) for name, folder in folders.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    kept, done = (nbformat.read(one, as_version=4).cells for one in (path, tmp_path / "done.ipynb"))
    printed = _printed(kept)
    assert _printed(done) == printed
    assert sum(map(bool, printed)) >= 3


# cells whose figures follow from noise that no seed fixes
NOISY = ("print(repr(private))", "private.record")


def _printed(cells):
    """Return the words that each cell printed, figures as #; of a cell with noise only how many texts."""
    texts = [[one.get("text") or one.data["text/plain"] for one in cell.get("outputs", ())] for cell in cells]
    noisy = [any(words in cell.source for words in NOISY) for cell in cells]
    return [
        " ".join(re.sub(r"[-+]?[\d.,]+%?", "#", " ".join(text)).split()) if not drawn else len(text)
        for text, drawn in zip(texts, noisy, strict=True)
    ]
