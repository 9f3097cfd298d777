"""What `fedkd dev audit` makes of its options."""

import pytest

from fedkd_flwr.audit import run as app
from fedkd_flwr.errors import ConfigError


@pytest.mark.parametrize(
    ("words", "parties"), [([], 5), (["num-parties=3"], 3), (["--parties", "4", "num-parties=3"], 4)]
)
def test_the_option_decides_how_many_parties_there_are_as_it_does_for_simulate(fedkd, monkeypatch, words, parties):
    asked = []

    def attack(config, **_):
        asked.append(config.num_parties)
        raise ConfigError("far enough")

    monkeypatch.setattr(app, "audit", attack)
    fedkd("dev", "audit", *words)
    assert asked == [parties]
