"""Settings that several algorithms share: what each one means and refuses."""

import pytest

from fedkd_flwr.algorithms.card import PAPER
from fedkd_flwr.algorithms.exchange import (
    ClaimConfig,
    EpsilonConfig,
    LabelNoiseConfig,
    LocalEpochsConfig,
    StepsConfig,
    TiesConfig,
    VotersConfig,
)
from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.algorithms.pate import PATEConfig
from fedkd_flwr.errors import ConfigError

SIZES = {"num_public": 60, "num_classes": 3}


class Noisy(LabelNoiseConfig):
    """Noise wherever a mechanism is named."""

    @property
    def privacy(self):
        """Where it is."""
        return "none" if self.label_mechanism == "none" else "party"


def test_shared_settings_stand_at_the_top_of_the_run_config_or_among_those_of_papers():
    for config in (TiesConfig, VotersConfig, EpsilonConfig, LabelNoiseConfig, StepsConfig, LocalEpochsConfig):
        assert {key.rpartition(".")[0] for key in config.keys().values()} <= {"", PAPER}


def test_a_delta_of_no_claim_is_refused():
    rule = "delta must keep its default in a run without noise, got 0.001. It would be ignored: drop it, or choose a"
    for config in (ClaimConfig, EpsilonConfig, Noisy):
        with pytest.raises(ConfigError, match=rule):
            config(delta=0.001)
        assert config(delta=1e-5).delta == 1e-5
    assert Noisy(delta=0.001, label_mechanism="xor").delta == 0.001


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (
            {"label_mechanism": "xor"},
            "^epsilon or paper.noise-strength must be given with noise, got 'none'. Epsilon is",
        ),
        (
            {"label_mechanism": "xor", "noise_strength": 1.5, "epsilon": 2.0},
            "^epsilon must be none beside paper.noise-strength, got 2.0. Give one: epsilon is for the whole run.$",
        ),
        (
            {"epsilon": 2.0},
            r"^epsilon must be none without noise, got 2.0. It would be ignored: drop it, or choose a noise: "
            r"label-mechanism=auto \(for a whole party\), algorithm=fedkt fedkt.level=L2 noise=gaussian \(for a r",
        ),
        ({"noise_strength": 2.0}, "^paper.noise-strength must be auto without noise, got 2.0. It would be"),
    ],
)
def test_a_strength_is_given_once_and_where_there_is_noise(settings, rule):
    with pytest.raises(ConfigError, match=rule):
        Noisy(**settings).check_given()
    Noisy(label_mechanism="xor", noise_strength=1.0).check_given()
    Noisy().check_given()


NOISY = [
    (FedCTConfig, {"label_mechanism": "xor", "noise_strength": 1.0}),
    (FedKTConfig, {"level": "L1", "noise": "laplace", "noise_strength": 0.1}),
    (FedKTConfig, {"level": "L2", "noise": "gaussian", "noise_strength": 4.0}),
    (PATEConfig, {"noise": "gaussian", "epsilon": 2.0}),
]


@pytest.mark.parametrize(("config", "noise"), NOISY)
def test_beside_noise_parties_are_asked_for_labels_alone_and_no_rule_that_needs_more_is_named(config, noise):
    assert (config(**noise).asked, config().asked, config(consensus="majority").asked) == ("", "density-ratio", "")
    assert (config(**noise).on_drawn_rows().asked, config().on_drawn_rows().asked) == ("", "probabilities")
    assert config(consensus="density-ratio").asked == "density-ratio"
    assert "consensus" not in config().told()
    for values, match in (
        ({"consensus": "density-ratio"}, "consensus must be another than density-ratio beside noise"),
        ({"send": "probabilities"}, "send must be \"labels\" beside noise, got 'probabilities'"),
        ({"known_rows": 200}, "known-rows must be 0 beside noise, got 200. A claim counts every vote alike"),
    ):
        with pytest.raises(ConfigError, match=match):
            config(**values, **noise)


def test_a_setting_that_a_vote_rule_would_ignore_is_refused():
    with pytest.raises(ConfigError, match=r"send must keep its default \('auto'\) where consensus is 'majority'"):
        FedKTConfig(send="probabilities", consensus="majority")
    with pytest.raises(ConfigError, match=r"known-rows must be 0 with send 'probabilities'"):
        FedCTConfig(send="probabilities", known_rows=200)
    with pytest.raises(ConfigError, match=r"consensus must be auto with noise at the server, got 'median'"):
        PATEConfig(consensus="median", noise="gaussian", epsilon=2.0)


@pytest.mark.parametrize("given", [{"send": "labels"}, {"consensus": "density-ratio"}, {"known_rows": 200}])
def test_drawn_rows_get_no_probabilities_where_a_run_asks_for_something_else(given):
    assert FedKTConfig(**given).on_drawn_rows() == FedKTConfig(**given)


def test_alone_a_net_trains_for_as_many_epochs_as_in_all_its_rounds():
    config = LocalEpochsConfig(local_epochs=3)
    assert config.resolved(**SIZES, num_rounds=4).solo_epochs == 12
    assert config.resolved(**SIZES, num_rounds=0).solo_epochs == 3  # asked in none so far
    assert LocalEpochsConfig(local_epochs=3, solo_epochs=7).resolved(**SIZES, num_rounds=4).solo_epochs == 7
