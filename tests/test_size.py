"""How many lines each room may have. The limits are only ever lowered; a new capability says what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fedkd_flwr"
LIMITS = {
    "__init__": 19,
    "algorithms": 2_458,
    "app": 3_531,
    "audit": 966,
    "baselines": 1_575,
    "checks": 157,
    "cli": 1_169,
    "clients": 3_504,
    "data": 5_429,
    "errors": 251,
    "files": 118,
    "json_values": 20,
    "labels": 2_442,
    "metrics": 362,
    "models": 4_709,
    "onnx_graphs": 879,
    "privacy": 4_647,
    "processes": 76,
    "record": 730,
    "registry": 45,
    "report": 4_784,
    "rounding": 36,
    "saved_model": 196,
    "seeds": 39,
    "settings": 631,
    "silo": 4_929,
    "simulation": 1_248,
    "spreadsheets": 32,
    "stores": 2_164,
    "strategies": 3_491,
    "terminal": 32,
    "watchdog": 47,
    "wire": 1_234,
}

KINDS = (".py", ".html", ".css", ".md")  # of code: templates of pages are code too


def _lines(room: str) -> int:
    path = PACKAGE / room
    files = path.rglob("*.*") if path.is_dir() else [path.with_suffix(".py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files if file.suffix in KINDS)


@pytest.mark.parametrize("room", LIMITS)
def test_a_room_is_no_larger_than_its_limit(room):
    assert _lines(room) <= LIMITS[room]


def test_every_room_has_a_limit():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()} - {"__pycache__", "py"}
    assert rooms == set(LIMITS)
