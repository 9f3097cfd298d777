"""The rules of a site: what they read, and what keeps them."""

import math
from statistics import NormalDist

import pytest
from dp_accounting import GaussianDpEvent

from fedkd_flwr.errors import Code, ConfigError, RefusalError
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.noise.labels import RandomizedResponse
from fedkd_flwr.silo.site_rules import SiteRules, parse_setting_rules, refuse_broken

KNOWN = {"num-rounds", "fedct.quorum", "fedmd.answer-form", "centralised"}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("num-rounds<10", "KEY<=NUMBER"),
        ("num-rounds<=many", "KEY<=NUMBER"),
        ("num-rounds<=nan", "KEY<=NUMBER"),
        ("num-rounds>=inf", "KEY<=NUMBER"),
        ("rounds<=10", "name settings of runs, got 'rounds'"),
        ("dd.answer-form=argmax", "Did you mean fedmd.answer-form?"),
    ],
)
def test_a_rule_that_says_nothing_is_an_error(text, match):
    with pytest.raises(ConfigError, match=match):
        parse_setting_rules(text, KNOWN)


def test_a_reply_s_cost_is_the_tight_epsilon_at_the_site_s_own_delta():
    """Gaussian noise of 40 sensitivities; the oracle is Balle and Wang 2018, Theorem 8."""

    def exact_delta(epsilon, noise=40.0):
        shift, phi = epsilon * noise, NormalDist().cdf
        return phi(0.5 / noise - shift) - math.exp(epsilon) * phi(-0.5 / noise - shift)

    events = [(GaussianDpEvent(40.0), 1)]
    for delta, below, above in ((1e-5, 0.07, 0.08), (1e-3, 0.03, 0.04)):
        assert exact_delta(below) > delta > exact_delta(above)
        kept = [SiteRules(reply_epsilon=limit, delta=delta).of_reply(events)[0].kept for limit in (below, above)]
        assert kept == [False, True]


@pytest.mark.parametrize(
    ("text", "settings", "kept"),
    [
        ("num-rounds<=10, num-rounds>=2", {"num-rounds": 10}, [True, True]),
        ("num-rounds<=10, num-rounds>=2", {"num-rounds": 11}, [False, True]),
        ("num-rounds<=10, num-rounds>=2", {"num-rounds": 2}, [True, True]),
        ("num-rounds<=10, num-rounds>=2", {"num-rounds": 1}, [True, False]),
        ("num-rounds<=10", {"num-rounds": float("nan")}, [False]),
        ("num-rounds<=10", {"num-rounds": "many"}, [False]),
        ("num-rounds=many", {"num-rounds": "Many"}, [False]),
        # a run has 1.0 and 1e-05 however they were written; a rule is a text
        ("fedct.quorum=1, fedct.quorum=1e0", {"fedct.quorum": 1.0}, [True, True]),
        ("fedct.quorum=1e-5, fedct.quorum=0.00001", {"fedct.quorum": 1e-05}, [True, True]),
        ("fedct.quorum=1", {"fedct.quorum": 1.5}, [False]),
        ("centralised=1", {"centralised": True}, [False]),
        ("centralised=false", {"centralised": False}, [True]),
        ("centralised=false", {"centralised": True}, [False]),
        ("centralised<=1, centralised>=0", {"centralised": True}, [False, False]),  # no number
        ("fedmd.answer-form=argmax", {"num-rounds": 1}, [True]),  # not a setting of this run
    ],
)
def test_settings_are_compared_as_numbers_or_as_words(text, settings, kept):
    rules = SiteRules(settings=parse_setting_rules(text, KNOWN))
    assert [one.kept for one in rules.of_run(settings)] == kept


def test_a_reply_costs_more_than_any_rule_allows_without_a_claim_and_is_judged_to_the_last_digit():
    """Three responses of epsilon 1 sum up to 3.0000000000000053, which a rule of 3 allows."""
    label = RandomizedResponse(epsilon=1.0, num_classes=10).dp_event()
    costs = {(2.0, None): False, (2.0, (PureEvent(2.0), 1)): True, (2.0, (PureEvent(2.0), 2)): False}
    costs |= {(3.0, (label, 3)): True, (3.0, (PureEvent(3.00001), 1)): False}
    for (limit, event), kept in costs.items():
        rules = SiteRules(reply_epsilon=limit, delta=0.0)
        assert rules.of_reply(event and [event])[0].kept is kept
    found = SiteRules(reply_epsilon=1.0, delta=0.0).of_reply([(PureEvent(1.0000049), 1)])[0]
    assert (found.kept, found.seen) == (False, "1.00001")  # rounded up, so that it shows a larger number


def test_every_broken_rule_is_named_and_no_other():
    rules = SiteRules(settings=parse_setting_rules("num-rounds>=2, num-rounds<=3, num-rounds<=9, num-rounds<=4", KNOWN))
    with pytest.raises(RefusalError) as found:
        refuse_broken(rules.of_run({"num-rounds": 7}))
    assert found.value.code == Code.NOT_ALLOWED
    assert [rule in str(found.value) for rule in (">=2", "<=3", "<=9", "<=4")] == [False, True, False, True]
    refuse_broken(rules.of_run({"num-rounds": 3}))
