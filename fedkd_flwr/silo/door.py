"""A silo's door: the site's rules, a steward's approval, the log; in that order.

    rules   -> before anything is learnt: a broken one is refused by a code
    charge  -> the privacy ledger is charged when the noise is drawn, before anybody is asked
    steward -> the exact bytes are held on the disk until a person approves or rejects them, or the time is over
    log     -> a line is on the disk before the reply leaves; what is not in the log does not leave

**Why a rejected answer is charged.** Whoever rejects an answer tells the server something about it: that it was one to
reject. And an answer that was rejected free of charge could be drawn again until one pleases, which no claim covers. So
the charge comes with the draw, whatever the steward decides; a repeated request gets the same decision and never
another draw; and a new run is a new draw with a new charge. Under these conditions "held back" or the answer is a
function of the noisy answer alone, as long as the steward judges by what he is shown: the noisy answer and public rows.
A steward who judges by private rows, too, tells the server one bit (and the time he took) that no claim covers.

The code is the same for a rejection and for a time that ran out. When it comes tells when the steward decided; whether
anybody is asked at all never depends on private rows.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn

from fedkd_flwr.app.live_run import installed_versions
from fedkd_flwr.app.output import output_root
from fedkd_flwr.clients.answer import MAX_PUBLIC_COLUMNS
from fedkd_flwr.clients.party import OPEN, Ask, Door, Leaving, Shown
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import Code, RefusalError, explain
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.processes.alive import paused
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.settings.node_config import NodeConfig
from fedkd_flwr.silo import node_client
from fedkd_flwr.silo.site_rules import RuleResult, SiteRules, refuse_broken
from fedkd_flwr.simulation.rows import party_name, simulated_pool
from fedkd_flwr.stores.egress_log import EgressLog, output_of
from fedkd_flwr.stores.held_replies import Decision, HeldReplies
from fedkd_flwr.stores.party_state import StoredReply

__all__ = ["Approve", "NotYetApprovedError", "SiloDoor", "door_of"]

logger = logging.getLogger("flwr.party")

Approve = Literal["never", "always"]
POLL_S = 1.0
"""Seconds between two looks for a decision."""


class NotYetApprovedError(BaseException):
    """A reply waits for an approval, and nobody waits here; no `Exception`, because nothing has been refused."""


_ENDED = "the run was stopped, or the node ended"


@dataclass(eq=False)
class SiloDoor:
    """Decides whether one party's replies leave in one run, and writes down what leaves."""

    log: EgressLog
    _: KW_ONLY
    run_id: str
    run_name: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the run, by key: what rules are about
    rules: SiteRules = field(default_factory=SiteRules)
    approve: Approve = "never"  # which replies a steward has to approve: none, or each that discloses anything
    within_s: float = 3000.0  # seconds after which a reply that nobody has decided about is held back for good
    until: float = math.inf  # the same on the monotonic clock, where the server gives up
    versions: Mapping[str, str] = field(default_factory=dict)  # of what made the reply, for the log
    public_columns: Callable[[], Shown] = lambda: ((), ())  # names and values as people know them, for the table
    waits: bool = True  # False: a reply that nobody has approved yet ends the visit, and is asked for once more
    _visit: dict[str, Any] = field(default_factory=dict)  # what the log's next line will say

    def __post_init__(self) -> None:
        self.held = HeldReplies(self.log.directory / "held")

    # ---------------------------------------------------------------- rules

    def check_run(self) -> None:
        """Refuse a run whose settings break a rule, before a file is read; raises `RefusalError`."""
        results = self.rules.of_run(self.settings)
        self._note(results)
        refuse_broken(results)

    def before_rows(self, ask: Ask) -> None:
        """Refuse a visit that breaks a rule, or that a steward rejected before, while nothing is learnt yet."""
        at = ask.server_round
        self._visit = {"round": at, "algorithm": ask.algorithm, "settings": dict(ask.told), "public": ask.public}
        if ask.claim is not None:
            events = [[event, n] for event, n in plain_events(ask.events or ())]
            self._visit["claim"] = {**ask.claim, "events": events}
        if not isinstance(at, int):
            return
        settings = {**self.settings, **ask.told}
        for key, value in {"num-rounds": at, **ask.least}.items():
            settings[key] = max(value, int(settings.get(key, 0)))
        results = self.rules.of_run(settings) + self.rules.of_reply(ask.events)
        self._note(results)
        refuse_broken(results)
        rejection = self.held.decision(self.run_id, at)
        if rejection is not None and rejection.verdict == "rejected":  # nothing is drawn and charged in vain
            self._hold_back(_said(self.approve, rejection))

    def _note(self, results: Iterable[RuleResult]) -> None:
        self._visit.setdefault("rules", []).extend(one._asdict() for one in results)

    # ---------------------------------------------------------------- leaving

    def let_out(self, leaving: Leaving) -> None:
        """Return when the reply may leave: approved where the site asks for that, and written down; else raise."""
        reply = leaving.reply
        output = output_of(reply, num_examples=leaving.num_examples)
        self._visit["output"] = {**output, "sender": dict(leaving.sender)}
        approval = self._approval(reply, lambda: leaving.table(self.public_columns()))
        if approval["verdict"] not in ("not asked", "approved"):
            self._hold_back(approval)
        self._visit["approval"] = approval
        leaving.note()
        node_client.note(self.log, self._write(left=True, code=""))

    def _hold_back(self, approval: dict[str, str]) -> NoReturn:
        self._visit["approval"] = approval
        who = f" by {approval['by']}: {approval['reason']}" if approval["by"] else ""
        way_out = "Nothing of it leaves; the server gets `held-back`, and the run goes on without this party."
        what, seen = f"round {self._visit['round']} of run {self.run_id}", f"{approval['verdict']}{who}"
        raise RefusalError(explain(what, "be approved here", seen, way_out), code=Code.HELD_BACK)

    def refused(self, code: str) -> None:
        """Write down that only a code leaves.

        It leaves even where that cannot be written down: it is one of a fixed list and holds nothing of any row.
        """
        try:
            self._write(left=False, code=code)
        except Exception:
            logger.exception("%s: that only the code %s left could not be written down", self.log.party, code)

    def _write(self, *, left: bool, code: str) -> int:
        visit, self._visit = self._visit, {}
        line: dict[str, Any] = {"round": None, "algorithm": "", "settings": {}, "claim": None, "public": ""}
        line |= {"rules": [], "output": None, "approval": {"policy": self.approve, "verdict": "not asked"}, **visit}
        line |= {"run": self.run_id, "run_name": self.run_name, "left": left, "code": code, "versions": self.versions}
        return int(self.log.append(line)["number"])

    # ---------------------------------------------------------------- approval

    def _approval(self, reply: StoredReply, table: Callable[[], Iterable[Sequence[object]] | None]) -> dict[str, str]:
        """Return who approved the reply; waits for that where it has to."""
        if self.approve == "never" or not reply.discloses:
            return {"policy": self.approve, "verdict": "not asked"}
        digest, decision = str(self._visit["output"]["sha256"]), self.held.decision(self.run_id, self._visit["round"])
        if decision is None or (decision.verdict == "approved" and decision.sha256 != digest):
            decision = self._wait(reply, table)
            if decision.verdict == "approved" and decision.sha256 != digest:
                logger.error("%s: other bytes than those held here were approved; nothing leaves", self.log.party)
                decision = Decision(verdict="rejected", sha256=digest, reason="other bytes approved")
        return _said(self.approve, decision)

    def _wait(self, reply: StoredReply, table: Callable[[], Iterable[Sequence[object]] | None]) -> Decision:
        seconds = max(min(self.within_s, self.until - time.monotonic()), 0.0)
        end, now = time.monotonic() + seconds, datetime.now(UTC)
        until, where = (now + timedelta(seconds=seconds)).isoformat(timespec="seconds"), self.log.directory.parents[1]
        facts = {"claim": None, **self._visit, "run": self.run_id, "run_name": self.run_name, "party": self.log.party}
        facts |= {"since": now.isoformat(timespec="seconds"), "until": until}
        held = self.held.put(reply, facts, table())
        words = (
            "%s: its reply to round %s of run %s waits for approval until %s. See it: fedkd node egress pending %s. "
            "Then: fedkd node egress approve %s --state-dir %s, or fedkd node egress reject."
        )
        logger.warning(words, self.log.party, facts["round"], self.run_id, until, where, self.run_id, where)
        decision = held.decision
        if decision is None and not self.waits:
            raise NotYetApprovedError
        try:
            with paused():
                while decision is None and time.monotonic() < end:
                    time.sleep(min(POLL_S, max(end - time.monotonic(), 0.0)))
                    decision = held.decision
        except BaseException:  # the node ends this visit: its run was stopped, or the node itself
            self._visit["approval"] = _said(self.approve, held.decide("expired", reason=_ENDED))
            self._write(left=False, code="")
            raise
        decision = decision or held.decide("expired")
        if decision.verdict != "expired":
            held.remove()
        return decision


