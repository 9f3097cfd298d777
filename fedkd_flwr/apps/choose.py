"""Compare candidates on a user's own table: the same parties and seeds for each, simulated in this process.

A difference counts as one only where it is more than noise: the candidates meet the same splits of each seed, so their
differences are compared seed by seed, with Student's t and Bonferroni's correction for all pairs of candidates.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from flwr.app import Context, RecordDict

from fedkd_flwr.algorithms import cards
from fedkd_flwr.apps import client_app, server_app
from fedkd_flwr.apps.config import RunConfig, parse_run_config
from fedkd_flwr.apps.in_process import InProcessGrid, quiet
from fedkd_flwr.apps.simulated import party_name
from fedkd_flwr.errors import ConfigError, FedkdError, explain
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.report import derived
from fedkd_flwr.report.paired import LEAST_PAIRS, LEVEL, Paired, paired
from fedkd_flwr.run_record import PartyRecord, RunRecord

__all__ = ["WHOSE", "Comparison", "Outcome", "candidates", "choose", "comparison_text"]

ALONE, FIXED = "each party alone", "one fixed answer"
Whose = Literal["parties", "home", "server"]
_ALGORITHMS = ("fedct", "fedkt", "pate")  # those that send labels, and that any model can join
WHOSE = {
    "parties": "the parties' models on common test rows",
    "home": "the parties' models on their own test rows",
    "server": "the server's model on common test rows",
}


_FIGURES = ("accuracy", "balanced_accuracy")


@dataclass
class Outcome:
    """What one candidate reached, one entry a seed; NaN where a run did not say.

    Parameters
    ----------
    name : str
        The candidate.
    figures : dict
        (whose, figure) -> values, with figure ``accuracy`` or ``balanced_accuracy``.
    kilobytes, seconds : list of float
        Sent by a party over the whole run; time of the run.
    failed : str
        Why a run of it failed; "" if none did.
    missing : dict
        By whose models: which parties lack a figure that the same parties have elsewhere, so that a mean over the
        others would be of other parties.
    """

    name: str
    figures: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    kilobytes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: str = ""
    missing: dict[str, str] = field(default_factory=dict)

    def of(self, whose: str, figure: str) -> list[float]:
        """Return the values of a figure; [] if a run did not give it."""
        values = self.figures.get((whose, figure), [])
        return [] if any(map(math.isnan, values)) else values


@dataclass(kw_only=True)
class Comparison:
    """The outcomes of all candidates, and by which figure they are ranked."""

    seeds: list[int]
    whose: Whose
    figure: str
    outcomes: list[Outcome]
    fixed: Outcome | None = None  # what always answering the commonest class of the test rows has; None: not known
    test_rows: dict[str, list[int]] = field(default_factory=dict)  # whose -> test rows of each seed

    @property
    def ranked(self) -> list[Outcome]:
        """The candidates that have a value for each seed, the best mean first."""
        known = [one for one in self.outcomes if not self.why_not_ranked(one)]
        return sorted(known, key=lambda one: -statistics.fmean(one.of(self.whose, self.figure)))

    def why_not_ranked(self, outcome: Outcome) -> str:
        """Return why an outcome has no place in the ranking; "" if it has one."""
        if outcome.failed:
            return f"failed, {outcome.failed}"
        if missing := outcome.missing.get(self.whose):
            return missing
        if len(outcome.of(self.whose, self.figure)) != len(self.seeds):
            return f"not every run gave {self.figure.replace('_', ' ')} of {WHOSE[self.whose]}"
        return ""

    def ahead(self, best: Outcome, other: Outcome) -> Paired:
        """Return by how much one ranked candidate is ahead of another, seed by seed."""
        values = [one.of(self.whose, self.figure) for one in (best, other)]
        return paired(*values, comparisons=math.comb(len(self.ranked), 2))

    def above_fixed(self, outcome: Outcome) -> Paired | None:
        """Return by how much a ranked candidate is above one fixed answer, seed by seed; None: not known."""
        fixed = self.fixed.of(self.whose, self.figure) if self.fixed else []
        if len(fixed) != len(self.seeds):
            return None
        return paired(outcome.of(self.whose, self.figure), fixed, comparisons=len(self.ranked))

    def within_noise(self) -> list[Outcome]:
        """Return the candidates that the best one cannot be told from."""
        best, *others = self.ranked
        return [one for one in others if not self.ahead(best, one).clear]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain JSON types; NaN where a run did not say."""
        equal = {one.name for one in self.within_noise()} if len(self.seeds) > 1 and self.ranked else set()
        return {
            "seeds": self.seeds,
            "whose": self.whose,
            "figure": self.figure,
            "ranking": [one.name for one in self.ranked],
            "not_told_from_the_first": sorted(equal) if len(self.seeds) > 1 else None,
            "test_rows": self.test_rows,
            "one_fixed_answer": _figures_by_name(self.fixed) if self.fixed else None,
            "candidates": [
                {
                    "name": one.name,
                    "failed": one.failed,
                    "not_ranked": self.why_not_ranked(one),
                    "figures": _figures_by_name(one),
                    "kilobytes_up": one.kilobytes,
                    "seconds": one.seconds,
                }
                for one in self.outcomes
            ],
        }


