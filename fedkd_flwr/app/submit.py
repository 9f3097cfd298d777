"""Runs at a SuperLink, submitted, followed and judged through Flower's own command ``flwr``; the app that is sent."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import getproxies, proxy_bypass

from fedkd_flwr.algorithms import Card, cards
from fedkd_flwr.algorithms.card import Config
from fedkd_flwr.errors import ConfigError, FedkdError, explain
from fedkd_flwr.registry import BUNDLE, load
from fedkd_flwr.settings.config import RunConfig, parse_run_config

__all__ = ["FlowerError", "Submitted", "app_folder", "direct", "flower", "flower_env", "follow", "proxy_of"]
__all__ += ["run_config_toml", "settings_of", "status", "submit", "toml"]

_LOCAL = ":local"  # so begins the address of a SuperLink that Flower starts on this machine, for simulations
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
# by name it may be another environment's, or nowhere on the PATH
_FLWR = (sys.executable, "-P", "-c", "from flwr.cli.app import app; app()")
_TEXT: dict[str, Any] = {"text": True, "encoding": "utf-8", "errors": "replace"}
_CODE = re.compile(r"\[code: \d+\] ")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def flower_env() -> dict[str, str]:
    """Return the environment for Flower's commands: they say less, and reach this machine without a proxy."""
    return {**os.environ, **_QUIET, **direct()}


class FlowerError(FedkdError, RuntimeError):
    """Flower refused a command, or its SuperLink cannot be reached."""


class Submitted(NamedTuple):
    """A run that a SuperLink has accepted."""

    run_id: str
    bundle: Any  # `fedkd_flwr.silo.bundles.Bundle`: what each silo approves


def submit(values: Mapping[str, Any], *, superlink: str = "", app: Path | None = None) -> Submitted:
    """Submit a run of this app, or of the app in the folder ``app``, to a SuperLink; its settings are checked first."""
    config = parse_run_config(values)
    if not config.public_path:
        way_out = "Give the path that it has at the server: public-path=/srv/public.csv. Without silos: fedkd simulate"
        raise ConfigError(explain("public-path", "be given to a run at real silos", config.public_path, way_out))
    if _is_local(superlink):
        rule = "be one that silos are connected to"
        way_out = (
            "Flower would simulate parties there. Name yours in Flower's configuration (`flwr config list` says where "
            "it is) and give --superlink NAME. To try: fedkd dev net 3. Without silos: fedkd simulate"
        )
        raise ConfigError(explain("the SuperLink", rule, f"{superlink or 'the default'} ({_LOCAL}:)", way_out))
    with tempfile.TemporaryDirectory(prefix="fedkd-run-") as scratch:
        folder = app or app_folder(Path(scratch))
        bundle = load(BUNDLE)(folder)
        settings = Path(scratch) / "run.toml"
        settings.write_text("".join(f"{key} = {toml(value)}\n" for key, value in values.items()), encoding="utf-8")
        answer = flower("run", str(folder), *_named(superlink), "--run-config", str(settings))
    return Submitted(run_id=str(answer["run-id"]), bundle=bundle)


def _is_local(superlink: str) -> bool:
    """Tell whether Flower would start this SuperLink here; raise `FlowerError` where no configuration names it."""
    import click
    from flwr.cli.flower_config import read_superlink_connection

    try:
        return str(read_superlink_connection(superlink or None).address).startswith(_LOCAL)
    except click.ClickException as error:
        raise FlowerError(error.message) from error


def follow(run_id: str, superlink: str = "") -> Iterator[str]:
    """Yield the lines of a run's log until it has ended."""
    with subprocess.Popen(
        [*_FLWR, "log", run_id, *_named(superlink), "--stream"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **_TEXT,
        env=flower_env(),
    ) as process:
        try:
            for line in process.stdout or ():
                yield _COLOURS.sub("", line).rstrip()
        finally:
            process.terminate()


def status(run_id: str, superlink: str = "") -> tuple[str, str]:
    """Return how a run stands, such as ``running`` or ``finished:completed``, and Flower's words on it."""
    run = flower("list", *_named(superlink), "--run-id", run_id)["runs"][0]
    return str(run["status"]), str(run.get("status-details") or run.get("details") or "")


def flower(*arguments: str, run: Callable[..., Any] = subprocess.run) -> dict[str, Any]:
    """Call ``flwr`` and return its JSON answer.

    Raises `FlowerError` if it says that it failed, or says nothing that can be read.
    """
    done = run([*_FLWR, *arguments, "--format", "json"], capture_output=True, **_TEXT, env=flower_env(), check=False)
    said = _COLOURS.sub("", done.stdout + done.stderr)
    try:
        answer: dict[str, Any] = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])[0]
    except ValueError:
        answer = {"success": False, "error-message": said}
    if answer.get("success") is not True:
        why = " ".join(str(answer.get("error-message") or said).replace("Error:", "").split())
        why = _CODE.split(why)[-1].removesuffix(".")  # before its code stands what it was about to do
        way_out = "`flwr config list` shows the connections; `fedkd dev net 3` starts a federation to try."
        if "onnection" in why and (proxy := proxy_of("superlink.invalid")):
            way_out = f"The environment has {proxy}: without it, NO_PROXY=HOST of the SuperLink. {way_out}"
        raise FlowerError(explain(f"flwr {arguments[0]}", "be accepted by Flower", f"an error: {why[:400]}", way_out))
    return answer