def _said(policy: Approve, decision: Decision) -> dict[str, str]:
    """Return a decision as the log has it."""
    return {"policy": policy} | {name: getattr(decision, name) for name in ("verdict", "by", "reason", "when")}


def door_of(config: RunConfig, node: NodeConfig, run_id: str) -> Door:
    """Return the door through which this node's replies leave; an open one for a simulated party that asks for none.

    A steward's time ends with nine tenths of the run's ``round-timeout-s``, counted from now: a visit's start.
    """
    if not node.guards:
        return OPEN
    name = node.party or party_name(node.partition_id or 0, config)
    root = output_root(node.state_dir, "state-dir") if node.state_dir or not node.simulated else None
    return SiloDoor(
        EgressLog(root or output_root(config.output_dir), party=name),
        run_id=run_id,
        run_name=config.name,
        settings={**config.as_scalars(), "num-rounds": config.rounds},
        rules=node.rules,
        approve=node.approve,
        within_s=node.approve_within_s,
        until=time.monotonic() + 0.9 * config.round_timeout_s,
        versions=installed_versions(),
        public_columns=lambda: _public_columns(config, node),
    )


def _public_columns(config: RunConfig, node: NodeConfig) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """Return the names of the public columns, and the first of them as they stand in the public file."""
    if node.simulated:
        X = simulated_pool(config).public.X
        return [f"x{i}" for i in range(X.shape[1])], X[:, :MAX_PUBLIC_COLUMNS].tolist()
    path = Path(node.public_path).expanduser()
    schema = Schema.read(node.schema_path or path.parent / "schema.toml")
    names = [column.name for column in schema.columns]
    table = read_table(path, schema)[names[:MAX_PUBLIC_COLUMNS]]
    return names, table.astype(object).where(table.notna(), "").to_numpy().tolist()