def candidates(num_classes: int) -> dict[str, dict[str, Any]]:
    """Return the candidates by name, each with the settings that make it: algorithms that send labels, by consensus.

    Dawid-Skene is left out with two classes, where it harms.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in _ALGORITHMS:
        config = cards()[name].config
        choices = get_args(config.model_fields["consensus"].annotation) if "consensus" in config.model_fields else ()
        for rule in choices:
            if rule != "dawid-skene" or num_classes > 2:
                found[f"{name}:{rule}"] = {"algorithm": name, config.keys()["consensus"]: rule}
        if not choices:
            found[name] = {"algorithm": name}
    return found


def choose(
    values: Mapping[str, Any],
    *,
    names: Sequence[str] = (),
    seeds: int = 5,
    whose: Whose = "parties",
    figure: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Run each candidate with each seed, and return what they reach.

    Parameters
    ----------
    values : mapping
        Settings of all runs, as for ``flwr run``: a simulation of ``num-parties`` parties.
    names : sequence of str
        Which of `candidates`; all by default.
    seeds : int
        How many seeds, 1 or more, from ``values["seed"]`` (1 by default) on. Of one seed nothing can be said about
        noise.
    whose : {"parties", "home", "server"}
        Whose model counts.
    figure : {"", "accuracy", "balanced_accuracy"}
        What candidates are ranked by; by default balanced accuracy where the classes are imbalanced, else accuracy.
    progress : callable
        Called with a line after each run.

    Raises
    ------
    ConfigError
        If a setting is wrong, a candidate is not known, or every run failed.
    DataError
        If the data cannot be loaded.
    """
    from fedkd_flwr.apps.simulated import check_simulation, simulated_pool

    first = parse_run_config({**values, "algorithm": "fedct"})
    if first.public_path or first.num_parties < 2:
        rule = "be a simulation of at least 2 parties"
        raise ConfigError(explain("the comparison", rule, f"num-parties {first.num_parties}", "Give --parties."))
    check_simulation(first, first.num_parties)
    known = candidates(simulated_pool(first).public.num_classes)
    for name in names:
        if name not in known:
            raise ConfigError(explain("candidate", f"be one of {', '.join(known)}", name))
    chosen = {name: known[name] for name in names} or known
    start = first.seed
    configs = {  # all settings are checked before the first run
        (name, seed): parse_run_config({**values, **settings, "seed": seed, "centralised": False})
        for name, settings in chosen.items()
        for seed in range(start, start + seeds)
    }
    outcomes = {name: Outcome(name) for name in chosen}
    records: dict[str, dict[int, RunRecord]] = {name: {} for name in chosen}  # by candidate and seed
    began = time.monotonic()
    for number, ((name, seed), config) in enumerate(configs.items(), 1):
        outcome = outcomes[name]
        if not outcome.failed:
            try:
                records[name][seed] = _run(config)
            except (FedkdError, RuntimeError) as error:
                outcome.failed = f"seed {seed}: {str(error).splitlines()[0]}"
        told = f"failed, {outcome.failed}" if outcome.failed else "done"
        progress(f"run {number} of {len(configs)}: {name}, seed {seed}: {told} ({time.monotonic() - began:.0f} s)")
    ran = [record for by_seed in records.values() for record in by_seed.values()]
    if not ran:
        raise ConfigError("Every run failed. " + "; ".join(f"{one.name}, {one.failed}" for one in outcomes.values()))
    lead = figure or derived.figure_used(ran[0], "own" if whose == "home" else "common")
    kept = list(range(start, start + seeds))
    for name, outcome in outcomes.items():
        for seed, record in records[name].items():
            _enter(outcome, record, "federated")
            beside = [by_seed[seed] for by_seed in records.values() if seed in by_seed]
            _note_missing(outcome, record, beside, "federated")
    alone = Outcome(ALONE)
    for seed in kept:
        beside = [by_seed[seed] for by_seed in records.values() if seed in by_seed]
        if beside:  # of any candidate: its parties trained the same models alone
            fullest = max(beside, key=lambda record: len(_who(record, "solo", "common")))
            _enter(alone, fullest, "solo")
            _note_missing(alone, fullest, beside, "solo")
    fixed, test_rows = _one_fixed_answer(records.values(), kept)
    return Comparison(
        seeds=kept,
        whose=whose,
        figure=lead,
        outcomes=[alone, *outcomes.values()],
        fixed=fixed,
        test_rows=test_rows,
    )


