"""What a site asks of every run, beside the algorithms it allows: models, settings, noise, hours, rows of a class.

All but one of these are decided by what a run says and by the clock, before anything is learnt, so a broken one is
refused by a code. Rows per class is private: without a claim it is refused by a code too, beside a claim for the whole
party it becomes the party's fixed answer (`fedkd_flwr.clients.exchange`), because a code would tell how many rows there
are. Beside a claim for one record (FedKT L2, NFDP) the rule cannot be kept: one record would decide about the whole
answer, where the claim lets it move one vote, or nothing. There the run is refused, whatever the rows are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from operator import eq, ge, le
from typing import Any, NamedTuple

from fedkd_flwr.algorithms import cards
from fedkd_flwr.errors import ConfigError, RefusalError, explain
from fedkd_flwr.privacy.ledger.entry import epsilon_of, plain_events
from fedkd_flwr.privacy.ledger.filter import ROUNDING, spent_text
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.settings.node_config import NodeConfig

__all__ = ["RuleResult", "SettingRule", "SiteRules", "parse_hours", "parse_setting_rules", "refuse_broken", "rules_of"]

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
        seen = settings.get(self.key)
        shown = str(seen).lower() if isinstance(seen, bool) else str(seen)
        kept = seen is None or (self.sign == "=" and shown == self.value)
        if not kept and isinstance(seen, int | float) and not isinstance(seen, bool) and _is_number(self.value):
            kept = _SIGNS[self.sign](seen, float(self.value))  # 1 and 1.0 are one number, as are 1e-5 and 0.00001
        shown = "not a setting of this run" if seen is None else shown
        return RuleResult("run-rules", f"{self.key}{self.sign}{self.value}", shown, kept)


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


def parse_hours(text: str) -> tuple[time, time] | None:
    """Return the first and the last minute of ``08:00-18:00``, None for no text; the second may be of the next day."""
    if not text:
        return None
    try:
        first, last = (time.fromisoformat(part.strip()) for part in text.split("-"))
        if first == last or first.tzinfo or last.tzinfo:
            raise ValueError
    except ValueError:
        way_out = 'Write for example: answer-hours="08:00-18:00"'
        raise ConfigError(
            explain("answer-hours", "be two times of the day with a hyphen between", text, way_out)
        ) from None
    return first, last


@dataclass(frozen=True, kw_only=True)
class SiteRules:
    """The rules of one site."""

    models: frozenset[str] = frozenset()  # names of models that runs may bring; empty: any that the node takes
    settings: tuple[SettingRule, ...] = ()  # what settings of runs may be
    hours: tuple[time, time] | None = None  # between which times of the day, by this clock, rounds are answered
    reply_epsilon: float = math.inf  # the most that one reply may cost, at ``delta``; without a claim infinitely much
    delta: float = 1e-5
    class_rows: int = 0  # the least number of rows of each class that the party holds any of

    @property
    def asks(self) -> bool:
        """Tell whether there is any rule at all."""
        return self != SiteRules(delta=self.delta)

    def of_run(self, settings: Mapping[str, Any], models: Collection[str]) -> list[RuleResult]:
        """Return what the rules say of a run's settings, by key, and of the models that it names."""
        results = [rule.result(settings) for rule in self.settings]
        if self.models:
            named, wanted = (", ".join(sorted(one)) for one in (models, self.models))
            named, kept = named or "none: the node's own", set(models) <= self.models
            results.append(RuleResult("allow-models", wanted, named, kept))
        return results

    def of_round(self, events: Sequence[tuple[Any, int]] | None, now: datetime, *, unit: str = "") -> list[RuleResult]:
        """Return what the rules say of what a round's reply releases (None: no claim) and whom its claim protects."""
        results = []
        if self.class_rows and unit == "record":
            wanted = "no claim for one record, which would decide about the whole answer"
            results.append(RuleResult("class-rows-at-least", wanted, "such a claim", False))
        if self.hours is not None:
            first, last = self.hours
            at = now.time()
            kept = first <= at < last if first < last else at >= first or at < last
            results.append(RuleResult("answer-hours", f"{first:%H:%M}-{last:%H:%M}", f"{at:%H:%M}", kept))
        if self.reply_epsilon < math.inf:
            cost = math.inf if events is None else epsilon_of(plain_events(events), self.delta)
            wanted = f"at most {self.reply_epsilon:g} at delta {self.delta:g}"
            seen, kept = spent_text(cost), cost <= self.reply_epsilon * (1 + ROUNDING)
            results.append(RuleResult("reply-epsilon", wanted, seen, kept))
        return results

    def of_rows(self, counts: Sequence[int]) -> list[RuleResult]:
        """Return what the rules say of the rows of each class, those that the party holds none of left out."""
        if not self.class_rows:
            return []
        least = min((count for count in counts if count), default=0)
        kept = least >= self.class_rows
        return [RuleResult("class-rows-at-least", f"at least {self.class_rows}", str(least), kept)]


def rules_of(node: NodeConfig) -> SiteRules:
    """Return the rules that a node's config gives."""
    known = {*RunConfig.keys().values(), *(key for card in cards().values() for key in card.config.keys().values())}
    return SiteRules(
        models=frozenset(filter(None, map(str.strip, node.allow_models.split(",")))),
        settings=parse_setting_rules(node.run_rules, known),
        hours=parse_hours(node.answer_hours),
        reply_epsilon=node.reply_epsilon,
        delta=node.delta_budget,
        class_rows=node.class_rows_at_least,
    )


def refuse_broken(results: Sequence[RuleResult]) -> None:
    """Raise `RefusalError` (code ``not-allowed``) with the rules that are broken, if any is."""
    way_out = "The run has to change; or change the rule in this node's config, and restart the node."
    broken = (
        explain(f"{rule} of this site", f"be kept ({wanted})", seen, way_out)
        for rule, wanted, seen, kept in results
        if not kept
    )
    if text := "\n".join(broken):
        raise RefusalError(text)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