def _named(superlink: str) -> list[str]:
    return [superlink] if superlink else []


_PACKAGE = Path(__file__).parents[1]
_PROJECT = """[project]
name = "fedkd-flwr"
version = {version}
description = {description}
license = "Apache-2.0"

[tool.flwr.app]
publisher = "fedkd"

[tool.flwr.app.components]
serverapp = "fedkd_flwr.app.server_app:app"
clientapp = "fedkd_flwr.app.client_app:app"

[tool.flwr.app.config]
"""


def app_folder(scratch: Path) -> Path:
    """Return the folder of this app: the checkout that this package is imported from, else one made in ``scratch``.

    Equal releases make equal folders, and so equal bundles.
    """
    checkout = _PACKAGE.parent / "pyproject.toml"
    if checkout.is_file() and "flwr" in tomllib.loads(checkout.read_text(encoding="utf-8")).get("tool", {}):
        return checkout.parent
    made = scratch / "app"
    shutil.copytree(_PACKAGE, made / _PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    about = metadata("fedkd-flwr")
    head = _PROJECT.format(version=json.dumps(about["Version"]), description=json.dumps(about["Summary"]))
    (made / "pyproject.toml").write_text(head + run_config_toml(cards().values()) + "\n", encoding="utf-8")
    return made


def settings_of(chosen: Iterable[Card]) -> dict[str, tuple[type[Config], str, list[Card]]]:
    """Return each algorithm's setting once: key -> (a class that has it, field name, the algorithms that read it)."""
    found: dict[str, tuple[type[Config], str, list[Card]]] = {}
    for card in chosen:
        for name, key in card.config.keys().items():
            found.setdefault(key, (card.config, name, []))[2].append(card)
    return dict(sorted(found.items(), key=lambda item: ("." in item[0], item[0])))


def run_config_toml(chosen: Iterable[Card], *, general: bool = True) -> str:
    """Return the run config's defaults as TOML, sections last."""
    lines: list[str] = []
    sections: dict[str, list[str]] = {}
    every: list[tuple[str, type[Config], str]] = []
    if general:
        every += [(key, RunConfig, name) for name, key in RunConfig.keys().items()]
    every += [(key, config, name) for key, (config, name, _) in settings_of(chosen).items()]
    for key, config, name in every:
        section, _, last = key.rpartition(".")
        line = f"{last} = {toml(config.default(name))}"
        (sections.setdefault(section, []) if section else lines).append(line)
    for section, entries in sections.items():
        lines += ["", f"[tool.flwr.app.config.{section}]", *entries]
    return "\n".join(lines)


def toml(value: Any) -> str:
    """Return a plain value as TOML."""
    if isinstance(value, str) or value is True or value is False:
        return json.dumps(value)
    return "inf" if value == float("inf") else repr(value)


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def direct() -> dict[str, str]:
    """Return the variables by which addresses of this machine are reached without a proxy."""
    known = os.environ.get("NO_PROXY") or os.environ.get("no_proxy", "")
    hosts = ",".join([*filter(None, [known]), *(one for one in _LOOPBACK if one not in known.split(","))])
    return {"NO_PROXY": hosts, "no_proxy": hosts}


def proxy_of(host: str) -> str:
    """Return the variable, and the proxy in it, through which a host is reached with TLS; "" for none."""
    scheme = next((one for one in ("https", "all") if one in getproxies()), "")
    if not scheme or host in _LOOPBACK or proxy_bypass(host):
        return ""
    return f"{scheme.upper()}_PROXY={re.sub(r'//[^/@]*@', '//', getproxies()[scheme])}"  # without its password