def _who(record: RunRecord, kind: str, rows: str) -> set[str]:
    """Return the parties whose models of a kind were tested."""
    return {party.name for party in record.parties if rows in getattr(party, kind)}


def _note_missing(outcome: Outcome, record: RunRecord, beside: Sequence[RunRecord], kind: str) -> None:
    """Note which parties lack a test that they have in other runs of the same seed."""
    for whose, rows in (("parties", "common"), ("home", "own")):
        missing = sorted(set().union(*(_who(one, kind, rows) for one in beside)) - _who(record, kind, rows))
        if missing:
            outcome.missing.setdefault(whose, f"seed {record.seed}: no figure of {', '.join(missing)}")


def _enter(outcome: Outcome, record: RunRecord, kind: str) -> None:
    for figure in _FIGURES:
        means = record.mean_accuracies(figure)
        server = derived.known(record.server, "common", figure) if kind == "federated" else None
        for whose, value in (
            ("parties", means.get(f"{kind}-common")),
            ("home", means.get(f"{kind}-own")),
            ("server", server),
        ):
            outcome.figures.setdefault((whose, figure), []).append(math.nan if value is None else value)
    if kind == "federated":
        sent = sum(r.bytes_up / len(r.answered) for r in record.rounds if r.answered)
        outcome.kilobytes.append(sent / 1000)
        outcome.seconds.append(record.seconds)


def _figures_by_name(outcome: Outcome) -> dict[str, list[float]]:
    return {f"{whose}:{figure}": values for (whose, figure), values in outcome.figures.items()}


