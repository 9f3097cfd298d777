"""What the site has besides ``docs/**/*.md``: pages that lie elsewhere in the repository, results, and the API.

Pages link each other as they do in the repository (``../simulations/README.md``); here such links become links of the
site. A link to what neither the site nor the repository has is a warning, and `mkdocs build --strict` fails on it.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contribute.md",
    "SECURITY.md": "security.md",
    "simulations/README.md": "simulations.md",
    "examples/README.md": "examples/index.md",
    "examples/legacy/README.md": "examples/legacy.md",
    "examples/message_api/README.md": "examples/message_api.md",
    "examples/own_strategy/README.md": "examples/own_strategy.md",
    "tests/mutants.md": "mutants.md",
}
"""Path in the repository -> page of the site."""
API = {
    "strategies": "The server's side: strategies for Flower and their settings, for each algorithm.",
    "clients": "A party's side: NumPyClients for Flower, one for each algorithm.",
    "algorithms": "The cards of the algorithms and their settings.",
    "labels": "What labels, votes and scores mean.",
    "privacy": "Noise, what it provably costs, claims and ledgers.",
    "data": "Schemas, public rows, data sets, and who holds what.",
    "models": "Any classifier over a fixed set of classes.",
    "record": "What happened in a run.",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_IMPORT = re.compile(r"^from (fedkd_flwr\.[\w.]+) import (\w+) as \2$", re.MULTILINE)


def _places() -> dict[str, str]:
    """Return path in the repository -> path in the site, of everything that a page may link."""
    docs = ROOT / "docs"
    found = {_name(path): path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    for folder in ("pictures", "deploy"):
        found |= {_name(path): path.relative_to(docs).as_posix() for path in (docs / folder).iterdir()}
    results = [path for path in (ROOT / "benchmarks" / "results").rglob("*") if path.suffix in (".json", ".svg", ".md")]
    found |= {
        _name(path): f"results/{path.relative_to(ROOT / 'benchmarks' / 'results').as_posix()}" for path in results
    }
    return found | PAGES | {"benchmarks/results": "evidence/results.md"}


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def on_config(config: Any) -> Any:
    """Put pages that the navigation does not name into a last section, so that none is lost."""
    named = set(re.findall(r"'([\w/-]+\.md)'", repr(config.nav)))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    if further := sorted(pages - named):
        config.nav.append({"Further": further})
    config.watch += [str(ROOT / path) for path in PAGES]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what lies outside of docs/, and the pages of the API."""
    for path, uri in _places().items():
        if not path.startswith("docs/") and (ROOT / path).is_file():
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    index = ["# API", "", "Everything that is public, by room; `fedkd_flwr/` holds one folder or file for each.", ""]
    for room, words in API.items():
        index.append(f"- [`fedkd_flwr.{room}`](api/{room}.md): {words}")
        text = "\n\n".join([f"# `fedkd_flwr.{room}`", words, *(f"::: {name}" for name in _members(room))])
        files.append(File.generated(config, f"api/{room}.md", content=text + "\n"))
    files.append(File.generated(config, "api.md", content="\n".join(index) + "\n"))
    return files


def _members(room: str) -> list[str]:
    """Return what the page of a room shows: the names that it imports from its modules, or itself or its modules."""
    path = ROOT / "fedkd_flwr" / room
    if path.is_dir() and (names := _IMPORT.findall((path / "__init__.py").read_text(encoding="utf-8"))):
        return [f"{module}.{name}" for module, name in names]
    if room != "privacy":
        return [f"fedkd_flwr.{room}"]
    modules = [one for one in sorted(path.rglob("*.py")) if one.name != "checks.py"]
    return [".".join(one.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for one in modules]


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    places = _places()
    origin = next((path for path, uri in places.items() if uri == page.file.src_uri), None)
    if origin is None:
        return markdown

    def place(match: re.Match[str]) -> str:
        words, path, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        if path in places:
            target = os.path.relpath(places[path], posixpath.dirname(page.file.src_uri) or ".")
            return f"[{words}]({target}{anchor or ''})"
        return words if (ROOT / path).is_file() else match[0]  # code is in the repository, not on the site

    return _LINK.sub(place, markdown)
