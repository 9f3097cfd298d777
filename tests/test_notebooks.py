"""The notebooks of docs/notebooks run, one in a fresh kernel, and are kept with what they printed."""

import ast
import contextlib
import io
import logging
import os
import re
import subprocess
import sys
import warnings
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


# in the two notebooks that take longer as they stand
FEWER = {"6000": "1500", '"parties": 60': '"parties": 15', "RandomForestClassifier(20)": "RandomForestClassifier(4)"}
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""


def _in_a_kernel(notebook, folder):
    """Run a notebook in a fresh kernel; return its cells."""
    nbformat.write(notebook, folder / "done.ipynb")
    folders = dict.fromkeys(("HOME", "FLWR_HOME", "IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"), str(folder))
    command = [sys.executable, "-c", RUN, "done.ipynb"]
    subprocess.run(command, cwd=folder, env={**os.environ, **folders}, check=True)
    return nbformat.read(folder / "done.ipynb", as_version=4).cells


def _here(notebook):
    """Run a notebook in this process; return its cells, with what they print and the value of their last line."""
    names = {}
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        *lines, last = ast.parse(cell.source).body
        value = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as said, warnings.catch_warnings(action="ignore"):
            exec(compile(ast.Module(lines if value else [*lines, last], []), "cell", "exec"), names)
            shown = eval(compile(value, "cell", "eval"), names) if value else None
        texts = [said.getvalue(), *([] if shown is None else [repr(shown)])]
        cell.outputs = [nbformat.v4.new_output("stream", text=text) for text in texts if text]
    return notebook.cells


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_a_notebook_prints_what_it_is_kept_with(path, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    printed = _printed(notebook.cells)
    for cell in notebook.cells:
        for words, fewer in FEWER.items():
            cell.source = cell.source.replace(words, fewer)
    level = logging.getLogger("flwr").level
    done = _in_a_kernel(notebook, tmp_path) if _name(path) == "first_federation" else _here(notebook)
    logging.getLogger("flwr").setLevel(level)
    assert _printed(done) == printed
    assert sum(map(bool, printed)) >= 3


# how many parties lose, and whether bytes are many, are figures too
FIGURES = r"(none|all|# of #) loses?|# worse: #|# K?B"
# cells whose figures follow from noise that no seed fixes
NOISY = ("print(repr(private))", "private.record")


def _printed(cells):
    """Return the words that each cell printed, figures as #; of a cell with noise only how many texts."""
    found = []
    for cell in cells:
        texts = [one.get("text") or one.data["text/plain"] for one in cell.get("outputs", ())]
        words = " ".join(re.sub(r"[-+]?[\d.,]+%?", "#", " ".join(texts)).split())
        drawn = any(noise in cell.source for noise in NOISY)
        found.append(len(texts) if drawn else re.sub(FIGURES, "", words))
    return found