def _one_fixed_answer(
    records: Collection[Mapping[int, RunRecord]], seeds: Sequence[int]
) -> tuple[Outcome, dict[str, list[int]]]:
    """Return what always answering the commonest class of the test rows has, and how many test rows each seed has.

    All candidates meet the same test rows of a seed. At home it is the mean over the parties, each with its own
    commonest class, and the rows of all parties together.
    """
    fixed, test_rows = Outcome(FIXED), dict[str, list[int]]()
    for seed in seeds:
        parties = [by_seed[seed].parties for by_seed in records if seed in by_seed]
        tests = {name: test for many in parties for party in many for name, test in _tests(party)}
        common = [test for (_, rows), test in tests.items() if rows == "common"][:1]
        own = [test for (_, rows), test in tests.items() if rows == "own"]
        for whose, found in (("parties", common), ("home", own), ("server", common)):
            test_rows.setdefault(whose, []).append(sum(test.n for test in found))
            for figure, of in (("accuracy", lambda test: test.baseline), ("balanced_accuracy", _one_class_of)):
                known = [value for test in found if (value := of(test)) is not None]
                mean = statistics.fmean(known) if known and len(known) == len(found) else math.nan
                fixed.figures.setdefault((whose, figure), []).append(mean)
    return fixed, test_rows


def _tests(party: PartyRecord) -> Iterator[tuple[tuple[str, str], Metrics]]:
    for measured in (party.federated, party.solo):
        for rows, test in measured.items():
            yield (party.name, rows), test


def _one_class_of(test: Metrics) -> float | None:
    """Return the balanced accuracy of one fixed answer: one class of those that occur; None: not known."""
    occurring = sum(count != 0 for count in test.support)
    return 1 / occurring if occurring and None not in test.support else None


