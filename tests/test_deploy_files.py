"""The files of docs/deploy are in step with the commands, their options, and each other."""

import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import yaml

from fedkd_flwr.cli.main import group
from fedkd_flwr.settings.config import parse_node_config
from fedkd_flwr.silo.cli.node import node_settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "docs" / "deploy"
IMAGE = "fedkd:0.2.0"


@cache
def _services():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]


def _containers():
    """Yield (where, image, command words, mount points) of every container."""
    for name, service in _services().items():
        mounts = [volume.split(":")[1] for volume in service["volumes"]]
        yield f"compose {name}", service["image"], shlex.split(service.get("command", "")), mounts


def _unit():
    text = (DEPLOY / "fedkd-node.service").read_text().replace("\\\n", " ")
    return shlex.split(re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1])


@cache
def _flower_options(command):
    """Return the options that a command of the installed Flower declares: read, because its import takes seconds."""
    flwr = Path(importlib.util.find_spec("flwr").origin).parent
    files = [*(flwr / command / "cli").glob("*.py"), flwr / "common" / "args.py"]
    found = {o for file in files for o in re.findall(r"\"(--[a-z-]+)\"", file.read_text())}
    assert {"--host", "--port"} <= found
    return found


def _node_run():
    return group().get_command(None, "node").get_command(None, "run")


def _options(words):
    return {word.partition("=")[0] for word in words if word.startswith("--") and word != "--"}


COMMANDS = [(where, words) for where, _, words, _ in _containers() if words] + [("systemd", _unit())]


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=[where for where, _ in COMMANDS])
def test_every_command_has_options_that_exist(where, words):
    if words[0] == "flower-superlink":
        assert _options(words) <= _flower_options("superlink")
        return
    assert Path(words[0]).name == "fedkd"
    assert words[1:3] == ["node", "run"]
    given = _node_run().make_context("run", words[3:]).params  # raises at an unknown option
    assert parse_node_config(node_settings(given["words"])).party == "st-mary"
    assert given["superlink"].endswith(":50800")


def test_an_option_that_does_not_exist_would_be_seen():
    assert not {"--database", "--ssl-key-file"} <= _flower_options("superlink")
    with pytest.raises(Exception, match="No such option"):
        _node_run().make_context("run", ["--approve", "x", "--superlink", "a:1"])
    with pytest.raises(Exception, match="data-pathh"):
        parse_node_config(node_settings(["party=a", "data-pathh=/b", "public-path=/c"]))


def test_every_file_that_a_container_is_told_lies_in_one_of_its_mounts():
    for where, image, words, mounts in _containers():
        if image != IMAGE:
            continue
        paths = [p for word in words for p in re.findall(r"(?<![\w.])/[\w./-]+", word)]
        assert len(paths) > 3
        for path in paths:
            assert any(path.startswith(f"{mount}/") for mount in mounts), (where, path)


def test_all_files_name_one_image_that_the_containerfile_builds():
    assert {image for _, image, _, _ in _containers()} == {IMAGE, "nginx:1.28"}
    assert f"-t {IMAGE} ." in (DEPLOY / "Containerfile").read_text()
    for names in re.findall(r"^COPY (.*) \S+$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE):
        assert all((ROOT / name).exists() for name in names.split())


def test_only_the_proxy_s_port_is_open():
    services = _services()
    assert [service.get("ports") for service in services.values()] == [["50800:50800"], None, None]
    assert services["proxy"]["network_mode"] == "service:superlink"
    assert "listen 50800 ssl;" in (DEPLOY / "nginx.conf").read_text()
    for where, _, words, _ in _containers():
        if words and words[0] == "flower-superlink":
            text = " ".join(words).replace("=", " ")
            assert "--host 127.0.0.1 --port 50801" in text, where
            assert "--enable-supernode-auth" in text, where
