"""What ``fedkd settings`` prints."""

import tomllib

from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.settings.run_settings import read_settings


def test_the_few_come_first_and_all_are_told_of(fedkd):
    done = fedkd("settings")
    assert "\nnum-rounds = " in done.out
    assert "round-timeout-s" in done.out
    assert "solo-epochs" not in done.out
    assert done.err.startswith("24 of ")
    assert "paper.initial-epochs = 20" in fedkd("settings", "--all").out


def test_the_starter_file_is_a_run_as_it_stands_and_with_every_line_uncommented(fedkd, tmp_path):
    text = fedkd("settings", "fedkt", "--toml").out
    assert tomllib.loads(text) == {"algorithm": "fedkt"}
    lines = [line.removeprefix("# ") for line in text.splitlines() if " = " in line]
    given = [
        line for line in lines if line.split(" = ")[0] in {"algorithm", "num-rounds", "seed", "model", "fedkt.level"}
    ]
    (tmp_path / "run.toml").write_text("\n".join(given), encoding="utf-8")
    run = parse_run_config(read_settings([str(tmp_path / "run.toml")]))
    assert run.setting("level") == "L0"