def _run(config: RunConfig) -> RunRecord:
    """Run one federation in this process, and return its record; nothing stays on disk."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        config = config.model_copy(update={"output_dir": folder})
        scalars, count = config.as_scalars(), config.num_parties
        nodes = [{"partition-id": i, "num-partitions": count, "party": party_name(i)} for i in range(count)]
        grid = InProcessGrid(client_app.app, nodes, scalars)
        return server_app.federate(grid, Context(1, 1, {}, RecordDict(), scalars), page=False)


def comparison_text(found: Comparison) -> str:
    """Return the comparison as a table of plain text, with what can be said of it and what cannot.

    The figure that candidates are ranked by stands in the first column, and the best candidate in the first line.
    """
    lead = found.figure.replace("_", " ")
    figures = [found.figure, *(name for name in _FIGURES if name != found.figure)]
    columns = [(whose, name) for whose in (found.whose, *(w for w in WHOSE if w != found.whose)) for name in figures]
    ranked = found.ranked
    outcomes = [*ranked, *(one for one in found.outcomes if one not in ranked), *([found.fixed] if found.fixed else [])]
    width = max(len(one.name) for one in outcomes)
    titles = "".join(f"  {_title(whose, name, first=name == figures[0]):>16}" for whose, name in columns)
    seeds = "1 seed" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds"
    which = f"{found.seeds[0]} to {found.seeds[-1]}" if len(found.seeds) > 1 else f"{found.seeds[0]}"
    lines = [f"mean (standard deviation) over {seeds}, {which}{_rows_told(found)}"]
    lines.append(f"{'':<{width}}{titles}  {'KB up':>8}  {'s':>6}")
    for one in outcomes:
        if one.failed:
            lines.append(f"{one.name:<{width}}  failed, {one.failed}")
            continue
        cells = "".join(f"  {_cell(one.of(whose, figure)):>16}" for whose, figure in columns)
        cost = f"  {_mean(one.kilobytes, 1):>8}  {_mean(one.seconds, 1):>6}"
        lines.append(f"{one.name:<{width}}{cells}{cost}")
    if found.fixed:
        lines.append(f"{FIXED}: always the commonest class of the test rows.")
    lines.append("")
    if not ranked:
        return "\n".join([*lines, f"No candidate has {lead} of {WHOSE[found.whose]} for each seed.", *_left_out(found)])
    best = ranked[0]
    lines.append(f"Ranked by {lead} of {WHOSE[found.whose]}.")
    lines += _left_out(found)
    gaps = [(other, found.ahead(best, other)) for other in ranked[1:]]
    lines += [_gap_sentence(best, other, gap) for other, gap in gaps]
    if any(gap.known for _, gap in gaps):
        lines.append(f"± is a {LEVEL:.0%} interval for all pairs together (paired by seed, Student's t, Bonferroni).")
    return "\n".join([*lines, *_finding(found, best)])


def _title(whose: str, figure: str, *, first: bool) -> str:
    """Return the head of a column; the first one of those of somebody's models says whose they are.

    >>> _title("home", "balanced_accuracy", first=True), _title("home", "accuracy", first=False)
    ('home: bal. acc.', 'accuracy')
    """
    of = {"home": "home: ", "server": "server: "}.get(whose, "") if first else ""
    return f"{of}{'bal. acc.' if figure == 'balanced_accuracy' else figure}"


def _rows_told(found: Comparison) -> str:
    """Return how many test rows there are, to follow the seeds; "" where it is not known."""
    told = [
        f"{min(counts):,}{f' to {max(counts):,}' if len(set(counts)) > 1 else ''} {words}"
        for whose, words in (("parties", "common test rows"), ("home", "test rows at home, of all parties together"))
        if any(counts := found.test_rows.get(whose, []))
    ]
    return "".join(f"; {one}" for one in told)


def _left_out(found: Comparison) -> list[str]:
    """Return a sentence on each outcome that is not ranked."""
    said = []
    for one in found.outcomes:
        if one.name == ALONE and found.whose == "server":
            said.append("Staying alone is not ranked: it gives no server's model.")
        elif why := found.why_not_ranked(one):
            said.append(f"{one.name} is not ranked: {why}.")
    return said


def _gap_sentence(best: Outcome, other: Outcome, gap: Paired) -> str:
    if gap.same:
        return f"{best.name} and {other.name} reach the same in each seed."
    words = f"{best.name} is ahead of {other.name} by {gap.mean:.3f}"
    if gap.n < 2:
        return f"{words}, of one seed."
    words += f" ± {gap.half:.3f}" if gap.known else ""
    return f"{words}." if gap.clear else f"{words}: {gap.verdict('seed')}."


def _finding(found: Comparison, best: Outcome) -> list[str]:
    """Return which candidate is the best, if that can be said."""
    seeds, others = len(found.seeds), [one for one in found.ranked if one.name != ALONE]
    above = found.above_fixed(others[0]) if others else None
    if above and above.mean <= 0:
        return [f"No candidate is above {_fixed_words(found)}."]
    if seeds < LEAST_PAIRS:
        few = "One seed says nothing" if seeds == 1 else f"{seeds} seeds say too little"
        return [f"{few} about noise: no best candidate is named. Give --seeds 5 or more."]
    if above and not above.clear:
        return [f"No candidate is above {_fixed_words(found)} by more than noise."]
    equal = [one.name for one in found.within_noise()]
    if ALONE in equal or best.name == ALONE:
        return ["No candidate is better than staying alone by more than noise."]
    told = f", but it cannot be told from {', '.join(equal)}. More --seeds tell more apart" if equal else ""
    said = [f"Best: {best.name}{told}."] if len(others) > 1 else [f"{best.name} is the only candidate{_ranked(found)}."]
    if ALONE not in [one.name for one in found.ranked]:
        said.append("Whether it is better than staying alone is not known here.")
    elif len(others) == 1:
        said.append("It is better than staying alone by more than noise.")
    if len(others) > 1:
        said.append("The seeds that its mean is taken over also chose it, so this mean is a little optimistic.")
    return said


def _fixed_words(found: Comparison) -> str:
    value = _mean(found.fixed.of(found.whose, found.figure) if found.fixed else [], 3)
    return f"one fixed answer ({found.figure.replace('_', ' ')} {value})"


def _ranked(found: Comparison) -> str:
    """Return that others are not ranked, to follow the only candidate; "" where there is no other."""
    return " that is ranked" if sum(one.name != ALONE for one in found.outcomes) > 1 else ""


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = f" ({statistics.stdev(values):.3f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def _mean(values: Sequence[float], digits: int) -> str:
    return f"{statistics.fmean(values):,.{digits}f}" if values else "–"
