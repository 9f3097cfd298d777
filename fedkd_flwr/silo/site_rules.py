"""What a site asks of every run, beside the algorithms it allows: settings, and the least noise of a reply.

What a run says decides, before anything is learnt, so a broken rule is refused by a code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, le
from typing import Any, NamedTuple

from fedkd_flwr.algorithms import cards
from fedkd_flwr.errors import ConfigError, RefusalError, explain
from fedkd_flwr.privacy.ledger.entry import epsilon_of, plain_events
from fedkd_flwr.privacy.ledger.filter import ROUNDING, spent_text
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.settings.node_config import NodeConfig

__all__ = ["RuleResult", "SettingRule", "SiteRules", "parse_setting_rules", "refuse_broken", "rules_of"]

_RULE = re.compile(r"([a-z0-9.-]+)\s*(<=|>=|=)\s*(\S+)")
_SIGNS = {"=": eq, "<=": le, ">=": ge}


class RuleResult(NamedTuple):
    """One rule, by its key in the node config: what it asks, what it met, and whether that keeps it."""

    rule: str
    wanted: str
    seen: str
    kept: bool


class SettingRule(NamedTuple):
    """What one setting of a run may be: ``num-rounds<=10``, ``fedmd.answer-form=argmax``."""

    key: str
    sign: str
    value: str

    def result(self, settings: Mapping[str, Any]) -> RuleResult:
        """Return whether the settings keep it; those of other algorithms do, because nothing reads them."""
        wanted, seen = "".join(self), settings.get(self.key)
        if seen is None:
            return RuleResult("run-rules", wanted, "not a setting of this run", True)
        shown = str(seen).lower() if isinstance(seen, bool) else str(seen)
        kept = self.sign == "=" and shown == self.value
        if not kept and isinstance(seen, int | float) and not isinstance(seen, bool) and _is_number(self.value):
            kept = _SIGNS[self.sign](seen, float(self.value))  # 1 and 1.0 are one number, as are 1e-5 and 0.00001
        return RuleResult("run-rules", wanted, shown, kept)


def parse_setting_rules(text: str, known: Collection[str]) -> tuple[SettingRule, ...]:
    """Return the rules of a text, with commas between them; ``known`` are the keys of all settings.

    >>> [rule.key for rule in parse_setting_rules("num-rounds<=10, fedct.quorum>=0.8", {"num-rounds", "fedct.quorum"})]
    ['num-rounds', 'fedct.quorum']
    """
    rules = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = _RULE.fullmatch(part)
        if found is None or (found[2] != "=" and not _is_number(found[3])):
            way_out = "Write for example: num-rounds<=10, fedmd.answer-form=argmax"
            raise ConfigError(explain("run-rules", "hold KEY<=NUMBER, KEY>=NUMBER or KEY=VALUE", part, way_out))
        if found[1] not in known:
            name = found[1].rpartition(".")[2]
            near = sorted(key for key in known if key.rpartition(".")[2] == name)
            hint = f"Did you mean {' or '.join(near)}?" if near else "docs/reference/configuration.md lists them."
            raise ConfigError(explain("run-rules", "name settings of runs", found[1], hint))
        rules.append(SettingRule(*found.groups()))
    return tuple(rules)


@dataclass(frozen=True, kw_only=True)
class SiteRules:
    """The rules of one site."""

    settings: tuple[SettingRule, ...] = ()  # what settings of runs may be
    reply_epsilon: float = math.inf  # the most that one reply may cost, at ``delta``; without a claim infinitely much
    delta: float = 1e-5

    @property
    def asks(self) -> bool:
        """Tell whether there is any rule at all."""
        return self != SiteRules(delta=self.delta)

    def of_run(self, settings: Mapping[str, Any]) -> list[RuleResult]:
        """Return what the rules say of a run's settings, by key."""
        return [rule.result(settings) for rule in self.settings]

    def of_reply(self, events: Sequence[tuple[Any, int]] | None) -> list[RuleResult]:
        """Return what the rules say of what a reply releases; None: it has no claim."""
        if self.reply_epsilon == math.inf:
            return []
        cost = math.inf if events is None else epsilon_of(plain_events(events), self.delta)
        wanted = f"at most {self.reply_epsilon:g} at delta {self.delta:g}"
        return [RuleResult("reply-epsilon", wanted, spent_text(cost), cost <= self.reply_epsilon * (1 + ROUNDING))]


def rules_of(node: NodeConfig) -> SiteRules:
    """Return the rules that a node's config gives."""
    known = {*RunConfig.keys().values(), *(key for card in cards().values() for key in card.config.keys().values())}
    rules = parse_setting_rules(node.run_rules, known)
    return SiteRules(settings=rules, reply_epsilon=node.reply_epsilon, delta=node.delta_budget)


def refuse_broken(results: Sequence[RuleResult]) -> None:
    """Raise `RefusalError` (code ``not-allowed``) with the rules that are broken, if any is."""
    way_out = "The run has to change; or change the rule in this node's config, and restart the node."
    broken = [one for one in results if not one.kept]
    if broken:
        told = (explain(f"{one.rule} of this site", f"be kept ({one.wanted})", one.seen, way_out) for one in broken)
        raise RefusalError("\n".join(told))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
