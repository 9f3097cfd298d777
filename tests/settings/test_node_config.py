"""A party's own settings: what a silo says, and what it does not do unless it says so."""

import pytest

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.settings.config import parse_node_config

SILO = {"party": "st-mary", "data-path": "/d/own.csv", "public-path": "/d/public.csv"}


def test_a_simulated_node_needs_what_flower_gives_it_and_a_silo_shares_no_metrics_unless_it_says_so():
    assert parse_node_config({"partition-id": 0, "num-partitions": 4}).simulated
    node = parse_node_config(SILO)
    assert not node.simulated
    assert (node.share_metrics, node.min_support) == ("", 10)
    assert node.epsilon_budget == float("inf")
    assert node.allow_algorithms == "fedct,fedkt,pate,privatekt"  # hard labels; never soft ones or weights


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("allow-vote-rules", "density-ratio, fedmd", "must name only density-ratio and probabilities, got 'fedmd'"),
        ("allow-vote-rules", "majority", "must name only density-ratio and probabilities"),
        ("allow-algorithms", "fedct,density-ratio", "must name algorithms alone, got 'density-ratio'"),
    ],
)
def test_an_algorithm_is_no_vote_rule_and_allowing_one_never_allows_the_other(key, value, said):
    with pytest.raises(ConfigError, match=said):
        parse_node_config(SILO | {key: value})
    both = {"allow-algorithms": "fedct,noisy-sums", "allow-vote-rules": "density-ratio"}
    assert parse_node_config(SILO | both).allow_algorithms == "fedct,noisy-sums"
