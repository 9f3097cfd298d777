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
from typing import Any

from fedkd_flwr.algorithms import cards
from fedkd_flwr.errors import ConfigError, RefusalError, explain
from fedkd_flwr.privacy.ledger.entry import epsilon_of, plain_events
from fedkd_flwr.privacy.ledger.filter import ROUNDING, spent_text
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.settings.node_config import NodeConfig

__all__ = ["RuleResult", "SettingRule", "SiteRules", "parse_hours", "parse_setting_rules", "refuse_broken", "rules_of"]

_RULE = re.compile(r"([a-z0-9.-]+)\s*(<=|>=|=)\s*(\S+)")


@dataclass(frozen=True, kw_only=True)
class RuleResult:
    """One rule and what it found."""

    rule: str  # the key of the node config it comes from
    # wanted, seen: What it asks, and what it met
    wanted: str
    seen: str
    kept: bool  # whether the run keeps it


@dataclass(frozen=True)
class SettingRule:
    """What one setting of a run may be: ``num-rounds<=10``, ``fedmd.answer-form=argmax``."""

    key: str
    sign: str
    value: str

    def result(self, settings: Mapping[str, Any]) -> RuleResult:
        """Return whether the settings keep it; those of other algorithms do, because nothing reads them."""
        seen = settings.get(self.key)
        kept = seen is None or self._holds(seen)
        shown = "not a setting of this run" if seen is None else _text(seen)
        return RuleResult(rule="run-rules", wanted=f"{self.key}{self.sign}{self.value}", seen=shown, kept=kept)

    def _holds(self, seen: Any) -> bool:
        if self.sign == "=" and _text(seen) == self.value:
            return True
        if isinstance(seen, bool) or not isinstance(seen, int | float):
            return False
        if self.sign == "=":  # 1 and 1.0 are one number, as are 1e-5 and 0.00001
            return _is_number(self.value) and seen == float(self.value)
        return seen <= float(self.value) if self.sign == "<=" else seen >= float(self.value)


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
        rules.append(SettingRule(found[1], found[2], found[3]))
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
    # between which times of the day, on this machine's clock, rounds are answered
    hours: tuple[time, time] | None = None
    # reply_epsilon, delta: The most that one reply may cost, as an epsilon at ``delta``; replies without a claim cost
    # infinitely much
    reply_epsilon: float = math.inf
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
            named = ", ".join(sorted(models)) or "none: the node's own"
            kept = set(models) <= self.models
            wanted = ", ".join(sorted(self.models))
            results.append(RuleResult(rule="allow-models", wanted=wanted, seen=named, kept=kept))
        return results

    def of_round(self, events: Sequence[tuple[Any, int]] | None, now: datetime, *, unit: str = "") -> list[RuleResult]:
        """Return what the rules say of what a round's reply releases (None: no claim) and whom its claim protects."""
        results = []
        if self.class_rows and unit == "record":
            wanted = "no claim for one record, which would decide about the whole answer"
            results.append(RuleResult(rule="class-rows-at-least", wanted=wanted, seen="such a claim", kept=False))
        if self.hours is not None:
            first, last = self.hours
            at = now.time()
            kept = first <= at < last if first < last else at >= first or at < last
            wanted = f"{first:%H:%M}-{last:%H:%M}"
            results.append(RuleResult(rule="answer-hours", wanted=wanted, seen=f"{at:%H:%M}", kept=kept))
        if self.reply_epsilon < math.inf:
            cost = math.inf if events is None else epsilon_of(plain_events(events), self.delta)
            wanted = f"at most {self.reply_epsilon:g} at delta {self.delta:g}"
            seen, kept = spent_text(cost), cost <= self.reply_epsilon * (1 + ROUNDING)
            results.append(RuleResult(rule="reply-epsilon", wanted=wanted, seen=seen, kept=kept))
        return results

    def of_rows(self, counts: Sequence[int]) -> list[RuleResult]:
        """Return what the rules say of the rows of each class, those that the party holds none of left out."""
        if not self.class_rows:
            return []
        least = min((count for count in counts if count), default=0)
        wanted = f"at least {self.class_rows}"
        return [RuleResult(rule="class-rows-at-least", wanted=wanted, seen=str(least), kept=least >= self.class_rows)]


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
    broken = [one for one in results if not one.kept]
    if broken:
        way_out = "The run has to change; or change the rule in this node's config, and restart the node."
        raise RefusalError(
            "\n".join(
                explain(f"{one.rule} of this site", f"be kept ({one.wanted})", one.seen, way_out) for one in broken
            )
        )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
