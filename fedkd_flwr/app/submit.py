"""Runs at a SuperLink: submitted, followed and judged through Flower's own command ``flwr``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkd_flwr.app.app_folder import app_folder, toml
from fedkd_flwr.app.proxies import direct, proxy_of
from fedkd_flwr.errors import ConfigError, FedkdError, explain
from fedkd_flwr.registry import BUNDLE, load
from fedkd_flwr.settings.config import parse_run_config

__all__ = ["FlowerError", "Submitted", "flower", "flower_env", "follow", "status", "submit"]

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


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A run that a SuperLink has accepted."""

    run_id: str
    bundle: Any  # `fedkd_flwr.silo.bundles.Bundle`: what each silo approves


def submit(values: Mapping[str, Any], *, superlink: str = "", app: Path | None = None) -> Submitted:
    """Submit a run of this app, or of the app in the folder ``app``, to a SuperLink.

    ``values``: settings, by key; they are checked first. ``superlink``: the connection's name in Flower's
    configuration; "" for its default.

    Raises `ConfigError` if a setting is wrong, or the run would be a simulation. Raises `FlowerError` if the SuperLink
    refuses the run or cannot be reached.
    """
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
    done = run(
        [*_FLWR, *arguments, "--format", "json"],
        capture_output=True,
        **_TEXT,
        env=flower_env(),
        check=False,
    )
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
