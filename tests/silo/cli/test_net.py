"""`fedkd dev net`: the command that it prints, and the name that Flower knows it by."""

import shlex
from contextlib import contextmanager

import pytest

from fedkd_flwr.cli.main import main
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.silo import devnet


def test_the_command_that_devnet_prints_can_be_copied_where_a_path_has_spaces(tmp_path, monkeypatch, capsys):
    place = tmp_path / "Häuser und Höfe"
    (place / "server").mkdir(parents=True)
    (place / "server" / "log.txt").touch()

    class Ended:
        def poll(self):
            return 1

    @contextmanager
    def started(count, **_):
        yield devnet.Devnet(name="höfe", folder=place, public=place / "u.csv", processes={"server": Ended()})

    monkeypatch.setattr(devnet, "devnet", started)
    with pytest.raises(SystemExit, match="1"):
        main(["dev", "net", "2"])
    (line,) = (one for one in capsys.readouterr().out.splitlines() if "fedkd server run" in one)
    assert shlex.split(line)[3:5] == [f"public-path={place}/u.csv", "num-parties=2"]


def test_a_name_in_flower_s_configuration_is_there_as_long_as_the_devnet_is(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    with devnet._known_as("devnet", "127.0.0.1:1", tmp_path / "ca.crt"):
        assert 'address = "127.0.0.1:1"' in (tmp_path / "config.toml").read_text(encoding="utf-8")
        with pytest.raises(ConfigError, match="be no other SuperLink's"), devnet._known_as("devnet", "", tmp_path):
            pass
        assert "[superlink.devnet]" in (tmp_path / "config.toml").read_text(encoding="utf-8")
    assert "devnet" not in (tmp_path / "config.toml").read_text(encoding="utf-8")
