"""Replies that wait for a person: listing, approving and rejecting them; replies and logs as text."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.report.formatting import columns, one_line
from fedkd_flwr.stores.held_replies import Decision, Held, Verdict, held_in

__all__ = ["answer_lines", "decide", "log_text", "pending", "who_asks"]


def pending(state_dir: Path) -> list[Held]:
    """Return the replies that wait for a decision in a party's state directory, the oldest first."""
    return [held for held in held_in(state_dir) if held.waits]


def decide(
    run: str, state_dir: Path, *, approved: bool, reason: str = "", by: str = "", digest: str | None = None
) -> tuple[Held, Decision]:
    """Approve or reject a reply that waits, and return it with the decision that holds; a rejection needs a reason.

    ``run``: a run's id or the start of it, its name, or ``last``. ``digest``: that of the reply that was looked at, or
    the start of it: several may wait, and the node may hold another one by now.
    """
    where = shlex.quote(str(state_dir))
    if not approved and not reason.strip():
        way_out = f"fedkd node egress reject {shlex.quote(run)} --state-dir {where} --reason WHY"
        raise ConfigError(explain("--reason", "be given with a rejection", reason, way_out))
    waits = pending(state_dir)
    named = [one for one in waits if run and (str(one.facts["run"]).startswith(run) or one.facts["run_name"] == run)]
    meant = waits[-1:] if run == "last" else named
    if meant and digest is not None:
        # every digest starts with "", as a shell gives a variable that is not set
        alike = [h for h in meant if digest and str(h.facts["output"]["sha256"]).startswith(digest.lower())]
        if not alike:
            way_out = f"Look at it first: fedkd node egress pending {where}"
            raise ConfigError(explain("--digest", "be that of the reply that waits", digest, way_out))
        meant = alike
    if len(meant) != 1:
        listed = "; ".join(f"run {one.facts['run']} round {one.facts['round']} ({one.facts['party']})" for one in waits)
        way_out = f"Waiting: {listed or 'none'}. See them: fedkd node egress pending {where}"
        raise ConfigError(explain(f"RUN {run}", "name one reply that waits", f"{len(meant)} of them", way_out))
    (held,) = meant
    verdict: Verdict = "approved" if approved else "rejected"
    decision = held.decide(verdict, by=by or who_asks(), reason=reason)
    if decision.verdict != verdict:
        seen = f"{decision.verdict} {decision.when} by {decision.by or 'nobody'}"
        way_out = "A decision stays. The party is asked again in the run's next round, if there is one."
        raise DataError(explain(f"round {held.facts['round']} of run {held.facts['run']}", "wait", seen, way_out))
    return held, decision


def who_asks() -> str:
    """Return the name under which somebody is logged in: what is written down, not a proof."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError, ImportError):  # a number that no user of this system has, as in a container; or Windows
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown user"


def answer_lines(facts: Mapping[str, Any], table: Sequence[Sequence[str]], *, rows: int) -> list[str]:
    """Return a reply as lines of text: what it is, its arrays with their digests, and the first rows of its table."""
    output, claim = facts["output"], facts["claim"]
    said = [
        ("party", facts["party"]),
        ("run", f"{facts['run']} {facts['run_name']}"),
        ("round", f"{facts['round']} of {facts['algorithm']}"),
        ("claim", claim["mechanism"] if claim else "none: no mechanism of this party makes the answer private"),
    ]
    if claim:
        said.append(("", f"protects one {claim['unit']} against {claim['adversary']}"))
    said += [("rule", f"{rule['rule']}: {rule['wanted']}; {rule['seen']}") for rule in facts.get("rules", [])]
    for array in output["arrays"]:
        shape = " x ".join(map(str, array["shape"]))
        said.append(("array", f"{array['name']}: {array['dtype']}, {shape}, {array['bytes']:,} bytes"))
        said.append(("", f"sha256 {array['sha256']}"))
    for name, value in output["metrics"].items():
        shown = f"{value['bytes']:,} bytes, sha256 {value['sha256']}" if isinstance(value, dict) else value
        said.append(("beside", f"{name}: {shown}"))
    said.append(("beside", f"number of examples: {output['num_examples']:,}"))
    said += [("", f"{name}: {value}") for name, value in output.get("sender", {}).items()]
    said.append(("digest", f"{output['sha256']}  ({output['bytes']:,} bytes of arrays)"))
    lines = [f"{word:<10} {one_line(text)}".rstrip() for word, text in said]
    if len(table) > 1:
        lines += ["", *_columns(table[: rows + 1])]
        lines += [f"... {more:,} rows more"] if (more := len(table) - 1 - rows) > 0 else []
    elif output["arrays"]:
        lines += [
            "",
            "It cannot be shown as a table: no person can read a net's weights, nor changes to a lost answer.",
        ]
    return lines


_LOG = ("number", "when", "run", "round", "algorithm", "left", "bytes", "digest", "claim", "approval", "noted")


def log_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the lines of an egress log as a table; what became of an answer stands in the answer's row."""
    outcomes = {line["answer"]: str(line["outcome"]) for line in lines if "outcome" in line}
    rows = [_log_row(line, outcomes.get(line["number"], "")) for line in lines if "outcome" not in line]
    return "\n".join(_columns([_LOG, *rows]))


def _log_row(line: Mapping[str, Any], outcome: str) -> list[str]:
    if line.get("unreadable"):
        return [str(line["number"]), "altered", *[""] * (len(_LOG) - 2)]
    output, claim, approval = line.get("output") or {}, line.get("claim") or {}, line.get("approval") or {}
    by = f" by {approval['by']}: {approval['reason']}" if approval.get("by") else ""
    left = f"only the code {line['code']}" if line.get("code") else "nothing"
    if line.get("left"):
        held = "held, " if outcome.startswith("not ") else "answer, " if outcome else "answer"
        left = f"{held}{outcome}"
    broken = (f"{one['rule']} ({one['seen']})" for one in line.get("rules", []) if not one["kept"])
    return [
        *("" if line.get(name) is None else str(line[name]) for name in _LOG[:5]),  # a refusal may have no round
        left,
        str(output.get("bytes", "")) if line.get("left") else "0",
        str(output.get("sha256", ""))[:16],
        str(claim.get("mechanism", "none")),
        f"{approval.get('verdict', '')}{by}",
        "; ".join(broken),
    ]


def _columns(table: Sequence[Sequence[str]]) -> list[str]:
    return columns([[one_line(cell)[:60] for cell in row] for row in table])
